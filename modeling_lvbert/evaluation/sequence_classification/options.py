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
"""Options of fine-tuning beyond those of transformers' run_glue, and defaults from a recipe."""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .layerwise_decay import UNITS
from .recipes import FINE_TUNING_RECIPES, find_settings

# As `metric_for_best_model`: the metric that the task is known by.
TASK_METRIC = "task_metric"


@dataclass
class FineTuningArguments:
    """How to fine-tune, where the papers do more than the Trainer."""

    recipe: str | None = field(
        default=None,
        metadata={
            "help": "Published settings that are defaults from then on: "
            f"{', '.join(FINE_TUNING_RECIPES)}."
        },
    )
    layerwise_lr_decay: float | None = field(
        default=None,
        metadata={
            "help": "Ratio of the learning rates of neighbouring layers; the head's is whole."
        },
    )
    layerwise_lr_decay_unit: str = field(
        default="letter",
        metadata={
            "help": "letter: each layer (letter of LV-BERT, word of ELC-BERT); pair: two layers."
        },
    )
    head_learning_rate: float | None = field(
        default=None, metadata={"help": "Learning rate of the head, if it has its own."}
    )
    freeze_encoder: bool = field(
        default=False,
        metadata={"help": "Train the head alone, on features of the encoder without dropout."},
    )
    pair_both_orders: bool = field(
        default=False,
        metadata={
            "help": "Train on symmetric pairs in both orders, and average the two in scoring."
        },
    )
    early_stopping_patience: int | None = field(
        default=None,
        metadata={"help": "Evaluations without a better model after which training ends."},
    )
    num_trials: int = field(
        default=1,
        metadata={
            "help": "Runs with the seeds seed, seed + 1, ..., each in a folder of its own; "
            "finished ones are not repeated."
        },
    )

    def __post_init__(self) -> None:
        """Checks the options.

        Raises:
            ValueError: One is unknown or out of range, or two contradict each other.
        """
        if self.recipe is not None:
            find_settings(self.recipe, None)
        if self.layerwise_lr_decay_unit not in UNITS:
            raise ValueError(
                f"layerwise_lr_decay_unit {self.layerwise_lr_decay_unit!r}: must be one of "
                f"{', '.join(UNITS)}"
            )
        if self.layerwise_lr_decay is not None and not 0 < self.layerwise_lr_decay <= 1:
            raise ValueError(
                f"layerwise_lr_decay {self.layerwise_lr_decay}: must be above 0 and at most 1"
            )
        if self.head_learning_rate is not None and not 0 <= self.head_learning_rate < math.inf:
            raise ValueError(
                f"head_learning_rate {self.head_learning_rate}: must be a number of at least 0"
            )
        for name in ("early_stopping_patience", "num_trials"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} {value}: must be at least 1")
        if self.freeze_encoder and self.layerwise_lr_decay is not None:
            raise ValueError(
                "freeze_encoder and layerwise_lr_decay: layers that do not train have no rate"
            )


def list_defaults(arguments: Sequence[str]) -> dict[str, Any]:
    """Returns defaults of options that depend on others: those of the named recipe for its task.

    Args:
        arguments: The command line.

    Raises:
        ValueError: There is no such recipe.
    """
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--recipe")
    finder.add_argument("--task_name", "--task-name")
    found, _ = finder.parse_known_args(arguments)
    settings = find_settings(found.recipe, found.task_name) if found.recipe else {}
    values = {name: setting.value for name, setting in settings.items()}
    return {"metric_for_best_model": TASK_METRIC, **values}
