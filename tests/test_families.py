"""What must hold for the encoders of both families."""

import copy

import pytest
import torch
from torch.nn import functional

from tests.families import FAMILIES, HEADS, SIZES, build, model_class, padded_batch, small_config

BOTH = pytest.mark.parametrize("family", FAMILIES)
IMPLEMENTATIONS = ("eager", "sdpa")
ORDERS = ("s", "f", "d", "dsfsd", "sf dsf d", "ddsffs", "s s s", "fd df")


@BOTH
@pytest.mark.parametrize("order", ORDERS)
def test_hidden_states_and_attentions_of_any_order(family, order):
    model = build(family, layer_order=order)
    outputs = model(**padded_batch([6, 3], 6), output_hidden_states=True, output_attentions=True)
    assert len(outputs.hidden_states) == model.config.num_hidden_layers + 1
    assert torch.equal(outputs.hidden_states[-1], outputs.last_hidden_state)
    assert all(state.shape == (2, 6, 32) for state in outputs.hidden_states)
    assert len(outputs.attentions) == order.count("s")
    for probabilities in outputs.attentions:
        assert probabilities.shape == (2, 4, 6, 6)
        torch.testing.assert_close(probabilities.sum(-1), torch.ones(2, 4, 6))
        assert (probabilities[1, ..., 3:] == 0).all()


@BOTH
def test_hidden_states_through_configuration_tuple_and_selection(family):
    model = build(family)
    inputs = padded_batch([6, 3], 6)
    expected = model(**inputs, output_hidden_states=True).hidden_states
    assert model(**inputs).hidden_states is None
    as_tuple = model(**inputs, output_hidden_states=True, return_dict=False)
    assert torch.equal(as_tuple[1][0], expected[0])
    model.config.output_hidden_states = True
    assert len(model(**inputs).hidden_states) == len(expected)


@BOTH
def test_order_of_the_layers_matters(family):
    inputs = padded_batch([6, 3], 6)
    first = build(family, layer_order="s d f")
    second = build(family, layer_order="f d s")
    state = {
        name.replace("layers.0.", "x.")
        .replace("layers.2.", "layers.0.")
        .replace("x.", "layers.2."): v
        for name, v in first.state_dict().items()
    }
    if family == "LVBert":
        second.load_state_dict(state)
    assert (first(**inputs)[0] - second(**inputs)[0]).abs().max() > 1e-2


@BOTH
@pytest.mark.parametrize("attention", IMPLEMENTATIONS)
@pytest.mark.parametrize("lengths", [[6], [1], [3, 6, 1], [8, 2]])
def test_padding_and_batch_mates_do_not_change_a_row(family, attention, lengths):
    model = build(family, attention=attention)
    width = max(lengths)
    batch = padded_batch(lengths, width)
    together = model(**batch).last_hidden_state
    wide = model(**{name: functional.pad(value, (0, 5)) for name, value in batch.items()})
    for row, length in enumerate(lengths):
        alone = model(input_ids=batch["input_ids"][row : row + 1, :length]).last_hidden_state[0]
        torch.testing.assert_close(together[row, :length], alone, atol=2e-5, rtol=1e-4)
        torch.testing.assert_close(
            wide.last_hidden_state[row, :length], alone, atol=2e-5, rtol=1e-4
        )


@BOTH
def test_padding_reaches_convolutions_only_without_their_mask(family):
    batch = padded_batch([3, 6], 6)
    other = dict(batch)
    other["input_ids"] = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, 7)
    for masked, smallest, largest in ((True, 0.0, 1e-6), (False, 1e-2, 1e6)):
        model = build(family, conv_mask_padding=masked)
        change = (model(**batch)[0] - model(**other)[0])[0, :3].abs().max()
        assert smallest <= change <= largest


@BOTH
@pytest.mark.parametrize("attention", IMPLEMENTATIONS)
def test_row_of_padding_is_finite_and_leaves_the_others_alone(family, attention):
    model = build(family, attention=attention)
    batch = padded_batch([6, 0, 4], 6)
    outputs = model(**batch).last_hidden_state
    outputs.sum().backward()
    assert outputs.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    alone = model(**{name: value[2:] for name, value in batch.items()}).last_hidden_state
    torch.testing.assert_close(outputs[2], alone[0], atol=1e-5, rtol=1e-4)


