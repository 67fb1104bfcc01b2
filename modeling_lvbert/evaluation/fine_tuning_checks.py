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
"""What a fine-tuning is, and whether its options go together: checked before any work."""

import dataclasses
import math
from pathlib import Path
from typing import Any

from transformers import TrainingArguments
from transformers.trainer_utils import SaveStrategy

from .fine_tuning_options import TASK_METRIC, FineTuningArguments
from .glue import SYMMETRIC_TASKS
from .model_loading import ModelArguments
from .task_data import TaskArguments

# Options that change nothing in what a run gives, and those that matter to its scores alone.
_WITHOUT_EFFECT = {"cache_dir", "token", "trust_remote_code", "overwrite_cache", "num_trials"}
_FOR_SCORES = {
    "validation_file",
    "validation_mismatched_file",
    "test_file",
    "test_mismatched_file",
    "max_eval_samples",
    "max_predict_samples",
}
_OF_TRAINING = (
    "learning_rate",
    "num_train_epochs",
    "max_steps",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "weight_decay",
    "warmup_steps",
    "seed",
)
# These are new settings of a run only where they are not at their defaults.
_OF_UNUSUAL_TRAINING = ("lr_scheduler_type", "load_best_model_at_end", "metric_for_best_model")


def describe_run(
    model_args: ModelArguments,
    task_args: TaskArguments,
    training_args: TrainingArguments,
    method: FineTuningArguments,
) -> dict[str, Any]:
    """Returns what makes a run the run it is: options that are not at their defaults."""
    ignored = _WITHOUT_EFFECT | (_FOR_SCORES if training_args.do_train else set())
    # The options that a recipe stands for are here themselves.
    ignored = ignored | {"recipe"}
    run = {
        option.name: getattr(arguments, option.name)
        for arguments in (model_args, task_args, method)
        for option in dataclasses.fields(arguments)
        if option.name not in ignored and getattr(arguments, option.name) != option.default
    }
    if training_args.do_train:
        run.update({name: getattr(training_args, name) for name in _OF_TRAINING})
        defaults = {option.name: option.default for option in dataclasses.fields(training_args)}
        for name in _OF_UNUSUAL_TRAINING:
            value = getattr(training_args, name)
            if value not in (defaults[name], TASK_METRIC):
                run[name] = getattr(value, "value", value)
    if method.num_trials > 1:
        run["has_trials"] = True
    return {**run, "do_train": training_args.do_train}


def check_training(training_args: TrainingArguments) -> None:
    """Checks what would fail, or spoil the weights, only after a while.

    Raises:
        ValueError: A number out of range, or a checkpoint that is not there.
    """
    for name in ("learning_rate", "weight_decay", "warmup_steps"):
        value = getattr(training_args, name)
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} {value}: must be a number of at least 0")
    for name in ("per_device_train_batch_size", "per_device_eval_batch_size"):
        if getattr(training_args, name) < 1:
            raise ValueError(f"{name} {getattr(training_args, name)}: must be at least 1")
    checkpoint = training_args.resume_from_checkpoint
    if isinstance(checkpoint, str) and not Path(checkpoint).is_dir():
        raise ValueError(f"resume_from_checkpoint {checkpoint!r}: no such folder")


def check_method(
    method: FineTuningArguments, task_args: TaskArguments, training_args: TrainingArguments
) -> None:
    """Checks that options of fine-tuning go with the task and with the Trainer's.

    Raises:
        ValueError: They do not.
    """
    task = task_args.task_name
    if method.pair_both_orders and task and task not in SYMMETRIC_TASKS:
        raise ValueError(
            f"pair_both_orders: the order of the texts matters in task {task!r}; it does not in "
            f"{', '.join(SYMMETRIC_TASKS)}"
        )
    if method.early_stopping_patience is not None and not training_args.load_best_model_at_end:
        raise ValueError(
            f"early_stopping_patience {method.early_stopping_patience}: load_best_model_at_end is "
            "needed, else the model is the last and not the best"
        )
    if method.num_trials > 1:
        if not (training_args.do_train and training_args.do_eval):
            raise ValueError(
                f"num_trials {method.num_trials}: do_train and do_eval are needed, trials are "
                "compared by their scores"
            )
        if training_args.resume_from_checkpoint is not None:
            raise ValueError(
                f"num_trials {method.num_trials}: each trial goes on by itself, without "
                "resume_from_checkpoint"
            )


def choose_best_metric(
    training_args: TrainingArguments, main_metric: str, scores: list[str]
) -> str | None:
    """Returns the metric that checkpoints are chosen by, None where none is chosen.

    Args:
        training_args: With `TASK_METRIC` where the user named none.
        main_metric: The task's own.
        scores: All scores that there are.

    Raises:
        ValueError: The user named one that there is not.
    """
    wanted = training_args.metric_for_best_model
    if wanted == TASK_METRIC:
        is_used = (
            training_args.load_best_model_at_end
            or training_args.save_strategy == SaveStrategy.BEST
            or training_args.lr_scheduler_type in ("reduce_lr_on_plateau", "greedy")
        )
        return main_metric if is_used else None
    if wanted is not None and wanted.removeprefix("eval_") not in scores:
        raise ValueError(f"metric_for_best_model {wanted!r}: must be one of {', '.join(scores)}")
    return wanted
