"""What is ELC-BERT's own: words, layer selection, variants, relative positions."""

import math

import pytest
import torch

from modeling_lvbert import ELCBertConfig, ELCBertForMaskedLM, ELCBertModel
from modeling_lvbert.configuration_elcbert import VARIANTS
from modeling_lvbert.modeling_elcbert_layers import LayerSelection, relative_position_rows
from tests.families import build, padded_batch, token_ids


def run_words(model, batch):
    """Restates the encoder: selection, residual streams and what follows a word."""
    variant = model.config.variant
    hidden, relative = model.embeddings(model.embeddings.word_embeddings(batch["input_ids"]))
    rows = relative_position_rows(hidden.shape[1], 8, 64)
    keep = batch["attention_mask"].bool()
    mask = torch.where(keep, 0.0, torch.finfo(hidden.dtype).min)[:, None, None, :]
    states = [hidden]
    for index, word in enumerate(model.encoder.words):
        if variant == "ltg":
            selected = states[-1]
        else:
            weights = model.layer_selection_weights()[index]
            selected = sum(w * state for w, state in zip(weights, states, strict=True))
        outputs = []
        for layer in word.layers:
            stream = 0 if variant == "base" and outputs else selected
            stream = stream + sum(outputs)
            outputs.append(
                layer(
                    stream,
                    relative_embeddings=relative,
                    position_rows=rows,
                    attention_mask=mask,
                    padding_mask=keep,
                )
            )
        output = sum(outputs) + (selected if variant == "ltg" else 0)
        if variant == "normalized":
            output = torch.nn.functional.layer_norm(output, output.shape[-1:], eps=1e-7)
        states.append(output)
    if variant == "weighted_output":
        weights = model.layer_selection_weights()[-1]
        states.append(sum(w * state for w, state in zip(weights, states, strict=True)))
    return states


def with_random_selection(model):
    for module in model.modules():
        if isinstance(module, LayerSelection):
            torch.nn.init.normal_(module.prev_layer_weights)
    return model


