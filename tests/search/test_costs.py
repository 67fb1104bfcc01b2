import dataclasses
import json
import random

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from modeling_lvbert import ELCBertConfig, LVBertConfig
from modeling_lvbert.modeling_dynamic_convolution import BLOCK_SIZE
from modeling_lvbert.search import costs
from modeling_lvbert.search.costs import (
    AdditiveCost,
    LatencyTable,
    count_flops,
    count_parameters,
    find_flop_cost,
    find_parameter_cost,
)
from modeling_lvbert.search.evolution import Space
from tests.families import build, model_class, small_config, token_ids

VARIANTS = ("base", "zero", "normalized", "weighted_output", "ltg")
CONFIGS = [("LVBert", {}), ("LVBert", {"embedding_size": 32})]
CONFIGS += [("ELCBert", {"variant": variant}) for variant in VARIANTS]


def draw_orders(family, number, seed=0):
    rng = random.Random(seed)
    spaces = [Space(length, has_words=family == "ELCBert") for length in range(1, 9)]
    orders = [rng.choice(spaces).sample(rng) for _ in range(number)]
    # Without self-attention ELC-BERT has no relative embeddings.
    return [*orders, "f", "d", "s", "fdf"]


def count_built(config):
    with torch.device("meta"):
        model = model_class("LVBert" if isinstance(config, LVBertConfig) else "ELCBert")(config)
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(("family", "fields"), CONFIGS)
def test_parameters_are_those_of_the_built_model(family, fields):
    for order in draw_orders(family, 20):
        config = small_config(family, layer_order=order, **fields)
        assert count_parameters(config) == count_built(config), order


@pytest.mark.parametrize(
    ("config", "millions"),
    [
        (LVBertConfig(), 12.53),
        (LVBertConfig(layer_order="sf" * 12), 13.48),
        (LVBertConfig.from_size("medium"), 23.15),
        (LVBertConfig.from_size("base"), 100.17),
    ],
)
def test_parameters_of_published_sizes(config, millions):
    assert count_parameters(config) / 1e6 == pytest.approx(millions, abs=0.005)


def test_models_are_built_once_for_all_orders_of_a_configuration(monkeypatch):
    built = []
    build_model = costs._build
    monkeypatch.setattr(
        costs, "_build", lambda config, order: built.append(order) or build_model(config, order)
    )
    sizes = {"vocab_size": 123, "hidden_size": 24, "num_attention_heads": 3}
    for order in draw_orders("LVBert", 20):
        count_parameters(LVBertConfig(layer_order=order, **sizes))
    assert sorted(built) == ["d", "dd", "f", "ff", "s", "ss"]
    count_parameters(LVBertConfig(layer_order="s", intermediate_size=7, **sizes))
    assert len(built) == 12


