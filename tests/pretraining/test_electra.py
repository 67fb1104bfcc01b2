import pytest
import torch

from modeling_lvbert import LVBertConfig, LVBertForMaskedLM, LVBertForPreTraining
from modeling_lvbert.pretraining.electra import (
    ElectraConfig,
    ElectraForPreTraining,
    derive_generator_config,
    sample_tokens,
)
from tests.families import padded_batch
from tests.original_checkpoints import GOLDENS, lvbert_config, lvbert_state, read_arrays

SIZES = {
    "vocab_size": 99,
    "embedding_size": 24,
    "hidden_size": 64,
    "intermediate_size": 80,
    "layer_order": "dsf",
    "max_position_embeddings": 32,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
MASK = 4


def build(**options):
    discriminator = LVBertConfig(**SIZES)
    generator = derive_generator_config(discriminator, 0.25)
    return ElectraForPreTraining(
        ElectraConfig(
            discriminator_fields=discriminator.to_dict(),
            generator_fields=generator.to_dict(),
            special_token_ids=[0, 1, 2, 3, 4],
            **options,
        )
    )


def masked_batch(lengths=(10, 6), width=10, seed=0):
    batch = padded_batch(list(lengths), width, seed)
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.rand(batch["input_ids"].shape, generator=generator) < 0.3
    chosen[:, 0] = True
    chosen &= batch["attention_mask"].bool()
    return {
        "input_ids": batch["input_ids"].masked_fill(chosen, MASK),
        "labels": batch["input_ids"].masked_fill(~chosen, -100),
        "attention_mask": batch["attention_mask"],
        "sample_fractions": torch.rand(chosen.shape, generator=generator),
    }


def test_generator_is_narrow_with_the_same_order_and_embeddings():
    generator = derive_generator_config(LVBertConfig(), 0.25)
    assert (generator.hidden_size, generator.intermediate_size) == (64, 256)
    assert generator.num_attention_heads == 1
    assert generator.layer_order == LVBertConfig().layer_order
    assert generator.embedding_size == 128
    base = derive_generator_config(LVBertConfig.from_size("base"), 1 / 3)
    assert (base.hidden_size, base.num_attention_heads) == (256, 4)
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        derive_generator_config(LVBertConfig(), 0.0)


def test_loss_is_the_weighted_sum_of_both():
    model = build(generator_weight=2.0, discriminator_weight=50.0)
    outputs = model(**masked_batch())
    torch.testing.assert_close(
        outputs.loss, 2 * outputs.generator_loss + 50 * outputs.discriminator_loss
    )


def test_both_halves_are_the_ordinary_models():
    model, batch = build().eval(), masked_batch()
    outputs = model(**batch)
    inputs = {"attention_mask": batch["attention_mask"], "input_ids": batch["input_ids"]}
    generated = model.generator(**inputs, labels=batch["labels"])
    torch.testing.assert_close(outputs.generator_loss, generated.loss)
    inputs["input_ids"] = outputs.sampled_ids
    detected = model.discriminator(**inputs, labels=outputs.replaced)
    torch.testing.assert_close(outputs.discriminator_loss, detected.loss)
    torch.testing.assert_close(outputs.logits, detected.logits)
    masked = batch["labels"] != -100
    assert torch.equal(outputs.generator_predictions[masked], generated.logits.argmax(-1)[masked])


def test_only_masked_tokens_are_replaced_and_a_right_guess_is_original():
    model, batch = build(), masked_batch()
    outputs = model(**batch)
    masked = batch["labels"] != -100
    assert torch.equal(outputs.sampled_ids[~masked], batch["input_ids"][~masked])
    right = masked & (outputs.sampled_ids == batch["labels"])
    assert (outputs.replaced[right] == 0).all()
    assert (outputs.replaced[masked & ~right] == 1).all()
    assert (outputs.replaced[batch["attention_mask"] == 0] == -100).all()
    # A generator that is always right replaces nothing.
    certain = torch.full((3, 99), -1e4).scatter(1, torch.tensor([[7], [0], [98]]), 1e4)
    assert sample_tokens(certain, torch.tensor([0.0, 0.5, 0.999999])).tolist() == [7, 0, 98]


def test_detection_loss_does_not_reach_the_generator():
    model = build(generator_weight=0.0)
    model(**masked_batch()).loss.backward()
    for name, parameter in model.generator.named_parameters():
        if "embeddings." in name or name == "generator_lm_head.weight":
            continue
        assert parameter.grad is None or (parameter.grad == 0).all(), name
    model = build(discriminator_weight=0.0)
    model(**masked_batch()).loss.backward()
    for name, parameter in model.discriminator.named_parameters():
        if "embeddings." not in name:
            assert parameter.grad is None or (parameter.grad == 0).all(), name


def test_one_step_moves_both_halves():
    model = build()
    before = {name: value.clone() for name, value in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(**masked_batch()).loss.backward()
    optimizer.step()
    moved = {name for name, value in model.named_parameters() if (value != before[name]).any()}
    assert not {name for name in before if name.endswith("weight")} - moved


def test_samples_follow_the_distribution_and_depend_on_their_own_number_only():
    logits = torch.tensor([[0.0, 1.0, -torch.inf, 2.0]]).repeat(20_000, 1)
    fractions = torch.rand(20_000)
    samples = sample_tokens(logits, fractions)
    shares = torch.bincount(samples, minlength=4) / 20_000
    torch.testing.assert_close(shares, logits[0].softmax(0), atol=0.015, rtol=0.0)
    assert shares[2] == 0
    order = torch.randperm(20_000)
    assert torch.equal(sample_tokens(logits, fractions[order]), samples[order])
    assert sample_tokens(logits[:2], torch.tensor([0.0, 1 - 2**-24])).tolist() == [0, 3]


def test_temperature_sharpens_and_correct_tokens_can_be_disallowed():
    logits = torch.tensor([[0.0, 3.0]]).repeat(1000, 1)
    fractions = torch.linspace(0, 0.999, 1000)
    assert sample_tokens(logits / 0.01, fractions).float().mean() > 0.99
    excluded = torch.ones(1000, dtype=torch.long)
    assert (sample_tokens(logits, fractions, excluded) == 0).all()
    model, batch = build(disallow_correct=True), masked_batch()
    masked = batch["labels"] != -100
    assert (model(**batch).replaced[masked] == 1).all()


def test_uniform_generator_draws_ordinary_tokens_and_has_no_loss():
    model, batch = build(uniform_generator=True), masked_batch(lengths=(30,) * 8, width=30)
    outputs = model(**batch)
    samples = outputs.sampled_ids[batch["labels"] != -100]
    assert samples.min() >= 5 and samples.unique().numel() > 30
    assert outputs.generator_loss == 0
    outputs.loss.backward()


def test_rows_do_not_depend_on_their_batch():
    model, batch = build().eval(), masked_batch()
    together = model(**batch)
    for row in range(2):
        alone = model(**{name: value[row : row + 1] for name, value in batch.items()})
        assert torch.equal(alone.sampled_ids[0], together.sampled_ids[row])


def test_parts_of_a_step_add_up_to_the_whole():
    model, batch = build().eval(), masked_batch()
    whole = model(**batch)
    items = torch.stack([batch["labels"].ne(-100).sum(), batch["attention_mask"].sum()])
    parts = [
        model(
            **{name: value[row : row + 1] for name, value in batch.items()},
            num_items_in_batch=items,
        )
        for row in range(2)
    ]
    torch.testing.assert_close(parts[0].loss + parts[1].loss, whole.loss)


@pytest.mark.parametrize("tied", [True, False])
def test_one_checkpoint_restores_and_ties_both_halves(tied, tmp_path):
    model, batch = build(tie_embeddings=tied), masked_batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
    model.save_pretrained(tmp_path)
    loaded, report = ElectraForPreTraining.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    torch.testing.assert_close(loaded.eval()(**batch).loss, model.eval()(**batch).loss)
    ours, theirs = loaded.discriminator.lvbert.embeddings, loaded.generator.lvbert.embeddings
    for name, parameter in ours.named_parameters():
        assert (parameter is theirs.get_parameter(name)) == tied, name
    assert loaded.generator.generator_lm_head.weight is theirs.word_embeddings.weight


def test_each_half_is_exported_as_an_ordinary_folder(tmp_path):
    model, batch = build().eval(), masked_batch()
    inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    for name, model_class in (
        ("discriminator", LVBertForPreTraining),
        ("generator", LVBertForMaskedLM),
    ):
        model.export_half(name, tmp_path / name)
        loaded, report = model_class.from_pretrained(tmp_path / name, output_loading_info=True)
        assert not any(report.values()), report
        expected = getattr(model, name)(**inputs).logits
        torch.testing.assert_close(loaded(**inputs).logits, expected)
        assert (tmp_path / name / "modeling_lvbert.py").exists()
    assert model.generator.lvbert.embeddings.word_embeddings.weight is (
        model.discriminator.lvbert.embeddings.word_embeddings.weight
    )
    with pytest.raises(ValueError, match="unknown half 'both'"):
        model.export_half("both", tmp_path / "both")


def test_unequal_sizes_cannot_share_embeddings():
    discriminator = LVBertConfig(**SIZES)
    generator = LVBertConfig(**{**SIZES, "embedding_size": 16})
    halves = {
        "discriminator_fields": discriminator.to_dict(),
        "generator_fields": generator.to_dict(),
    }
    with pytest.raises(ValueError, match="embedding_size is 24 .* 16"):
        ElectraConfig(**halves)
    ElectraConfig(**halves, tie_embeddings=False)
    for wrong in ({"temperature": 0}, {"discriminator_weight": -1}):
        with pytest.raises(ValueError, match="must"):
            ElectraConfig(**wrong)


def fractions_that_sample(logits, ids):
    """Returns the middle of each token's interval of cumulated probability."""
    cumulated = logits.softmax(-1).double().cumsum(-1)
    upper = cumulated.gather(1, ids[:, None])[:, 0]
    return upper - logits.softmax(-1).double().gather(1, ids[:, None])[:, 0] / 2


def test_against_original_pretraining_loss():
    golden = "lvbert_small_order"
    halves = {name: lvbert_config(golden, name) for name in ("discriminator", "generator")}
    for half in halves.values():
        half.hidden_dropout_prob = half.attention_probs_dropout_prob = 0.0
    model = ElectraForPreTraining(
        ElectraConfig(**{f"{name}_fields": half.to_dict() for name, half in halves.items()})
    ).eval()
    variables = read_arrays(GOLDENS / golden / "weights.npz")
    for name, half in halves.items():
        getattr(model, name).load_state_dict(lvbert_state(variables, half.layer_order, name))
    inputs = read_arrays(GOLDENS / golden / "inputs.npz")
    expected = read_arrays(GOLDENS / golden / "outputs.npz")
    ids = inputs["masked_input_ids"].long()
    labels = torch.full_like(ids, -100)
    fractions = torch.zeros(ids.shape, dtype=torch.double)
    for row in range(len(ids)):
        used = inputs["masked_lm_weights"][row] > 0
        positions = inputs["masked_lm_positions"][row, used].long()
        assert len(set(positions.tolist())) == len(positions), "the set has no duplicates"
        labels[row, positions] = inputs["masked_lm_ids"][row, used].long()
        fractions[row, positions] = fractions_that_sample(
            expected["pretrain/masked_lm_logits"][row, used],
            inputs["sampled_token_ids"][row, used].long(),
        )
    outputs = model(
        input_ids=ids,
        labels=labels,
        attention_mask=inputs["input_mask"].long(),
        token_type_ids=inputs["segment_ids"].long(),
        sample_fractions=fractions,
    )
    assert torch.equal(outputs.sampled_ids, expected["pretrain/disc_input_ids"].long())
    for ours, theirs in (
        (outputs.generator_loss, "masked_lm_loss"),
        (outputs.discriminator_loss, "disc_loss"),
        (outputs.loss, "total_loss"),
    ):
        torch.testing.assert_close(ours, expected[f"pretrain/{theirs}"], rtol=2e-5, atol=0.0)
