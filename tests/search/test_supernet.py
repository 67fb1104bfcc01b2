import itertools
import random

import pytest
import torch

from modeling_lvbert import ELCBertConfig, LVBertConfig, LVBertForMaskedLM
from modeling_lvbert.pretraining.electra import ElectraConfig, derive_generator_config
from modeling_lvbert.search.evolution import Space
from modeling_lvbert.search.supernet import (
    build_supernet,
    extract,
    find_encoder,
    make_supernet_order,
)

NUM_LAYERS = 5
SIZES = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
KINDS = ("lvbert", "electra", "base", "zero", "normalized", "ltg")


def build(kind, seed=0, **fields):
    torch.manual_seed(seed)
    if kind in ("lvbert", "electra"):
        order = make_supernet_order(NUM_LAYERS, "lvbert")
        config = LVBertConfig(layer_order=order, embedding_size=16, **{**SIZES, **fields})
        if kind == "electra":
            generator = derive_generator_config(config, 0.5)
            config = ElectraConfig(
                discriminator_fields=config.to_dict(), generator_fields=generator.to_dict()
            )
        return build_supernet(config)
    order = make_supernet_order(NUM_LAYERS, "elcbert")
    return build_supernet(ELCBertConfig(layer_order=order, variant=kind, **{**SIZES, **fields}))


def draw_orders(kind, number=10):
    rng = random.Random(1)
    space = Space(NUM_LAYERS, has_words=kind not in ("lvbert", "electra"))
    return [space.sample(rng) for _ in range(number)]


def make_batch(kind):
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(5, 50, (3, 9), generator=generator)
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    labels = torch.full_like(ids, -100)
    labels[:, 2:4] = ids[:, 2:4]
    batch = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    if kind == "electra":
        batch["sample_fractions"] = torch.rand(ids.shape, generator=generator)
    return batch


@pytest.mark.parametrize("kind", KINDS)
def test_the_extracted_model_is_the_path_to_the_last_bit(kind):
    supernet, batch = build(kind).eval(), make_batch(kind)
    with torch.no_grad():
        for order in draw_orders(kind):
            path = supernet(**batch, layer_order=order)
            model = extract(supernet, order)(**batch)
            assert torch.equal(path.loss, model.loss)
            assert torch.equal(path.logits, model.logits)