@pytest.mark.parametrize(("family", "fields"), CONFIGS)
@pytest.mark.parametrize(("length", "kernel_size"), [(21, 9), (48, 9), (5, 19), (1, 1)])
def test_operations_are_those_that_torch_counts(family, fields, length, kernel_size):
    """Exactly, but for the zeros of the band matrices that the weighted sum is executed with."""
    for order in draw_orders(family, 5, seed=length):
        model = build(family, layer_order=order, conv_kernel_size=kernel_size, **fields)
        counter = FlopCounterMode(display=False)
        with counter, torch.no_grad():
            model(input_ids=token_ids(1, length))
        block = max(BLOCK_SIZE, kernel_size - 1)
        padded = -(-length // block) * block
        hidden = model.config.hidden_size
        executed = 2 * padded * (block + kernel_size - 1) * hidden
        weighted_sum = 2 * length * kernel_size * hidden
        expected = counter.get_total_flops() - order.count("d") * (executed - weighted_sum)
        assert count_flops(model.config, length) == expected, order


def test_operations_of_the_published_small_model():
    """2.31 billion in its layers at 128 tokens, 2.62 in as many of the interleaved order."""
    projection = 2 * 128 * 128 * 256
    searched = count_flops(LVBertConfig(), 128) - projection
    interleaved = count_flops(LVBertConfig(layer_order="sf" * 12), 128) - projection
    assert searched / 1e9 == pytest.approx(2.31, abs=0.005)
    assert interleaved / 1e9 == pytest.approx(2.62, abs=0.005)


def test_a_row_needs_a_token():
    with pytest.raises(ValueError, match="length must be at least 1, got 0"):
        count_flops(LVBertConfig(), 0)


def test_costs_do_not_depend_on_the_configuration_s_order():
    for find in (find_parameter_cost, lambda config: find_flop_cost(config, 10)):
        assert find(LVBertConfig(layer_order="s")) == find(LVBertConfig(layer_order="dff"))


def test_an_estimate_sums_letters_words_and_what_attention_needs():
    cost = AdditiveCost(1000, {"s": 100, "f": 10, "d": 20}, 5, 1)
    assert cost.estimate("f") == 1011
    assert cost.estimate("FF D") == 1000 + 10 + 10 + 20 + (1 + 2)
    assert cost.estimate("sf s") == 1000 + 100 + 10 + 100 + 5 + (1 + 2)
    mixing = dataclasses.replace(cost, mixes_output=True)
    assert mixing.estimate("ff d") == cost.estimate("ff d") + 3
    with pytest.raises(ValueError, match="unknown letters"):
        cost.estimate("sx")


@pytest.fixture
def clock(monkeypatch):
    """Times that follow from the order alone, but for every third round, which is disturbed."""
    built, calls = [], []
    build_model = costs._build

    def remember(config, order):
        model = build_model(config, order)
        built.append((model, order))
        return model

    def tell(run, device):
        run()
        (order,) = [order for model, order in built if model is run.func]
        calls.append(order)
        disturbance = 7.0 if calls.count(order) in (1, 3) else 1.0
        letters = {"s": 3.0, "f": 2.0, "d": 1.5}
        selections = sum(range(1, len(order.split(" ")) + 1))
        seconds = 1.0 + sum(letters[letter] for letter in order if letter != " ")
        return disturbance * (seconds + 0.25 * ("s" in order) + 0.125 * selections)

    monkeypatch.setattr(costs, "_build", remember)
    monkeypatch.setattr(costs, "_time", tell)
    return calls


def test_measured_seconds_are_parted_into_letters_words_and_rest(clock):
    config = small_config("ELCBert", layer_order="ds fs d")
    table = LatencyTable.measure(config, batch_size=2, length=7, repeats=3)
    assert table.letters == pytest.approx({"s": 3.0, "f": 2.0, "d": 1.5})
    assert table.base == pytest.approx(1.0)
    assert table.attention == pytest.approx(0.25)
    assert table.selection == pytest.approx(0.125)
    assert table.estimate("ds fs d") == pytest.approx(1 + 11.25 + 6 * 0.125)
    assert "ds fs d" in table.checks
    assert len(table.checks) == 5
    assert table.error == pytest.approx(0, abs=1e-9)


def test_models_are_timed_in_turn(clock):
    LatencyTable.measure(small_config("LVBert"), batch_size=2, length=7, repeats=3)
    orders = clock[: len(clock) // 4]
    assert len(orders) == len(set(orders))
    assert clock == orders * 4
    assert {"dsfsd", "s", "sssss"} <= set(orders)


@pytest.mark.parametrize("family", ["LVBert", "ELCBert"])
def test_latency_is_measured_and_survives_json(family):
    config = small_config(family)
    table = LatencyTable.measure(config, batch_size=2, length=16, repeats=3)
    assert (table.batch_size, table.length, table.device) == (2, 16, "cpu")
    assert all(seconds > 0 for pair in table.checks.values() for seconds in pair)
    assert table.error > 0
    more = table.estimate("sfd" + "s") - table.estimate("sfd")
    assert more == pytest.approx(table.letters["s"])
    assert (table.selection == 0) == (family == "LVBert")
    again = LatencyTable(**json.loads(json.dumps(dataclasses.asdict(table))))
    assert again.estimate("sf d") == table.estimate("sf d")
    assert again.error == table.error


def test_the_error_is_the_worst_of_the_checks():
    table = LatencyTable(
        base=0,
        letters={},
        batch_size=1,
        length=1,
        device="cpu",
        checks={"s": (1.0, 1.1), "f": (2.0, 1.5)},
    )
    assert table.error == pytest.approx(0.25)


@pytest.mark.parametrize("name", ["batch_size", "length", "repeats"])
def test_numbers_below_one_are_refused(name):
    numbers = {"batch_size": 1, "length": 1, "repeats": 1, name: 0}
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        LatencyTable.measure(ELCBertConfig(), **numbers)


@pytest.mark.gpu
def test_latency_is_measured_on_an_accelerator():
    table = LatencyTable.measure(
        LVBertConfig(), batch_size=8, length=128, repeats=5, device=torch.device("cuda")
    )
    assert table.device == "cuda"
    assert min(table.letters.values()) > 0
