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
"""Learning rates that fall from a model's head to its embeddings (ELECTRA, arXiv 2003.10555).

With n units of layers counted from the input, the i-th (from 0) trains with decay^(n + 1 - i) of
the rate, the embeddings with decay^(n + 2), the head with the whole rate, as in the code of LV-BERT
and ELECTRA. What stands behind all layers, a pooler for instance, goes with the top unit.
"""

import re
from collections.abc import Collection
from typing import Any

from torch import nn
from transformers import PreTrainedModel

UNITS = ("letter", "pair")

# The outermost numbered list that a parameter is in.
_PLACE = re.compile(r"(.*?)\.(\d+)(?:\.|$)")


def compute_layerwise_factors(
    model: PreTrainedModel, decay: float, unit: str = "letter"
) -> dict[str, float]:
    """Returns the share of the learning rate that each parameter trains with.

    Layers are the entries of the longest numbered list of the encoder: letters of LV-BERT, words of
    ELC-BERT, layers of other models. A list of the same length belongs to it entry by entry.

    Args:
        model: A model with a head.
        decay: Ratio of the rates of neighbouring units, above 0, at most 1.
        unit: `letter`: each entry is a unit; `pair`: two entries are, as LV-BERT's code counted.

    Raises:
        ValueError: An unknown unit, a decay out of range, or no list of layers.
    """
    if unit not in UNITS:
        raise ValueError(f"layerwise_lr_decay_unit {unit!r}: must be one of {', '.join(UNITS)}")
    if not 0 < decay <= 1:
        raise ValueError(f"layerwise_lr_decay {decay}: must be above 0 and at most 1")
    names = list_encoder_parameters(model)
    entries: dict[str, set[int]] = {}
    for name in names:
        if match := _PLACE.match(name):
            entries.setdefault(match[1], set()).add(int(match[2]))
    if not entries:
        raise ValueError(f"layerwise_lr_decay: {type(model).__name__} has no numbered layers")
    length = max(map(len, entries.values()))
    stacks = {stack for stack, numbers in entries.items() if len(numbers) == length}
    size = 2 if unit == "pair" else 1
    num_units = -(-length // size)
    factors = {name: 1.0 for name, _ in model.named_parameters()}
    is_before = True
    for name in names:
        match = _PLACE.match(name)
        if match and match[1] in stacks:
            is_before = False
            exponent = num_units + 1 - int(match[2]) // size
        else:
            exponent = num_units + 2 if is_before or "embed" in name else 2
        factors[name] = decay**exponent
    return factors


def list_encoder_parameters(model: PreTrainedModel) -> list[str]:
    """Returns the names of the parameters that are not the head's, in the model's order.

    Raises:
        ValueError: The model is no encoder with a head.
    """
    prefix = f"{model.base_model_prefix}."
    names = [name for name, _ in model.named_parameters() if name.startswith(prefix)]
    if not names:
        raise ValueError(f"{type(model).__name__} has no encoder apart from its head")
    return names


def build_parameter_groups(
    model: PreTrainedModel,
    decay_names: Collection[str],
    weight_decay: float,
    learning_rates: dict[str, float],
) -> list[dict[str, Any]]:
    """Returns groups for an optimizer: one for each rate with and without weight decay.

    The highest rate comes first: it is the one that the Trainer logs.

    Args:
        model: The model; parameters that need no gradient are left out.
        decay_names: Names of those that weight decay applies to.
        weight_decay: Share of the parameter per unit of learning rate.
        learning_rates: Peak rate of each parameter.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            decays = weight_decay if name in decay_names else 0.0
            groups.setdefault((learning_rates[name], decays), []).append(parameter)
    return [
        {"params": groups[rate, decays], "lr": rate, "weight_decay": decays}
        for rate, decays in sorted(groups, reverse=True)
    ]
