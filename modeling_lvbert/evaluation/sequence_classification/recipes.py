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
"""Published settings of fine-tuning as data, every value with its source.

LV-BERT: arXiv 2106.11740 and its code, which is ELECTRA's. ELC-BERT: arXiv 2311.02265, scored by
the pipeline of the BabyLM challenge 2023. LTG-BERT: arXiv 2303.09859 and its code. A setting is
named as the option that overrides it; batches are those of one device.
"""

from typing import Any, NamedTuple

from .glue import GLUE_TASKS

# Where a value was read.
SOURCES = {
    "C": "the official code or its README",
    "S": "a secondary source",
    "ours": "our choice: the sources do not say",
}


class Setting(NamedTuple):
    """A value and where it is from: a key of `SOURCES`, and what a reader should know."""

    value: Any
    source: str
    note: str = ""


class FineTuningRecipe(NamedTuple):
    """Settings of every task, and those of single tasks of GLUE, which come first."""

    settings: dict[str, Setting]
    tasks: dict[str, dict[str, Setting]]


_LVBERT = {
    "learning_rate": Setting(3e-4, "C"),
    "per_device_train_batch_size": Setting(32, "C"),
    "num_train_epochs": Setting(3.0, "C"),
    "warmup_steps": Setting(0.1, "C", "share of the steps"),
    "lr_scheduler_type": Setting("linear", "C"),
    "weight_decay": Setting(0.01, "C"),
    "layerwise_lr_decay": Setting(0.8, "C"),
    "layerwise_lr_decay_unit": Setting("pair", "C", "the code names two layers by one number"),
    "max_seq_length": Setting(128, "C"),
}
_BOTH_ORDERS = Setting(True, "C", "in training; to average them in scoring is ours")
_LVBERT_TASKS = {
    "rte": {"num_train_epochs": Setting(10.0, "C")},
    "stsb": {"num_train_epochs": Setting(10.0, "C"), "pair_both_orders": _BOTH_ORDERS},
    "mrpc": {"pair_both_orders": _BOTH_ORDERS},
}

_PATIENT = {
    "early_stopping_patience": Setting(100, "S", "evaluations, as a model card of others has it")
}
_ELCBERT = {
    "learning_rate": Setting(5e-5, "C", "the pipeline's; a table for each task was not to be had"),
    "per_device_train_batch_size": Setting(64, "C"),
    "num_train_epochs": Setting(10.0, "C", "at most"),
    "max_seq_length": Setting(128, "C"),
    "seed": Setting(12, "C"),
    "early_stopping_patience": Setting(10, "C", "evaluations"),
    "eval_strategy": Setting("steps", "C"),
    "eval_steps": Setting(200, "C"),
    "save_strategy": Setting("steps", "ours", "needed to get back to the best evaluation"),
    "save_steps": Setting(200, "ours"),
    "save_total_limit": Setting(1, "ours", "beside the best"),
    "load_best_model_at_end": Setting(True, "ours"),
}

_LTGBERT = {
    "learning_rate": Setting(3e-5, "C"),
    "head_learning_rate": Setting(1e-3, "C"),
    "per_device_train_batch_size": Setting(32, "C"),
    "num_train_epochs": Setting(8.0, "C"),
    "warmup_steps": Setting(0.01, "C", "share of the steps"),
    "lr_scheduler_type": Setting("linear", "C"),
    "weight_decay": Setting(0.01, "C"),
}
_FOUR_EPOCHS = {"num_train_epochs": Setting(4.0, "C")}

FINE_TUNING_RECIPES: dict[str, FineTuningRecipe] = {
    "lvbert-small": FineTuningRecipe(_LVBERT, _LVBERT_TASKS),
    "lvbert-medium": FineTuningRecipe(_LVBERT, _LVBERT_TASKS),
    "lvbert-base": FineTuningRecipe(
        {**_LVBERT, "learning_rate": Setting(1e-4, "C")}, _LVBERT_TASKS
    ),
    "elcbert": FineTuningRecipe(_ELCBERT, dict.fromkeys(("mnli", "qqp", "qnli", "sst2"), _PATIENT)),
    "ltgbert": FineTuningRecipe(
        _LTGBERT,
        {
            "rte": {"per_device_train_batch_size": Setting(16, "C")},
            "wnli": {"num_train_epochs": Setting(8.0, "ours", "the code leaves this task out")},
            **dict.fromkeys(("qqp", "qnli", "mnli"), _FOUR_EPOCHS),
        },
    ),
}


def find_settings(name: str, task_name: str | None) -> dict[str, Setting]:
    """Returns a recipe's settings for a task.

    Args:
        name: A key of `FINE_TUNING_RECIPES`.
        task_name: A task of GLUE, or None for what holds of every task.

    Raises:
        ValueError: There is no such recipe.
    """
    if name not in FINE_TUNING_RECIPES:
        raise ValueError(f"recipe {name!r}: must be one of {', '.join(FINE_TUNING_RECIPES)}")
    recipe = FINE_TUNING_RECIPES[name]
    return {**recipe.settings, **recipe.tasks.get(normalize_task(task_name), {})}


def normalize_task(task_name: str | None) -> str:
    """Returns a task's name as a key of `GLUE_TASKS`: `STS-B` is `stsb`; "" for none or another."""
    name = (task_name or "").lower().replace("-", "")
    return name if name in GLUE_TASKS else ""
