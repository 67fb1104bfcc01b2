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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import datasets
from transformers import (
    EvalPrediction,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
    set_seed,
)

from .model_loading import ModelArguments, load_model
from .run_checks import check_training, describe_run, list_splits
from .run_folder import check_output_dir, claim_output_dir
from .split_arguments import SplitArguments
from .training import report, train
from .window_trainer import WindowTrainer, drop_columns

_PREFIXES = {"validation": "eval", "test": "predict"}


@dataclass
class WindowArguments(SplitArguments):
    """Where the data is, and how it becomes tokens."""

    overwrite_cache: bool = field(
        default=False, metadata={"help": "Has no effect: no tokens are kept."}
    )
    preprocessing_num_workers: int | None = field(
        default=None, metadata={"help": "Processes that tokenize."}
    )

    def __post_init__(self) -> None:
        """Checks what can be checked without reading.

        Raises:
            ValueError: A number out of range, or see the base class.
        """
        super().__post_init__()
        if self.preprocessing_num_workers is not None and self.preprocessing_num_workers < 1:
            raise ValueError(
                f"preprocessing_num_workers {self.preprocessing_num_workers}: must be at least 1"
            )


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
    model_args: ModelArguments, task_args: WindowArguments, training_args: TrainingArguments
) -> tuple[list[str], dict[str, Any]]:
    """Checks a run before any work.

    Returns:
        The splits that are needed, and what makes the run the run that it is.

    Raises:
        ValueError: Nothing to do, no data for it, a number out of range, or an `output_dir` that
            holds other things.
    """
    splits = list_splits(training_args)
    files = task_args.list_files()
    missing = [split for split in splits if files and split not in files]
    if missing:
        raise ValueError(f"no data for {missing[0]!r}: give {missing[0]}_file")
    check_training(training_args)
    run = describe_run((model_args, task_args), training_args, scores_only=task_args.SCORES_ONLY)
    with training_args.main_process_first(desc="checking output_dir"):
        check_output_dir(
            str(training_args.output_dir),
            model_args.model_name_or_path,
            run,
            trains=training_args.do_train,
        )
    return splits, run


def _score(
    trainer: Trainer, split: str, rows: datasets.Dataset, scorer: Scorer
) -> dict[str, float]:
    """Scores a model on a split, writes what it said and returns the metrics."""
    prefix = _PREFIXES[split]
    trainer.compute_metrics = scorer
    if split == "validation":
        metrics = trainer.evaluate(rows, metric_key_prefix=prefix)
    else:
        metrics = trainer.predict(rows, metric_key_prefix=prefix).metrics or {}
    metrics[f"{prefix}_samples"] = scorer.num_samples
    report(trainer, prefix, metrics)
    if trainer.is_world_process_zero():
        scorer.write(Path(str(trainer.args.output_dir)), prefix)
    return metrics


@dataclass(frozen=True)
class WindowTask:
    """A task as its model takes it.

    Attributes:
        auto_class: One of transformers' `AutoModelFor...`.
        config: The model's configuration, with the task's labels.
        tokenizer: The tokenizer.
        longest: Tokens of a window at most.
        collator: Makes batches, given the tokenizer and how to pad.
        reduce: See `WindowTrainer`.
        windows: The rows by split.
        scoring_columns: Those of their columns that only the scorers need.
        scorers: By split; the test data's is called after that of the validation data.
    """

    auto_class: Any
    config: Any
    tokenizer: PreTrainedTokenizerBase
    longest: int
    collator: Callable[..., Any]
    reduce: Callable[..., Any]
    windows: Mapping[str, datasets.Dataset]
    scoring_columns: Sequence[str]
    scorers: Mapping[str, Scorer]


def train_and_score(
    task: WindowTask,
    model_args: ModelArguments,
    task_args: WindowArguments,
    training_args: TrainingArguments,
    run: dict[str, Any],
) -> dict[str, float]:
    """Trains, evaluates and predicts what a task has rows for, and returns the metrics.

    Args:
        task: The task.
        model_args: The model.
        task_args: How rows are padded.
        training_args: Arguments of the Trainer.
        run: What makes the run the run that it is: the second result of `start_run`.

    Raises:
        ValueError: A model that cannot be used, or an `output_dir` that cannot be written.
    """
    set_seed(training_args.seed)
    model = load_model(
        task.auto_class, model_args, task.config, head_may_be_new=training_args.do_train
    )
    with training_args.main_process_first(desc="claiming output_dir"):
        claim_output_dir(str(training_args.output_dir), run)
    rows = {split: drop_columns(part, task.scoring_columns) for split, part in task.windows.items()}
    pads = task_args.pad_to_max_length
    trainer = WindowTrainer(
        reduce=task.reduce,
        model=model,
        args=training_args,
        train_dataset=rows.get("train"),
        eval_dataset=rows.get("validation"),
        data_collator=task.collator(
            task.tokenizer,
            padding="max_length" if pads else True,
            max_length=task.longest if pads else None,
        ),
        processing_class=task.tokenizer,
        compute_metrics=task.scorers.get("validation"),
    )
    metrics = train(trainer, len(rows["train"])) if "train" in rows else {}
    for split, scorer in task.scorers.items():
        metrics.update(_score(trainer, split, rows[split], scorer))
    return metrics
