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
"""Fine-tunes any transformers encoder to tag words: entities, chunks, parts of speech (CoNLL)."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import datasets
import torch
from torch.nn import functional
from transformers import (
    AutoModelForTokenClassification,
    DataCollatorForTokenClassification,
    TrainingArguments,
)

from ..model_loading import (
    ModelArguments,
    check_fast_tokenizer,
    check_tokenizer,
    load_config,
    load_tokenizer,
    read_labels,
)
from ..run_checks import check_best_metric
from ..split_arguments import load_splits
from ..window_run import WindowArguments, WindowTask, start_run, train_and_score
from .data import Columns, Sentence, parse_rows, read_sentences
from .metric import is_entity_scheme, list_metrics, load_seqeval
from .scorer import TagScorer
from .windows import IGNORED, SCORING_COLUMNS, build_rows

logger = logging.getLogger(__name__)

_DEFAULT_LENGTH = 512


@dataclass
class TaggingArguments(WindowArguments):
    """What to fine-tune it on: files in CoNLL's form, .csv, .json, .jsonl, or a data set."""

    SCORES_ONLY = WindowArguments.SCORES_ONLY | {"return_entity_level_metrics"}

    task_name: str = field(
        default="ner", metadata={"help": "Task, after which tables call the tags: ner_tags."}
    )
    text_column_name: str | None = field(
        default=None, metadata={"help": "Column of the words in tables; found if tokens or words."}
    )
    label_column_name: str | None = field(
        default=None, metadata={"help": "Column of the tags in tables."}
    )
    label_column: int | None = field(
        default=None,
        metadata={"help": "Column of the tag in files of CoNLL's form, from 1; absent: the last."},
    )
    max_seq_length: int | None = field(
        default=None,
        metadata={
            "help": f"Tokens of a window; absent: the model's longest input, {_DEFAULT_LENGTH} at "
            "most."
        },
    )
    label_all_tokens: bool = field(
        default=False,
        metadata={"help": "Train on all tokens of a word, not on the first alone."},
    )
    return_entity_level_metrics: bool = field(
        default=False, metadata={"help": "Also give the scores of each type of entity."}
    )

    def __post_init__(self) -> None:
        """Checks what can be checked without reading.

        Raises:
            ValueError: A number out of range, or see the base class.
        """
        super().__post_init__()
        if self.max_seq_length is not None and self.max_seq_length < 3:
            raise ValueError(f"max_seq_length {self.max_seq_length}: must be at least 3")
        if self.label_column is not None and self.label_column < 2:
            raise ValueError(
                f"label_column {self.label_column}: must be at least 2, the word is in the first"
            )

    def get_columns(self) -> Columns:
        """Returns where words and tags are."""
        return Columns(
            self.text_column_name, self.label_column_name, self.task_name, self.label_column
        )


def load_sentences(arguments: TaggingArguments, splits: Sequence[str]) -> dict[str, list[Sentence]]:
    """Loads the sentences of splits.

    Args:
        arguments: Where they are.
        splits: Of "train", "validation" and "test" those that are needed.

    Raises:
        ValueError: A split is missing or damaged, or has no tags where it must.
    """
    files, columns = arguments.list_files(), arguments.get_columns()
    if files:
        loaded = {
            split: read_sentences(f"{split}_file", files[split], columns, has_tags=split != "test")
            for split in splits
        }
    else:
        loaded = _load_dataset(arguments, splits, columns)
    limited = {split: part[: arguments.get_limit(split)] for split, part in loaded.items()}
    for split, part in limited.items():
        if not any(sentence.words for sentence in part):
            raise ValueError(f"{split}: no words")
    return limited


def _load_dataset(
    arguments: TaggingArguments, splits: Sequence[str], columns: Columns
) -> dict[str, list[Sentence]]:
    loaded = {}
    for split, part in load_splits(arguments, splits).items():
        rows = part.to_list()
        for column, feature in part.features.items():
            classes = getattr(feature, "feature", None)
            if isinstance(classes, datasets.ClassLabel):
                for row in rows:
                    row[column] = classes.int2str(row[column])
        source = f"dataset_name {arguments.dataset_name!r}, {split}"
        loaded[split] = parse_rows(source, rows, columns, has_tags=split != "test")
    return loaded


