# Copyright 2026 The lvbert authors.
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
"""What a layer order costs: parameters, floating-point operations, seconds on this device.

All three are sums over the letters of an order, so that a search compares thousands of orders
without building their models. Parameters and operations are exact, seconds are an estimate whose
error is measured.
"""

import copy
import json
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import torch
from transformers import PreTrainedModel

from ..configuration_elcbert import ELCBertConfig
from ..configuration_layer_order import LayerOrderConfig
from ..configuration_lvbert import LVBertConfig
from ..layer_order import LAYER_NAMES, join_letters, split_words
from ..modeling_elcbert import ELCBertModel
from ..modeling_lvbert import LVBertModel

# Random orders whose measured seconds are compared with the estimate, besides the configuration's.
_NUM_CHECKS = 4
# Layers of a timed stack, at least: a difference of one layer would drown in noise.
_LEAST_LAYERS = 4

_CLASSES: dict[str, tuple[type[LayerOrderConfig], type[PreTrainedModel]]] = {
    "lvbert": (LVBertConfig, LVBertModel),
    "elcbert": (ELCBertConfig, ELCBertModel),
}


@dataclass(frozen=True)
class AdditiveCost:
    """A cost that is a sum over an order's letters and words.

    Attributes:
        base: Cost of the embeddings and of all else that every order has.
        letters: Cost of one layer of each letter.
        attention: Added once to an order with self-attention: ELC-BERT's relative embeddings.
        selection: Cost of each output that a word's selection weighs, for ELC-BERT.
        mixes_output: Whether one more selection follows the last word: variant `weighted_output`.
    """

    base: float
    letters: Mapping[str, float]
    attention: float = 0
    selection: float = 0
    mixes_output: bool = False

    def estimate(self, order: str) -> float:
        """Returns the cost of an order.

        Raises:
            ValueError: It is no layer order.
        """
        letters = join_letters(order)
        cost = self.base + sum(self.letters[letter] for letter in letters)
        if "s" in letters:
            cost += self.attention
        if self.selection:
            cost += self.selection * _count_selected(order, self.mixes_output)
        return cost


def _count_selected(order: str, mixes_output: bool) -> int:
    """Returns how many outputs all selections weigh: the first word 1, the second 2, and so on."""
    number = len(split_words(order)) + mixes_output
    return number * (number + 1) // 2


def count_parameters(config: LayerOrderConfig) -> int:
    """Returns the parameters of `LVBertModel` or `ELCBertModel`: embeddings and layers, no head.

    Args:
        config: A configuration of either family. What it costs to count is the same for any order:
            call `find_parameter_cost` once to count very many.
    """
    return int(find_parameter_cost(config).estimate(config.layer_order))


def find_parameter_cost(config: LayerOrderConfig) -> AdditiveCost:
    """Returns parameters by letter and word, read off small models without memory once for all.

    Args:
        config: Its order does not matter.
    """
    fields = {**config.to_dict(), "layer_order": "f"}
    return _read_parameter_cost(config.model_type, json.dumps(fields, sort_keys=True))


@lru_cache(maxsize=32)
def _read_parameter_cost(model_type: str, fields: str) -> AdditiveCost:
    config = _CLASSES[model_type][0](**json.loads(fields))

    def count(order: str) -> int:
        with torch.device("meta"):
            model = _build(config, order)
        return sum(parameter.numel() for parameter in model.parameters())

    return _solve({order: count(order) for order in _choose_stacks(config, 2)}, config, 2)


def count_flops(config: LayerOrderConfig, length: int) -> int:
    """Returns the floating-point operations of the encoder's forward pass for one row of tokens.

    Counted are the matrix products and convolutions of the formulas, two operations for each
    multiplication with addition; for LV-BERT the embeddings' projection is among them, where there
    is one. Norms, activations, softmax, masks, residuals, ELC-BERT's weighted sums of outputs and
    all heads are not.

    torch's `FlopCounterMode` counts the same with attention of kind `eager`, but for the dynamic
    convolution's weighted sum: it is executed as products with band matrices, of which the counter
    counts the zeros too. It does not see sdpa's fused attention on a CPU.

    Args:
        config: A configuration of either family.
        length: Tokens in the row.

    Raises:
        ValueError: The length is below 1.
    """
    return int(find_flop_cost(config, length).estimate(config.layer_order))


def find_flop_cost(config: LayerOrderConfig, length: int) -> AdditiveCost:
    """Returns operations by letter, see `count_flops`; the configuration's order does not matter.

    Raises:
        ValueError: The length is below 1.
    """
    if length < 1:
        raise ValueError(f"length must be at least 1, got {length}")
    hidden, inner = config.hidden_size, config.intermediate_size
    heads = config.num_attention_heads or 1
    # Operations of a dense layer from hidden size to hidden size, for one token.
    dense = 2 * hidden * hidden
    # Four dense layers; scores and context.
    attention = 4 * length * dense + 4 * length**2 * hidden
    # Four dense layers; the kernel's logits; the depthwise filters and the weighted sum.
    taps = config.conv_kernel_size
    convolution = length * (4 * dense + 2 * hidden * heads * taps + 4 * hidden * taps)
    if isinstance(config, ELCBertConfig):
        rows = 2 * config.position_bucket_size - 1
        # Query and key of the relative embeddings, and the products of both with the content.
        attention += 2 * rows * dense + 4 * length * rows * hidden
        letters = {"s": attention, "f": 6 * length * hidden * inner, "d": convolution}
        return AdditiveCost(0, letters)
    base = 0
    if isinstance(config, LVBertConfig) and config.embedding_size != hidden:
        base = 2 * length * config.embedding_size * hidden
    letters = {"s": attention, "f": 4 * length * hidden * inner, "d": convolution}
    return AdditiveCost(base, letters)


