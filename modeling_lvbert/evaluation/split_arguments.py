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
"""Where the data of a task is, split by split: options that all tasks have."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import datasets

from .model_loading import name_failure

SPLITS = ("train", "validation", "test")


@dataclass
class SplitArguments:
    """Where the data is.

    Attributes:
        SCORES_ONLY: Options that change nothing in how a model is trained.
        SOURCES: Options that each stand for all of the data, beside the files.
    """

    SCORES_ONLY: ClassVar[frozenset[str]] = frozenset(
        {"validation_file", "test_file", "max_eval_samples", "max_predict_samples"}
    )
    SOURCES: ClassVar[tuple[str, ...]] = ("dataset_name",)

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

    def __post_init__(self) -> None:
        """Checks what can be checked without reading.

        Raises:
            ValueError: No data, contradictory sources, or a number out of range.
        """
        for name in ("max_train_samples", "max_eval_samples", "max_predict_samples"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} {value}: must be at least 1")
        files = self.list_files()
        if self.dataset_name and files:
            raise ValueError(
                f"dataset_name {self.dataset_name!r} and files: only one kind may be given"
            )
        if not files and not any(getattr(self, name) for name in self.SOURCES):
            names = (*self.SOURCES, "or train_file", "validation_file", "test_file")
            raise ValueError(f"no data: give {', '.join(names)}")

    def list_files(self) -> dict[str, str]:
        """Returns the files that are given, by split."""
        files = {split: getattr(self, f"{split}_file") for split in SPLITS}
        return {split: path for split, path in files.items() if path}

    def get_limit(self, split: str) -> int | None:
        """Returns how many texts of a split are used at most, None for all."""
        return {
            "train": self.max_train_samples,
            "validation": self.max_eval_samples,
            "test": self.max_predict_samples,
        }[split]


def load_splits(arguments: SplitArguments, splits: Sequence[str]) -> dict[str, datasets.Dataset]:
    """Loads splits of a data set that `dataset_name` names.

    Args:
        arguments: Where it is.
        splits: Those that are needed.

    Raises:
        ValueError: It cannot be loaded, or a split is missing.
    """
    name = arguments.dataset_name
    found = name_failure(
        "dataset_name", name, lambda: datasets.load_dataset(name, arguments.dataset_config_name)
    )
    missing = [split for split in splits if split not in found]
    if missing:
        raise ValueError(
            f"dataset_name {name!r}: no split {missing[0]!r}; present: {sorted(found)}"
        )
    return {split: found[split] for split in splits}
