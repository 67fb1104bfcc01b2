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
"""A run of a task on long texts: its options, its checks, its training and scoring."""

import dataclasses
import logging
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import datasets
from transformers import EvalPrediction, Trainer, TrainingArguments

from .model_loading import ModelArguments
from .run_folder import check_output_dir

logger = logging.getLogger(__name__)

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
PREFIXES = {"train": "train", "validation": "eval", "test": "predict"}


@dataclass
class SplitArguments:
    """Where the data is.

    Attributes:
        SCORES_ONLY: Options that change nothing in how a model is trained.
    """

    SCORES_ONLY: ClassVar[frozenset[str]] = frozenset(
        {"validation_file", "test_file", "max_eval_samples", "max_predict_samples"}
    )

    train_file: str | None = field(default=None, metadata={"help": "Data to train on."})
    validation_file: str | None = field(default=None, metadata={"help": "Data to evaluate on."})
    test_file: str | None = field(
        default=None, metadata={"help": "Data to predict on; the answers may be absent."}
    )
    dataset_name: str | None = field(
        default=None, metadata={"help": "Data set of the Hub, or a folder of data files."}
    )
    dataset_config_name: str | None = field(default=None, metadata={"help": "Its configuration."})
    pad_to_max_length: bool = field(
        default=False,
        metadata={"help": "Pad every row to max_seq_length instead of its batch's longest."},
    )
    max_train_samples: int | None = field(
        default=None, metadata={"help": "Use the first texts only."}
    )
    max_eval_samples: int | None = field(
        default=None, metadata={"help": "Use the first texts only."}
    )
    max_predict_samples: int | None = field(
        default=None, metadata={"help": "Use the first texts only."}
    )
    overwrite_cache: bool = field(
        default=False, metadata={"help": "Has no effect: no tokens are kept."}
    )
    preprocessing_num_workers: int | None = field(
        default=None, metadata={"help": "Processes that tokenize."}
    )

    def __post_init__(self) -> None:
        """Checks what can be checked without reading.

        Raises:
            ValueError: No data, contradictory sources, or a number out of range.
        """
        for name in (
            "max_train_samples",
            "max_eval_samples",
            "max_predict_samples",
            "preprocessing_num_workers",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} {value}: must be at least 1")
        files = self.list_files()
        if self.dataset_name and files:
            raise ValueError(
                f"dataset_name {self.dataset_name!r} and files: only one kind may be given"
            )
        if not self.dataset_name and not files:
            raise ValueError(
                "no data: give dataset_name, or train_file, validation_file, test_file"
            )

    def list_files(self) -> dict[str, str]:
        """Returns the files that are given, by split."""
        files = {
            "train": self.train_file,
            "validation": self.validation_file,
            "test": self.test_file,
        }
        return {split: path for split, path in files.items() if path}

    def get_limit(self, split: str) -> int | None:
        """Returns how many texts of a split are used at most, None for all."""
        return {
            "train": self.max_train_samples,
            "validation": self.max_eval_samples,
            "test": self.max_predict_samples,
        }[split]


class Scorer(Protocol):
    """Makes scores and files of what a model says of a split."""

    # Number of texts.
    num_samples: int

    def __call__(self, prediction: EvalPrediction) -> dict[str, float]:
        """Returns the scores."""
        ...

    def write(self, folder: Path, prefix: str) -> None:
        """Writes the files of the last call."""
        ...


def start_run(
    model_args: ModelArguments, task_args: SplitArguments, training_args: TrainingArguments
) -> tuple[list[str], dict[str, Any]]:
    """Checks a run before any work.

    Returns:
        The splits that are needed, and what makes the run the run that it is.

    Raises:
        ValueError: Nothing to do, no data for it, a number out of range, or an `output_dir` that
            holds other things.
    """
    asked = {
        "train": training_args.do_train,
        "validation": training_args.do_eval,
        "test": training_args.do_predict,
    }
    splits = [split for split, wanted in asked.items() if wanted]
    if not splits:
        raise ValueError("nothing to do: give do_train, do_eval or do_predict")
    files = task_args.list_files()
    missing = [split for split in splits if files and split not in files]
    if missing:
        raise ValueError(f"no data for {missing[0]!r}: give {missing[0]}_file")
    _check_training(training_args)
    run = describe_run(model_args, task_args, training_args)
    with training_args.main_process_first(desc="checking output_dir"):
        check_output_dir(
            str(training_args.output_dir),
            model_args.model_name_or_path,
            run,
            trains=training_args.do_train,
        )
    return splits, run


def _check_training(training_args: TrainingArguments) -> None:
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


def describe_run(
    model_args: ModelArguments, task_args: SplitArguments, training_args: TrainingArguments
) -> dict[str, Any]:
    """Returns what makes a run the run it is: options that are not at their defaults.

    Where a run trains, what matters to its scores alone is left out.
    """
    ignored = _WITHOUT_EFFECT | (task_args.SCORES_ONLY if training_args.do_train else set())
    run = {
        option.name: getattr(arguments, option.name)
        for arguments in (model_args, task_args)
        for option in dataclasses.fields(arguments)
        if option.name not in ignored and getattr(arguments, option.name) != option.default
    }
    if training_args.do_train:
        run.update({name: getattr(training_args, name) for name in _OF_TRAINING})
    return {**run, "do_train": training_args.do_train}


def check_best_metric(training_args: TrainingArguments, names: list[str]) -> None:
    """Checks the metric that chooses the best checkpoint, or that early stopping looks at.

    Raises:
        ValueError: The task has no such metric.
    """
    chosen = training_args.metric_for_best_model
    if chosen is not None and chosen.removeprefix("eval_") not in names:
        raise ValueError(f"metric_for_best_model {chosen!r}: must be one of {', '.join(names)}")


def train(trainer: Trainer, rows: datasets.Dataset) -> dict[str, float]:
    """Trains, saves the model and returns the metrics of training."""
    checkpoint = trainer.args.resume_from_checkpoint
    metrics = trainer.train(resume_from_checkpoint=checkpoint).metrics
    metrics["train_samples"] = len(rows)
    trainer.save_model()
    trainer.save_state()
    trainer.log_metrics("train", metrics)
    trainer.save_metrics("train", metrics)
    return metrics


def score(trainer: Trainer, split: str, rows: datasets.Dataset, scorer: Scorer) -> dict[str, float]:
    """Scores a model on a split, writes what it said and returns the metrics."""
    prefix = PREFIXES[split]
    trainer.compute_metrics = scorer
    if split == "validation":
        metrics = trainer.evaluate(rows, metric_key_prefix=prefix)
    else:
        metrics = trainer.predict(rows, metric_key_prefix=prefix).metrics or {}
    metrics[f"{prefix}_samples"] = scorer.num_samples
    trainer.log_metrics(prefix, metrics)
    trainer.save_metrics(prefix, metrics)
    if trainer.is_world_process_zero():
        scorer.write(Path(str(trainer.args.output_dir)), prefix)
    return metrics