@dataclass(frozen=True, kw_only=True)
class LatencyTable(AdditiveCost):
    """Seconds of a forward pass by letter, as measured on one device.

    Noise can take small parts below zero. All fields can be written as JSON and given back by name.

    Attributes:
        batch_size: Rows of the batch.
        length: Tokens of each row.
        device: Name of the device.
        checks: Measured and estimated seconds of whole models, by their order.
    """

    batch_size: int
    length: int
    device: str
    checks: Mapping[str, Sequence[float]]

    @property
    def error(self) -> float:
        """The largest relative error of an estimate among the checks, 0.1 for ten per cent."""
        return max(abs(estimated / measured - 1) for measured, estimated in self.checks.values())

    @classmethod
    def measure(
        cls,
        config: LayerOrderConfig,
        batch_size: int,
        length: int,
        repeats: int,
        device: torch.device | str = "cpu",
    ) -> "LatencyTable":
        """Returns the table for a configuration, from stacks of equal layers.

        About a dozen models of the configuration's depth are held at once and run in turn, so that
        what else the machine does falls on all of them; the median counts. Forward passes in
        float32 without gradients, all tokens real.

        Args:
            config: Sizes; its order's length is that of the stacks, and its order is checked.
            batch_size: Rows of the batch.
            length: Tokens of each row.
            repeats: Measured runs of each model, after one that is not measured.
            device: Where to measure.

        Raises:
            ValueError: A number is below 1, or the length exceeds the model's.
        """
        numbers = {"batch_size": batch_size, "length": length, "repeats": repeats}
        for name, value in numbers.items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        num_layers = max(_LEAST_LAYERS, len(join_letters(config.layer_order)))
        stacks = _choose_stacks(config, num_layers)
        checked = [config.layer_order, *_draw_orders(config, num_layers)]
        device = torch.device(device)
        orders = sorted({*stacks, *checked})
        seconds = _time_models(config, orders, (batch_size, length), repeats, device)
        cost = _solve({order: seconds[order] for order in stacks}, config, num_layers)
        return cls(
            **vars(cost),
            batch_size=batch_size,
            length=length,
            device=str(device),
            checks={order: (seconds[order], cost.estimate(order)) for order in checked},
        )


def _build(config: LayerOrderConfig, order: str) -> PreTrainedModel:
    config = copy.deepcopy(config)
    config.layer_order = order
    return _CLASSES[config.model_type][1](config)


def _selects(config: LayerOrderConfig) -> bool:
    return isinstance(config, ELCBertConfig) and config.variant != "ltg"


def _choose_stacks(config: LayerOrderConfig, num_layers: int) -> list[str]:
    """Returns the orders whose costs `_solve` needs: equal letters in one word, and in several."""
    stacks = [letter * number for letter in LAYER_NAMES for number in (1, num_layers)]
    return [*stacks, " ".join("f" * num_layers)] if _selects(config) else stacks


def _solve(costs: Mapping[str, float], config: LayerOrderConfig, num_layers: int) -> AdditiveCost:
    """Returns the parts of the costs of whole models.

    Args:
        costs: Costs of the orders that `_choose_stacks` names.
        config: Their configuration.
        num_layers: Layers of the longer stacks.
    """
    letters = {
        letter: (costs[letter * num_layers] - costs[letter]) / (num_layers - 1)
        for letter in LAYER_NAMES
    }
    mixes_output = isinstance(config, ELCBertConfig) and config.variant == "weighted_output"
    selection = 0.0
    if _selects(config):
        one, several = "f" * num_layers, " ".join("f" * num_layers)
        more = _count_selected(several, mixes_output) - _count_selected(one, mixes_output)
        selection = (costs[several] - costs[one]) / more
    selected = selection * _count_selected("f", mixes_output)
    rest = {letter: costs[letter] - letters[letter] - selected for letter in LAYER_NAMES}
    # Only there self-attention needs more than its layers.
    attention = 0.0
    if isinstance(config, ELCBertConfig):
        attention = rest.pop("s") - (rest["d"] + rest["f"]) / 2
    base = statistics.mean(rest.values())
    return AdditiveCost(base, letters, attention, selection, mixes_output)


def _draw_orders(config: LayerOrderConfig, num_layers: int) -> list[str]:
    """Returns random orders to check estimates with, for ELC-BERT with random cuts."""
    rng = random.Random(0)
    cuts = ("", " ") if isinstance(config, ELCBertConfig) else ("",)
    letters = sorted(LAYER_NAMES)
    return [
        "".join(rng.choice(letters) + rng.choice(cuts) for _ in range(num_layers)).strip()
        for _ in range(_NUM_CHECKS)
    ]


def _time_models(
    config: LayerOrderConfig,
    orders: Sequence[str],
    shape: tuple[int, int],
    repeats: int,
    device: torch.device,
) -> dict[str, float]:
    """Returns the median seconds of a forward pass for each order's model, run in turn."""
    with device:
        models = {order: _build(config, order).eval() for order in orders}
        token_ids = torch.full(shape, config.vocab_size - 1)
    runs: dict[str, list[float]] = {order: [] for order in orders}
    for _ in range(repeats + 1):
        for order, model in models.items():
            runs[order].append(_time(partial(model, input_ids=token_ids), device))
    # The first run of each pays for what later ones find ready.
    return {order: statistics.median(seconds[1:]) for order, seconds in runs.items()}


def _time(run: Callable[[], object], device: torch.device) -> float:
    """Returns seconds of a call without gradients, until the device is done."""
    with torch.inference_mode():
        start = time.perf_counter()
        run()
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
        return time.perf_counter() - start
