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
"""Fine-tunes any transformers encoder on questions whose answers are spans of a text (SQuAD)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import datasets
import torch
from transformers import (
    AutoModelForQuestionAnswering,
    DataCollatorWithPadding,
    PreTrainedTokenizerBase,
    TrainingArguments,
)

from ..model_loading import (
    ModelArguments,
    check_fast_tokenizer,
    check_tokenizer,
    load_config,
    load_tokenizer,
)
from ..run_checks import check_best_metric
from ..split_arguments import load_splits
from ..window_run import WindowArguments, WindowTask, start_run, train_and_score
from .data import Question, parse_questions, read_questions
from .scorer import AnswerScorer
from .windows import SCORING_COLUMNS, build_windows

# By whether questions without answer are among them.
_METRICS = {False: ["exact_match", "f1"], True: ["exact", "f1", "best_exact", "best_f1"]}


@dataclass
class QuestionAnsweringArguments(WindowArguments):
    """What to fine-tune it on: .json files in SQuAD's form or flat, or a data set of the Hub."""

    SCORES_ONLY = WindowArguments.SCORES_ONLY | {
        "null_score_diff_threshold",
        "tune_null_threshold",
        "n_best_size",
        "max_answer_length",
    }

    max_seq_length: int = field(
        default=384, metadata={"help": "Tokens of a window of question and context."}
    )
    doc_stride: int = field(
        default=128, metadata={"help": "Tokens of the context that neighbouring windows share."}
    )
    version_2_with_negative: bool = field(
        default=False, metadata={"help": "Some questions have no answer, as in SQuAD 2.0."}
    )
    null_score_diff_threshold: float = field(
        default=0.0,
        metadata={
            "help": "There is no answer where that scores this much higher than the best one.",
        },
    )
    tune_null_threshold: bool = field(
        default=False,
        metadata={
            "help": "Use the threshold that gives the best F1 on the validation data instead, for "
            "the test data too.",
        },
    )
    n_best_size: int = field(
        default=20,
        metadata={"help": "Candidates of a question in the n-best file."},
    )
    max_answer_length: int = field(default=30, metadata={"help": "Tokens of an answer at most."})

    def __post_init__(self) -> None:
        """Checks what can be checked without reading.

        Raises:
            ValueError: A number out of range, options that do not go together, or see the base
                class.
        """
        super().__post_init__()
        for name, least in (
            ("max_seq_length", 5),
            ("doc_stride", 0),
            ("n_best_size", 1),
            ("max_answer_length", 1),
        ):
            if getattr(self, name) < least:
                raise ValueError(f"{name} {getattr(self, name)}: must be at least {least}")
        if self.null_score_diff_threshold != self.null_score_diff_threshold:
            raise ValueError("null_score_diff_threshold nan: must be a number")
        if self.tune_null_threshold and not self.version_2_with_negative:
            raise ValueError("tune_null_threshold: only for version_2_with_negative")


def load_questions(
    arguments: QuestionAnsweringArguments, splits: Sequence[str]
) -> dict[str, list[Question]]:
    """Loads the questions of splits.

    Args:
        arguments: Where they are.
        splits: Of "train", "validation" and "test" those that are needed.

    Raises:
        ValueError: A split is missing, damaged, or without the answers that it needs.
    """
    files = arguments.list_files()
    if files:
        loaded = {split: read_questions(f"{split}_file", files[split]) for split in splits}
    else:
        source = f"dataset_name {arguments.dataset_name!r}"
        loaded = {
            split: parse_questions(f"{source}, {split}", part.to_list())
            for split, part in load_splits(arguments, splits).items()
        }
    for split, questions in loaded.items():
        if split != "test":
            _check_golds(split, questions, arguments.version_2_with_negative)
    return {split: questions[: arguments.get_limit(split)] for split, questions in loaded.items()}


def _check_golds(split: str, questions: Sequence[Question], with_negative: bool) -> None:
    for question in questions:
        if question.golds is None:
            raise ValueError(f"{split}_file: question {question.name!r} has no field answers")
        if not question.golds and not with_negative:
            raise ValueError(
                f"{split}_file: question {question.name!r} has no answer: "
                "version_2_with_negative is needed"
            )


def _take_logits(outputs: Any, labels: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    return outputs["start_logits"].float(), outputs["end_logits"].float()


def _build_rows(
    questions: dict[str, list[Question]],
    tokenizer: PreTrainedTokenizerBase,
    arguments: QuestionAnsweringArguments,
    longest: int,
) -> dict[str, datasets.Dataset]:
    if "train" in questions:
        # Those whose answer is not in the context, as the data's reader has warned.
        usable = [q for q in questions["train"] if q.span is not None or not q.golds]
        if not usable:
            raise ValueError("train_file: no question has an answer that its context has")
        questions = {**questions, "train": usable}
    return {
        split: build_windows(
            part,
            tokenizer,
            longest,
            arguments.doc_stride,
            trains=split == "train",
            num_proc=arguments.preprocessing_num_workers,
        )
        for split, part in questions.items()
    }


def answer_questions(
    model_args: ModelArguments,
    task_args: QuestionAnsweringArguments,
    training_args: TrainingArguments,
) -> dict[str, float]:
    """Trains, evaluates and predicts as `training_args` ask, and returns the metrics.

    Args:
        model_args: The model.
        task_args: The questions.
        training_args: Arguments of transformers' Trainer; `do_train`, `do_eval` and `do_predict`
            say what to do.

    Raises:
        ValueError: Nothing to do, a model, tokenizer or data that cannot be used, or an
            `output_dir` that holds other things.
    """
    if task_args.tune_null_threshold and not training_args.do_eval:
        raise ValueError("tune_null_threshold: do_eval is needed")
    check_best_metric(training_args, _METRICS[task_args.version_2_with_negative])
    splits, run = start_run(model_args, task_args, training_args)
    config = load_config(model_args)
    # A first and a last token: that a model was made for another number of labels does not matter.
    config.num_labels = 2
    tokenizer = load_tokenizer(model_args)
    check_fast_tokenizer(tokenizer)
    check_tokenizer(tokenizer, config, task_args.max_seq_length, is_pair=True)
    questions = load_questions(task_args, splits)
    longest = min(task_args.max_seq_length, tokenizer.model_max_length)
    rows = _build_rows(questions, tokenizer, task_args, longest)
    scorers: dict[str, AnswerScorer] = {}
    for split in splits:
        if split != "train":
            scorers[split] = AnswerScorer(
                questions[split],
                rows[split],
                n_best=task_args.n_best_size,
                max_length=task_args.max_answer_length,
                threshold=task_args.null_score_diff_threshold
                if task_args.version_2_with_negative
                else None,
                tunes=task_args.tune_null_threshold and split == "validation",
                tuned=scorers.get("validation") if task_args.tune_null_threshold else None,
            )
    task = WindowTask(
        auto_class=AutoModelForQuestionAnswering,
        config=config,
        tokenizer=tokenizer,
        longest=longest,
        collator=DataCollatorWithPadding,
        reduce=_take_logits,
        windows=rows,
        scoring_columns=SCORING_COLUMNS,
        scorers=scorers,
    )
    return train_and_score(task, model_args, task_args, training_args, run)
