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
"""What a run of the Trainer is to do, and what makes it the run it is: checked before any work."""

import dataclasses
import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from transformers import TrainingArguments

# Options that change nothing in what a run gives.
_WITHOUT_EFFECT = {
    "cache_dir",
    "token",
    "trust_remote_code",
    "overwrite_cache",
    "preprocessing_num_workers",
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


def list_splits(training_args: TrainingArguments) -> list[str]:
    """Returns those of "train", "validation" and "test" that a run is asked for.

    Raises:
        ValueError: None.
    """
    asked = {
        "train": training_args.do_train,
        "validation": training_args.do_eval,
        "test": training_args.do_predict,
    }
    splits = [split for split, wanted in asked.items() if wanted]
    if not splits:
        raise ValueError("nothing to do: give do_train, do_eval or do_predict")
    return splits


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


def check_best_metric(training_args: TrainingArguments, names: Sequence[str]) -> None:
    """Checks the metric that chooses the best checkpoint, or that early stopping looks at.

    Args:
        training_args: Arguments of the Trainer.
        names: The metrics that there are.

    Raises:
        ValueError: The task has no such metric.
    """
    chosen = training_args.metric_for_best_model
    if chosen is not None and chosen.removeprefix("eval_") not in names:
        raise ValueError(f"metric_for_best_model {chosen!r}: must be one of {', '.join(names)}")


def describe_run(
    arguments: Sequence[Any],
    training_args: TrainingArguments,
    *,
    scores_only: Collection[str],
    ignored: Collection[str] = (),
) -> dict[str, Any]:
    """Returns what makes a run the run it is: options that are not at their defaults.

    Args:
        arguments: Dataclasses of options of model and task.
        training_args: Arguments of the Trainer.
        scores_only: Options that change nothing in how a model is trained; they do not count where
            it is.
        ignored: Further options that do not count.
    """
    left_out = {*_WITHOUT_EFFECT, *ignored, *(scores_only if training_args.do_train else ())}
    run = {
        option.name: getattr(options, option.name)
        for options in arguments
        for option in dataclasses.fields(options)
        if option.name not in left_out and getattr(options, option.name) != option.default
    }
    if training_args.do_train:
        run.update({name: getattr(training_args, name) for name in _OF_TRAINING})
        defaults = {option.name: option.default for option in dataclasses.fields(training_args)}
        for name in _OF_UNUSUAL_TRAINING:
            value = getattr(training_args, name)
            if value != defaults[name]:
                run[name] = getattr(value, "value", value)
    return {**run, "do_train": training_args.do_train}