def count_saved_bytes(model, **inputs):
    """Returns the memory of what a forward pass keeps for the backward one, weights aside."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            # Held, so that no later tensor gets the same place.
            kept[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(**inputs)
    return sum(size for size, _ in kept.values())


@pytest.mark.parametrize("kind", ["lvbert", "electra", "zero"])
def test_a_step_keeps_the_activations_of_one_path_alone(kind):
    supernet, batch = build(kind).train(), make_batch(kind)
    twice = {name: torch.cat([value, value]) for name, value in batch.items()}
    for order in draw_orders(kind, 3):
        model, more = extract(supernet, order).train(), []
        for inputs in (batch, twice):
            expected = count_saved_bytes(model, **inputs)
            more.append(count_saved_bytes(supernet, **inputs, layer_order=order) - expected)
        # ELC-BERT's weights of a path's words are a part of the supernet's, which does not grow
        # with the batch.
        assert more[0] == more[1]
        assert more[0] == 0 if kind != "zero" else 0 <= more[0] < 0.01 * expected


@pytest.mark.parametrize("kind", ["lvbert", "electra", "zero"])
def test_gradients_are_the_extracted_model_s_and_other_layers_have_none(kind):
    supernet, batch = build(kind).train(), make_batch(kind)
    for order in draw_orders(kind, 3):
        supernet.zero_grad()
        model = extract(supernet, order)
        supernet(**batch, layer_order=order).loss.backward()
        model(**batch).loss.backward()
        expected = sorted(
            float(p.grad.double().norm()) for p in model.parameters() if p.grad is not None
        )
        found = {name: p.grad for name, p in supernet.named_parameters() if p.grad is not None}
        assert sorted(float(grad.double().norm()) for grad in found.values()) == expected
        letters = order.replace(" ", "")
        on_path = {f"positions.{place}.{letter}." for place, letter in enumerate(letters)}
        assert all(any(part in name for part in on_path) for name in found if ".positions." in name)


def test_the_extracted_model_shares_nothing_with_the_supernet():
    supernet = build("lvbert")
    before = [p.detach().clone() for p in supernet.parameters()]
    model = extract(supernet, "dsfds")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    assert all(torch.equal(a, b) for a, b in zip(before, supernet.parameters(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_tree_of_orders_gives_each_its_own_output(kind):
    supernet, batch = build(kind).eval(), make_batch(kind)
    model = supernet.discriminator if kind == "electra" else supernet
    inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    orders = draw_orders(kind, 12)
    outputs = {}
    with torch.no_grad():
        model.base_model(**inputs, orders=orders, visit=outputs.__setitem__)
        assert set(outputs) == set(orders)
        for order in orders:
            alone = model.base_model(**inputs, layer_order=order).last_hidden_state
            assert torch.equal(outputs[order], alone)


def test_common_beginnings_are_computed_once(monkeypatch):
    supernet, batch = build("lvbert").eval(), make_batch("lvbert")
    encoder = find_encoder(supernet)
    steps = []
    step = encoder.step

    def count(state, place, gene, context):
        steps.append((place, gene))
        return step(state, place, gene, context)

    monkeypatch.setattr(encoder, "step", count)
    orders = ["".join(letters) for letters in itertools.product("sfd", repeat=NUM_LAYERS)]
    random.Random(0).shuffle(orders)
    with torch.no_grad():
        supernet.lvbert(batch["input_ids"], orders=orders, visit=lambda order, output: None)
    # Every node of the tree once.
    assert len(steps) == sum(3**depth for depth in range(1, NUM_LAYERS + 1))


def test_a_supernet_is_saved_and_loaded_whole(tmp_path):
    for kind in ("lvbert", "zero", "electra"):
        supernet, batch = build(kind).eval(), make_batch(kind)
        supernet.save_pretrained(tmp_path / kind)
        loaded, info = type(supernet).from_pretrained(tmp_path / kind, output_loading_info=True)
        assert not info["missing_keys"]
        assert not info["unexpected_keys"]
        weights = supernet.state_dict()
        assert all(torch.equal(weights[name], w) for name, w in loaded.state_dict().items())
        order = draw_orders(kind, 1)[0]
        with torch.no_grad():
            torch.testing.assert_close(
                loaded.eval()(**batch, layer_order=order).logits,
                supernet(**batch, layer_order=order).logits,
            )


def test_the_extracted_model_is_an_ordinary_folder(tmp_path):
    supernet = build("lvbert").eval()
    extract(supernet, "ddsff").save_pretrained(tmp_path)
    model = LVBertForMaskedLM.from_pretrained(tmp_path).eval()
    assert model.config.layer_order == "ddsff"
    batch = make_batch("lvbert")
    with torch.no_grad():
        path = supernet(**batch, layer_order="ddsff").logits
        torch.testing.assert_close(model(**batch).logits, path)


@pytest.mark.parametrize("order", ["sf", "sfsfsf"])
def test_an_order_of_another_length_is_refused(order):
    supernet = build("lvbert")
    with pytest.raises(ValueError, match=f"has {len(order)} letters, the supernet has 5"):
        extract(supernet, order)
    with pytest.raises(ValueError, match="letters"):
        supernet(**make_batch("lvbert"), layer_order=order)


def test_what_has_no_supernet_is_refused():
    with pytest.raises(ValueError, match="weighted_output"):
        build("weighted_output")
    with pytest.raises(ValueError, match="one letter each"):
        build_supernet(ELCBertConfig(layer_order="sf sf", **SIZES))
    with pytest.raises(ValueError, match="num_layers 0"):
        make_supernet_order(0, "lvbert")
