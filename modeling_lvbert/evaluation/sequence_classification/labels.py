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
"""Labels of a task as numbers, and data sets of its texts and labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import datasets
import numpy as np

from .glue import GLUE_TASKS


@dataclass
class LabelScheme:
    """How a task's labels become numbers.

    Attributes:
        names: Names of the classes, in the order of their numbers; empty for regression.
    """

    names: list[str]

    @property
    def is_regression(self) -> bool:
        """Whether the labels are numbers on a scale."""
        return not self.names

    def encode(self, source: str, values: Sequence[Any]) -> list[int] | list[float]:
        """Returns the labels as numbers.

        Args:
            source: What the labels are, for messages.
            values: Labels as they stand in a table: names, or the numbers of the names.

        Raises:
            ValueError: A label that is no number, or none of the classes.
        """
        if self.is_regression:
            try:
                return [float(value) for value in values]
            except (TypeError, ValueError):
                raise ValueError(
                    f"{source}: the labels must be numbers, got {_find_non_number(values)!r}"
                ) from None
        numbers = {name: number for number, name in enumerate(self.names)}
        by_number = {str(number): number for number in range(len(self.names))}
        # Names first: where classes are called "1" and "2", these are names.
        known = numbers if any(_write(value) in numbers for value in values) else by_number
        unknown = sorted({_write(value) for value in values} - set(known))
        if unknown:
            raise ValueError(f"{source}: unknown labels {unknown[:5]}; known: {self.names}")
        return [known[_write(value)] for value in values]


def _write(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _is_scale(values: Sequence[Any]) -> bool:
    """Tells whether labels are numbers of which at least one is written with a decimal point."""
    try:
        return all(np.isfinite(float(value)) for value in values) and any(
            "." in str(value) for value in values
        )
    except (TypeError, ValueError):
        return False


def _find_non_number(values: Sequence[Any]) -> Any:
    def is_number(value: Any) -> bool:
        try:
            float(value)
        except (TypeError, ValueError):
            return False
        return True

    return next(value for value in values if not is_number(value))


def find_label_scheme(
    values: Sequence[Any], task_name: str | None = None, saved_names: Sequence[str] = ()
) -> LabelScheme:
    """Finds out what kind of labels a task has.

    Args:
        values: The training labels.
        task_name: A task of GLUE, whose names are known.
        saved_names: Names that the model was saved with, whose order is taken if they are the same
            names.

    Raises:
        ValueError: A label is missing, or there is only one class.
    """
    if any(value is None or value == "" for value in values):
        raise ValueError(
            f"row {next(i for i, v in enumerate(values, 1) if v is None or v == '')} has no label"
        )
    if task_name:
        names = list(GLUE_TASKS[task_name].labels)
    elif _is_scale(values):
        names = []
    else:
        found = {_write(value) for value in values}
        names = sorted(
            found, key=lambda name: (0, int(name), "") if name.isdecimal() else (1, 0, name)
        )
        if len(names) < 2:
            raise ValueError(f"all labels are {names[0]!r}: at least two classes are needed")
    return LabelScheme(list(saved_names) if names and set(saved_names) == set(names) else names)


def build_dataset(
    source: str,
    rows: list[dict[str, Any]],
    text_columns: Sequence[str],
    label_column: str | None,
    scheme: LabelScheme,
) -> datasets.Dataset:
    """Builds a data set with columns `sentence1`, `sentence2` for pairs, `label` if there is one.

    Args:
        source: What the rows are, for messages.
        rows: The table.
        text_columns: Result of `find_text_columns`.
        label_column: Result of `find_label_column`.
        scheme: How the labels become numbers.

    Raises:
        ValueError: A text is missing, or a label is unknown.
    """
    for number, row in enumerate(rows, start=1):
        wrong = [name for name in text_columns if not isinstance(row.get(name), str)]
        if wrong:
            raise ValueError(
                f"{source}: row {number} has no text in column {wrong[0]!r}, "
                f"but {row.get(wrong[0])!r}"
            )
    columns: dict[str, list[Any]] = {"sentence1": [row[text_columns[0]] for row in rows]}
    if len(text_columns) > 1:
        columns["sentence2"] = [" ".join(row[name] for name in text_columns[1:]) for row in rows]
    if label_column:
        columns["label"] = list(scheme.encode(source, [row.get(label_column) for row in rows]))
    return datasets.Dataset.from_dict(columns)