def find_labels(sentences: dict[str, list[Sentence]], config: Any) -> list[str]:
    """Returns the tags in the order of their numbers.

    These are the training data's, in the order of the model's own where these are the same, and the
    model's own where it is not trained.

    Args:
        sentences: The data by split.
        config: The model's configuration.

    Raises:
        ValueError: A model that was not fine-tuned is not trained, or there is only one tag.
    """
    own, is_new = read_labels(config)
    if "train" not in sentences:
        if is_new:
            raise ValueError("the model has no tags: do_train, or give a fine-tuned one")
        known = own
    else:
        found = {tag for sentence in sentences["train"] for tag in sentence.tags or ()}
        if len(found) < 2:
            raise ValueError(f"train_file: all tags are {min(found)!r}, at least two are needed")
        known = own if found == set(own) else sorted(found)
    for split, part in sentences.items():
        unknown = {tag for sentence in part for tag in sentence.tags or ()} - set(known)
        if unknown:
            logger.warning(
                "%s: the tags %s are none of the model's and will not be found",
                split,
                sorted(unknown)[:5],
            )
    return known


def _reduce(outputs: Any, labels: torch.Tensor | None) -> torch.Tensor | tuple[torch.Tensor, ...]:
    """Returns the best label of each token, (batch, seq), and the sum of each row's losses."""
    logits = outputs["logits"].float()
    best = logits.argmax(dim=-1)
    if labels is None:
        return best
    # (batch, seq)
    losses = functional.cross_entropy(
        logits.transpose(1, 2), labels, ignore_index=IGNORED, reduction="none"
    )
    return best, losses.sum(dim=-1)


def tag_words(
    model_args: ModelArguments, task_args: TaggingArguments, training_args: TrainingArguments
) -> dict[str, float]:
    """Trains, evaluates and predicts as `training_args` ask, and returns the metrics.

    Args:
        model_args: The model.
        task_args: The sentences.
        training_args: Arguments of transformers' Trainer; `do_train`, `do_eval` and `do_predict`
            say what to do.

    Raises:
        ImportError: What scores entities is not installed.
        ValueError: Nothing to do, a model, tokenizer or data that cannot be used, or an
            `output_dir` that holds other things.
    """
    splits, run = start_run(model_args, task_args, training_args)
    config = load_config(model_args)
    tokenizer = load_tokenizer(model_args)
    check_fast_tokenizer(tokenizer)
    longest = min(task_args.max_seq_length or _DEFAULT_LENGTH, tokenizer.model_max_length)
    check_tokenizer(tokenizer, config, task_args.max_seq_length or longest, is_pair=False)
    sentences = load_sentences(task_args, splits)
    labels = find_labels(sentences, config)
    by_type = task_args.return_entity_level_metrics
    is_entities = is_entity_scheme(labels)
    if is_entities and splits != ["train"]:
        load_seqeval()
    check_best_metric(training_args, ["loss", *list_metrics(is_entities, by_type)])
    config.num_labels = len(labels)
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: number for number, label in enumerate(labels)}
    rows = {
        split: build_rows(
            part,
            tokenizer,
            labels,
            longest,
            label_all_tokens=task_args.label_all_tokens,
            trains=split == "train",
            num_proc=task_args.preprocessing_num_workers,
        )
        for split, part in sentences.items()
    }
    scorers = {
        split: TagScorer(sentences[split], rows[split], labels, by_type=by_type)
        for split in splits
        if split != "train"
    }
    task = WindowTask(
        auto_class=AutoModelForTokenClassification,
        config=config,
        tokenizer=tokenizer,
        longest=longest,
        collator=DataCollatorForTokenClassification,
        reduce=_reduce,
        windows=rows,
        scoring_columns=SCORING_COLUMNS,
        scorers=scorers,
    )
    return train_and_score(task, model_args, task_args, training_args, run)