@BOTH
@pytest.mark.parametrize("lengths", [[6, 6], [6, 3], [6, 0]])
def test_attention_implementations_agree(family, lengths):
    model = build(family, attention="eager")
    batch = padded_batch(lengths, 6)
    eager = model(**batch).last_hidden_state
    model.set_attn_implementation("sdpa")
    torch.testing.assert_close(model(**batch).last_hidden_state, eager, atol=2e-5, rtol=1e-4)


# Compiling flex attention warns of PyTorch's and transformers' own code.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("lengths", [[6, 6], [6, 3]])
def test_flex_attention_agrees(family, lengths):
    if not model_class(family)._supports_flex_attn:
        pytest.skip("this transformers' flex attention takes no position terms")
    # Head sizes below 16 are refused by flex attention's kernels.
    model = build(family, attention="eager", hidden_size=64, layer_order="s sf")
    batch = padded_batch(lengths, 6)
    with torch.no_grad():
        eager = model(**batch).last_hidden_state
        model.set_attn_implementation("flex_attention")
        flex = model(**batch).last_hidden_state
    real = batch["attention_mask"].bool()
    torch.testing.assert_close(flex[real], eager[real], atol=2e-5, rtol=1e-4)
    with pytest.raises(ValueError, match="output_attentions needs"):
        model(**batch, output_attentions=True)


@BOTH
def test_attentions_are_given_under_sdpa_too(family):
    batch = padded_batch([6, 3], 6)
    eager = build(family, attention="eager")
    sdpa = build(family, attention="sdpa")
    sdpa.load_state_dict(eager.state_dict())
    expected = eager(**batch, output_attentions=True).attentions
    got = sdpa(**batch, output_attentions=True).attentions
    torch.testing.assert_close(got, expected)


@BOTH
@pytest.mark.parametrize("attention", IMPLEMENTATIONS)
def test_four_dimensional_masks_equal_two_dimensional_ones(family, attention):
    model = build(family, attention=attention)
    batch = padded_batch([6, 3], 6)
    expected = model(**batch).last_hidden_state[batch["attention_mask"].bool()]
    keep = batch["attention_mask"].bool()[:, None, None, :].expand(-1, 1, 6, -1)
    additive = torch.where(keep, 0.0, torch.finfo(torch.float32).min)
    for mask in (keep, additive):
        outputs = model(input_ids=batch["input_ids"], attention_mask=mask).last_hidden_state
        torch.testing.assert_close(
            outputs[batch["attention_mask"].bool()], expected, atol=2e-5, rtol=1e-4
        )


@BOTH
def test_embeddings_instead_of_ids(family):
    model = build(family)
    batch = padded_batch([6, 3], 6)
    embeds = model.get_input_embeddings()(batch["input_ids"])
    outputs = model(inputs_embeds=embeds, attention_mask=batch["attention_mask"])
    assert torch.equal(outputs[0], model(**batch)[0])
    for wrong in ({}, {"input_ids": batch["input_ids"], "inputs_embeds": embeds}):
        with pytest.raises(ValueError, match="exactly one of"):
            model(**wrong)


# The name that every transformers 5 has.
@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning")
@BOTH
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_gives_the_same_gradients(family, reentrant):
    variants = [{}] if family == "LVBert" else [{"variant": v} for v in ("zero", "weighted_output")]
    for fields in variants:
        plain = build(family, "ForMaskedLM", **fields)
        checkpointed = copy.deepcopy(plain)
        checkpointed.gradient_checkpointing_enable({"use_reentrant": reentrant})
        assert checkpointed.is_gradient_checkpointing
        for module in checkpointed.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
            if hasattr(module, "dropout") and isinstance(module.dropout, float):
                module.dropout = 0.0
        checkpointed.train()
        batch = padded_batch([6, 3], 6)
        for model in (plain, checkpointed):
            model(**batch, labels=batch["input_ids"]).loss.backward()
        for (name, first), second in zip(
            plain.named_parameters(), checkpointed.parameters(), strict=True
        ):
            torch.testing.assert_close(first.grad, second.grad, atol=1e-6, rtol=1e-5, msg=name)


