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
"""The data of a sentence or sentence-pair task: files, a task of GLUE, or a data set of the Hub."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import datasets

from ..model_loading import name_failure
from ..split_arguments import SPLITS, SplitArguments
from ..tables import read_table
from .columns import find_label_column, find_text_columns
from .glue import GLUE_TASKS, TASK_WITH_MISMATCHED
from .labels import LabelScheme, build_dataset, find_label_scheme

# MNLI's second sets, of other sources than its training data, and the first ones they go with.
MISMATCHED = {"validation_mismatched": "validation", "test_mismatched": "test"}
_HUB_NAMES = {"validation_matched": "validation", "test_matched": "test"}


def _is_test(split: str) -> bool:
    return MISMATCHED.get(split, split) == "test"


@dataclass
class TaskArguments(SplitArguments):
    """What to fine-tune it on: files, or a task of GLUE."""

    SCORES_ONLY = SplitArguments.SCORES_ONLY | {
        "validation_mismatched_file",
        "test_mismatched_file",
    }
    SOURCES: ClassVar[tuple[str, ...]] = ("task_name", *SplitArguments.SOURCES)

    task_name: str | None = field(
        default=None, metadata={"help": f"GLUE task: {', '.join(GLUE_TASKS)}."}
    )
    train_file: str | None = field(
        default=None, metadata={"help": "GLUE's .tsv, or .csv, .json, .jsonl."}
    )
    validation_file: str | None = field(default=None, metadata={"help": "The same for validation."})
    test_file: str | None = field(
        default=None, metadata={"help": "The same for prediction, without labels."}
    )
    validation_mismatched_file: str | None = field(
        default=None, metadata={"help": "MNLI's second validation set."}
    )
    test_mismatched_file: str | None = field(
        default=None, metadata={"help": "MNLI's second test set."}
    )
    text_column_names: str | None = field(
        default=None,
        metadata={"help": "Columns of the texts, parted by commas, where they are not found."},
    )
    label_column_name: str | None = field(default=None, metadata={"help": "Column of the label."})
    max_seq_length: int = field(default=128, metadata={"help": "Longer texts are cut, in tokens."})
    overwrite_cache: bool = field(default=False, metadata={"help": "Tokenize anew."})

    def __post_init__(self) -> None:
        """Checks what can be checked without reading.

        Raises:
            ValueError: An unknown task, no data, contradictory sources, or a number out of range.
        """
        if self.max_seq_length < 3:
            raise ValueError(
                f"max_seq_length {self.max_seq_length}: at least 3 is needed, two of them for "
                "special tokens"
            )
        if self.task_name is not None:
            self.task_name = self.task_name.lower().replace("-", "")
            if self.task_name not in GLUE_TASKS:
                raise ValueError(
                    f"task_name {self.task_name!r}: must be one of {', '.join(GLUE_TASKS)}"
                )
        super().__post_init__()
        files = self.list_files()
        for split in MISMATCHED:
            if split in files and self.task_name != TASK_WITH_MISMATCHED:
                raise ValueError(
                    f"{split}_file {files[split]!r}: only task_name {TASK_WITH_MISMATCHED} "
                    "has a second set"
                )

    def list_files(self) -> dict[str, str]:
        """Returns the files that were given, by split."""
        more = {split: getattr(self, f"{split}_file") for split in MISMATCHED}
        return {**super().list_files(), **{split: path for split, path in more.items() if path}}

    def get_limit(self, split: str) -> int | None:
        """Returns how many rows of a split are used at most, None for all."""
        return super().get_limit(MISMATCHED.get(split, split))


def _load_tables(arguments: TaskArguments) -> dict[str, list[dict[str, Any]]]:
    if files := arguments.list_files():
        columns = GLUE_TASKS[arguments.task_name].columns if arguments.task_name else ()
        return {
            split: read_table(f"{split}_file", path, columns, must_be_whole=_is_test(split))
            for split, path in files.items()
        }
    option = "dataset_name" if arguments.dataset_name else "task_name"
    sources = {
        "dataset_name": (arguments.dataset_name, arguments.dataset_config_name),
        "task_name": ("nyu-mll/glue", arguments.task_name),
    }
    name = getattr(arguments, option)
    found = name_failure(option, name, lambda: datasets.load_dataset(*sources[option]))
    return {_HUB_NAMES.get(str(split), str(split)): part.to_list() for split, part in found.items()}


def load_task(
    arguments: TaskArguments, splits: list[str], saved: LabelScheme | None
) -> tuple[dict[str, datasets.Dataset], LabelScheme]:
    """Loads a task's splits and finds out about its labels.

    Args:
        arguments: Where the data is.
        splits: Those of `SPLITS` that are needed; MNLI's second sets come with its first ones.
        saved: The labels that the model was fine-tuned on before, if it was.

    Raises:
        ValueError: A split, column or label is missing or wrong.
    """
    tables = _load_tables(arguments)
    splits = [*splits, *(second for second, first in MISMATCHED.items() if first in splits)]
    missing = [split for split in splits if split in SPLITS and split not in tables]
    if missing:
        raise ValueError(
            f"no data for {missing[0]!r}: give {missing[0]}_file; present: {sorted(tables)}"
        )
    labelled = [split for split in ("train", "validation") if split in tables]
    if not labelled and saved is None and not arguments.task_name:
        raise ValueError(
            "the labels are unknown: give train_file or validation_file, or a fine-tuned model"
        )
    reference = tables[labelled[0] if labelled else "test"]
    text_columns = find_text_columns(reference, arguments.text_column_names, arguments.task_name)
    label_column = find_label_column(reference, arguments.label_column_name, arguments.task_name)
    if labelled and label_column is None:
        raise ValueError(
            f"{labelled[0]}_file has no column of labels; columns: {list(reference[0])}"
        )
    if saved is not None and "train" not in splits:
        scheme = saved
    else:
        values = [row.get(label_column) for row in reference] if label_column else []
        scheme = find_label_scheme(values, arguments.task_name, saved.names if saved else ())
    built = {}
    for split in splits:
        if split not in tables:
            continue
        rows = tables[split]
        is_test = _is_test(split)
        columns = text_columns
        if is_test and not set(text_columns) <= set(rows[0]):
            columns = find_text_columns(rows, None, arguments.task_name)
        built[split] = build_dataset(
            f"{split}_file", rows, columns, None if is_test else label_column, scheme
        )
    return built, scheme