@pytest.mark.parametrize("order", ["sf sf sf", "dsf f sd", "d s f f s", "ddsffs"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_words_run_as_residual_streams(variant, order):
    model = with_random_selection(build("ELCBert", layer_order=order, variant=variant))
    batch = padded_batch([6, 4], 6)
    outputs = model(**batch, output_hidden_states=True)
    expected = run_words(model, batch)
    assert len(outputs.hidden_states) == len(expected)
    for got, state in zip(outputs.hidden_states, expected, strict=True):
        torch.testing.assert_close(got, state, atol=1e-5, rtol=1e-4)
    assert torch.equal(outputs.hidden_states[-1], outputs.last_hidden_state)


def test_variants_are_different_functions_of_the_same_weights():
    batch = padded_batch([6, 4], 6)
    reference = with_random_selection(build("ELCBert", variant="zero"))
    outputs = []
    for variant in ("zero", "base", "normalized"):
        model = build("ELCBert", variant=variant)
        model.load_state_dict(reference.state_dict())
        outputs.append(model(**batch)[0])
    for first in range(3):
        for second in range(first):
            assert (outputs[first] - outputs[second]).abs().max() > 1e-2


def test_selecting_the_last_output_alone_is_the_plain_chain():
    model = build("ELCBert", layer_order="sf sf sf", variant="zero")
    for selection in model.encoder.layer_selections:
        torch.nn.init.constant_(selection.prev_layer_weights, -1e4)
        selection.prev_layer_weights.data[-1] = 0.0
    batch = padded_batch([6, 6], 6)
    states = model(**batch, output_hidden_states=True).hidden_states
    _, relative = model.embeddings(torch.zeros(1, 1, 32))
    rows = relative_position_rows(6, 8, 64)
    for word, below, above in zip(model.encoder.words, states[:-1], states[1:], strict=True):
        torch.testing.assert_close(word(below, relative, rows), above)


def test_selection_weights_start_as_the_variant_says():
    words = 4
    start = {
        variant: build("ELCBert", layer_order="sf " * words, variant=variant)
        for variant in VARIANTS
    }
    assert start["ltg"].layer_selection_weights() == []
    assert not [name for name, _ in start["ltg"].named_parameters() if "prev_layer" in name]
    for variant in ("zero", "normalized", "weighted_output"):
        weights = start[variant].layer_selection_weights()
        assert len(weights) == words + (variant == "weighted_output")
        for index, weight in enumerate(weights):
            torch.testing.assert_close(weight, torch.full((index + 1,), 1 / (index + 1)))
    for index, weight in enumerate(start["base"].layer_selection_weights()):
        assert weight[-1].item() == pytest.approx(math.e / (math.e + index))
    head = build("ELCBert", "ForSequenceClassification")
    assert len(head.layer_selection_weights()) == head.config.num_hidden_layers


@pytest.mark.parametrize("variant", ["base", "zero", "weighted_output"])
def test_missing_selection_weights_get_their_start(variant, tmp_path):
    model = with_random_selection(build("ELCBert", variant=variant))
    state = {name: value for name, value in model.state_dict().items() if "prev_layer" not in name}
    model.save_pretrained(tmp_path, state_dict=state)
    loaded, report = ELCBertModel.from_pretrained(tmp_path, output_loading_info=True)
    assert report["missing_keys"] == {name for name in model.state_dict() if "prev_layer" in name}
    fresh = build("ELCBert", variant=variant)
    for got, expected in zip(
        loaded.layer_selection_weights(), fresh.layer_selection_weights(), strict=True
    ):
        assert torch.equal(got, expected)


def test_initial_values_shrink_with_depth():
    torch.manual_seed(0)
    model = ELCBertForMaskedLM(ELCBertConfig(layer_order="sf sf sff sf"))
    deviation = math.sqrt(2 / (5 * 384))
    assert model.predictions.dense.weight.std().item() == pytest.approx(deviation, rel=0.03)
    embeddings = model.elcbert.embeddings
    assert embeddings.word_embeddings.weight.std().item() == pytest.approx(deviation, rel=0.03)
    assert embeddings.relative_embeddings.weight.std().item() == pytest.approx(deviation, rel=0.03)
    for index, word in enumerate(model.elcbert.encoder.words):
        attention = word.layers[0]
        assert attention.query_key.weight.std().item() == pytest.approx(deviation, rel=0.03)
        scaled = deviation * math.sqrt(1 / (2 * (1 + index)))
        for feed_forward in word.layers[1:]:
            for weight in (feed_forward.intermediate.weight, feed_forward.output.weight):
                assert weight.std().item() == pytest.approx(scaled, rel=0.03)
                assert weight.abs().max() <= 2 * scaled / 0.8796 * (1 + 1e-4)


@pytest.mark.parametrize(("size", "parameters"), [("small", 23_799_630), ("base", 98_229_838)])
def test_published_sizes_have_the_published_number_of_parameters(size, parameters):
    with torch.device("meta"):
        model = ELCBertForMaskedLM(ELCBertConfig.from_size(size))
    assert model.num_parameters() == parameters


@pytest.mark.parametrize("variant", VARIANTS)
def test_selected_hidden_states_count_the_mix_of_weighted_output(variant):
    model = build("ELCBert", variant=variant)
    batch = padded_batch([6, 4], 6)
    every = model(**batch, output_hidden_states=True).hidden_states
    selected = model(**batch, output_hidden_states=[0, -2]).hidden_states
    if None not in selected:
        pytest.skip("this transformers does not select hidden states")
    assert [state is not None for state in selected] == [
        index in (0, len(every) - 2) for index in range(len(every))
    ]
    assert torch.equal(selected[-2], every[-2])


def test_long_input_works_and_changes_nothing_afterwards():
    model = build("ELCBert")
    short = padded_batch([20, 11], 20)
    before = model(**short).last_hidden_state
    long = model(input_ids=token_ids(1, 600)).last_hidden_state
    assert long.isfinite().all()
    assert torch.equal(model(**short).last_hidden_state, before)
    assert not list(model.buffers())


@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 513, 2048])
def test_position_rows_lie_in_the_table_and_depend_on_the_distance(length):
    rows = relative_position_rows(length, 32, 512)
    assert rows.min() >= 0 and rows.max() <= 62
    assert (rows.diagonal() == 31).all()
    assert torch.equal(rows + rows.T, torch.full_like(rows, 62))
    if length > 2:
        assert torch.equal(rows[1:, 1:], rows[:-1, :-1])
        assert (rows[:, 0].diff() >= 0).all()


def test_near_distances_have_rows_of_their_own():
    rows = relative_position_rows(100, 32, 512)
    assert torch.equal(rows[:17, 0], torch.arange(31, 48))
    assert rows[99, 0] < 62


def test_position_layouts_are_different_functions():
    halves, per_head = build("ELCBert"), build("ELCBert", position_layout="per_head")
    per_head.load_state_dict(halves.state_dict())
    batch = padded_batch([6, 4], 6)
    assert (halves(**batch)[0] - per_head(**batch)[0]).abs().max() > 1e-3


def test_order_without_attention_has_no_unused_parameters():
    model = build("ELCBert", "ForMaskedLM", layer_order="df d f")
    batch = padded_batch([6, 4], 6)
    model(**batch, labels=batch["input_ids"]).loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_segments_are_taken_and_change_nothing():
    model = build("ELCBert")
    ids = token_ids(2, 6)
    with_segments = model(input_ids=ids, token_type_ids=torch.ones_like(ids))
    assert torch.equal(with_segments[0], model(input_ids=ids)[0])