@BOTH
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("attention", IMPLEMENTATIONS)
def test_half_precision_keeps_its_type_and_stays_near(family, dtype, attention):
    single = build(family, attention=attention)
    batch = padded_batch([6, 3, 0], 6)
    expected = single(**batch, output_hidden_states=True).last_hidden_state
    outputs = single.to(dtype)(**batch, output_hidden_states=True)
    assert {state.dtype for state in outputs.hidden_states} == {dtype}
    assert outputs.last_hidden_state.isfinite().all()
    error = (outputs.last_hidden_state.float() - expected)[:2].abs().mean()
    assert error < (0.1 if dtype == torch.bfloat16 else 0.02) * expected.abs().mean()


@BOTH
def test_output_matrix_is_tied_resized_and_saved_once(family, tmp_path):
    model = build(family, "ForMaskedLM")
    assert model.config.tie_word_embeddings is True
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    model.resize_token_embeddings(109)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert model.get_output_embeddings().bias.shape == (109,)
    assert model(**padded_batch([6], 6)).logits.shape == (1, 6, 109)
    model.save_pretrained(tmp_path)
    reloaded, report = model_class(family, "ForMaskedLM").from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not any(report.values()), report
    assert reloaded.get_output_embeddings().weight is reloaded.get_input_embeddings().weight
    untied = build(family, "ForMaskedLM", tie_word_embeddings=False)
    assert untied.get_output_embeddings().weight is not untied.get_input_embeddings().weight


@BOTH
def test_every_token_row_learns(family):
    model = build(family, "ForMaskedLM")
    ids = torch.arange(40)[None]
    model(input_ids=ids, labels=ids).loss.backward()
    gradients = model.get_input_embeddings().weight.grad
    assert (gradients[:40].abs().sum(-1) > 0).all()


@BOTH
@pytest.mark.parametrize("head", HEADS.values())
def test_construction_on_the_meta_device(family, head):
    with torch.device("meta"):
        model = model_class(family, head)(small_config(family))
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}
    assert not list(model.buffers())


@BOTH
@pytest.mark.parametrize("head", [head for head in HEADS.values() if head != "Model"])
def test_new_heads_are_initialized_and_reported(family, head, tmp_path):
    build(family).save_pretrained(tmp_path)
    model, report = model_class(family, head).from_pretrained(tmp_path, output_loading_info=True)
    assert report["missing_keys"]
    prefix = model.base_model_prefix + "."
    assert not [name for name in report["missing_keys"] if name.startswith(prefix)]
    assert not report["unexpected_keys"]
    for name, parameter in model.named_parameters():
        if not name.startswith(prefix):
            assert parameter.isfinite().all() and parameter.abs().max() <= 1, name


@BOTH
def test_missing_values_of_a_checkpoint_get_initial_ones(family):
    fields = {"hidden_size": 128, "intermediate_size": 160, "vocab_size": 300}
    config = small_config(family, **fields)
    fresh = model_class(family)(config)
    loaded = model_class(family).from_pretrained(None, config=config, state_dict={})
    for (name, first), second in zip(fresh.named_parameters(), loaded.parameters(), strict=True):
        if first.numel() == 1 or first.std() == 0:
            assert torch.equal(first, second), name
        else:
            few = first.numel() < 1000
            deviation = pytest.approx(first.std().item(), rel=0.4 if few else 0.1)
            assert second.std().item() == deviation, name
            assert second.abs().max() <= (1.5 if few else 1.2) * first.abs().max(), name


@BOTH
def test_no_parameter_has_a_name_that_loading_changes(family):
    for head in HEADS.values():
        for name in build(family, head).state_dict():
            assert "gamma" not in name and "beta" not in name


@BOTH
def test_sequence_of_one_token(family):
    model = build(family)
    assert model(input_ids=torch.tensor([[5]])).last_hidden_state.shape == (1, 1, 32)


# The compiler's own imports.
@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method.*:DeprecationWarning")
@BOTH
@pytest.mark.slow
def test_compiles_without_graph_breaks_and_once_for_all_lengths(family):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = build(family, "ForMaskedLM", attention="sdpa")
    compiled = torch.compile(model, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for length in (8, 13, 21, 40, 64):
            batch = padded_batch([length, length // 2], length)
            expected = model(**batch).logits
            torch.testing.assert_close(compiled(**batch).logits, expected, atol=1e-4, rtol=1e-3)
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert graphs <= 2, graphs


@BOTH
def test_small_sizes_do_not_hide_unequal_ones(family):
    assert small_config(family).intermediate_size != SIZES["hidden_size"]
    assert small_config(family).hidden_size % small_config(family).num_attention_heads == 0
