"""Layers left out and exchanged against models that are built that way."""

import json

import pytest
import torch

from modeling_lvbert.search.layer_importance import (
    SilentLayer,
    exchange,
    leave_out,
    list_layers,
    measure_importance,
    plot_importance,
    rearrange,
    score_rows,
)
from tests.families import build, model_class, padded_batch, small_config

ORDERS = {"LVBert": "dsfsd", "ELCBert": "sf dsf d"}


def letters_of(family):
    return ORDERS[family].replace(" ", "")


def make_batches(num_batches=3):
    batches = []
    for seed in range(num_batches):
        batch = padded_batch([9, 7, 5], 9, seed)
        chosen = (torch.arange(9) % 3 == seed) & batch["attention_mask"].bool()
        batch["labels"] = batch["input_ids"].masked_fill(~chosen, -100)
        batch["input_ids"] = batch["input_ids"].masked_fill(chosen, 4)
        batches.append(batch)
    return batches


@pytest.fixture(params=ORDERS)
def family(request):
    return request.param


def expect_order(model, family, order, sources):
    """Builds a model of another order with layers of a model's; returns its rows' sums.

    Args:
        model: The model.
        family: Its family.
        order: The order.
        sources: Which of the model's layers stand in it.
    """
    flat = [layer for group in list_layers(model) for layer in group]
    other = model_class(family, "ForMaskedLM")(small_config(family, layer_order=order)).eval()
    rest = {name: value for name, value in model.state_dict().items() if ".layers." not in name}
    other.load_state_dict(rest, strict=False)
    places = [layer for group in list_layers(other) for layer in group]
    for layer, source in zip(places, sources, strict=True):
        layer.load_state_dict(flat[source].state_dict())
    return score_rows(other, make_batches())


def drop(order, place):
    """Returns an order without its n-th letter, the words kept."""
    seen = -1
    kept = []
    for letter in order:
        seen += letter != " "
        if letter == " " or seen != place:
            kept.append(letter)
    return "".join(kept)


@pytest.mark.parametrize("place", range(5))
def test_a_model_without_a_layer_is_the_model_of_the_shorter_order(family, place):
    model = build(family, "ForMaskedLM")
    groups = list_layers(model)
    with rearrange(model, leave_out(groups, place, keeps_words=family == "ELCBert")):
        sums = score_rows(model, make_batches())
    sources = [number for number in range(len(letters_of(family))) if number != place]
    expected = expect_order(model, family, drop(ORDERS[family], place), sources)
    torch.testing.assert_close(torch.tensor(sums), torch.tensor(expected), rtol=1e-5, atol=1e-5)


def test_a_word_of_one_letter_that_is_left_out_gives_zero():
    model = build("ELCBert", "ForMaskedLM")
    left = leave_out(list_layers(model), 5, keeps_words=True)
    assert isinstance(left[2][0], SilentLayer)
    with rearrange(model, left), torch.no_grad():
        hidden = model.base_model(**padded_batch([9, 7], 9)).last_hidden_state
    assert hidden.abs().max() == 0


@pytest.mark.parametrize("place", range(4))
def test_exchanged_layers_are_those_of_the_exchanged_order(family, place):
    model = build(family, "ForMaskedLM")
    with rearrange(model, exchange(list_layers(model), place)):
        sums = score_rows(model, make_batches())
    sources = list(range(len(letters_of(family))))
    sources[place : place + 2] = [place + 1, place]
    letters = iter(letters_of(family)[source] for source in sources)
    order = "".join(" " if letter == " " else next(letters) for letter in ORDERS[family])
    expected = expect_order(model, family, order, sources)
    torch.testing.assert_close(torch.tensor(sums), torch.tensor(expected), rtol=1e-5, atol=1e-5)


def test_the_model_is_as_before_afterwards(family):
    model, batches = build(family, "ForMaskedLM"), make_batches()
    names, before = list(model.state_dict()), score_rows(model, batches)
    importance = measure_importance(model, batches)
    assert list(model.state_dict()) == names
    assert (score_rows(model, batches) == before).all()
    assert importance.baseline.loss.value == pytest.approx(before[:, 0].sum() / before[:, 2].sum())
    with (
        pytest.raises(RuntimeError, match="stop"),
        rearrange(model, exchange(list_layers(model), 0)),
    ):
        raise RuntimeError("stop")
    assert (score_rows(model, batches) == before).all()


def test_changes_have_places_letters_and_paired_errors(family):
    importance = measure_importance(build(family, "ForMaskedLM"), make_batches())
    letters = letters_of(family)
    assert [(c.places, c.letters) for c in importance.left_out] == [
        ((place,), letter) for place, letter in enumerate(letters, start=1)
    ]
    assert [(c.places, c.letters) for c in importance.exchanged] == [
        ((place, place + 1), letters[place - 1 : place + 1]) for place in range(1, len(letters))
    ]
    metrics = [change.to_metrics() for change in importance.left_out]
    assert all(entry["loss_change_standard_error"] > 0 for entry in metrics)
    assert any(entry["loss_change"] != 0 for entry in metrics)
    json.dumps(metrics)


def test_layers_of_equal_weights_may_be_exchanged_without_any_change():
    model = build("LVBert", "ForMaskedLM", layer_order="ss")
    first, second = list_layers(model)[0]
    second.load_state_dict(first.state_dict())
    (change,) = measure_importance(model, make_batches()).exchanged
    assert change.loss.value == 0
    assert change.loss.standard_error == 0


def test_the_picture_has_a_bar_for_each_change(family):
    pytest.importorskip("matplotlib")
    importance = measure_importance(build(family, "ForMaskedLM"), make_batches(1))
    figure = plot_importance(importance)
    heights = [[bar.get_height() for bar in axes.patches] for axes in figure.axes]
    assert heights == [
        [change.loss.value for change in changes]
        for changes in (importance.left_out, importance.exchanged)
    ]
    labels = [label.get_text() for label in figure.axes[-1].get_xticklabels()]
    assert [label[0] for label in labels] == list(letters_of(family))
