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
"""Which columns of a table hold a task's texts and labels: GLUE's, BabyLM's, or those named."""

from typing import Any

from .glue import GLUE_TASKS

# Texts in tables of other origin, BabyLM's among them; of several columns after the first, the
# second text is all of them, joined by blanks.
_KNOWN_COLUMNS = (
    ("text", "span1_text", "span2_text"),
    ("paragraph", "question", "answer"),
    ("question", "passage"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("sentence1", "sentence2"),
    ("sentence",),
)
_NOT_TEXT = ("idx", "index", "id")
_LABEL = "label"


def find_text_columns(
    rows: list[dict[str, Any]], chosen: str | None, task_name: str | None
) -> tuple[str, ...]:
    """Returns the columns of a table's texts: the first one's, then all that make up the second.

    Args:
        rows: The table.
        chosen: Names parted by commas, if the user gave them.
        task_name: A task of GLUE, if it is one.

    Raises:
        ValueError: A named column is missing, or there is no text.
    """
    present = list(rows[0])
    if chosen:
        names = tuple(name.strip() for name in chosen.split(","))
        missing = [name for name in names if name not in present]
        if missing:
            raise ValueError(
                f"text_column_names {chosen!r}: no column {', '.join(missing)}; columns: {present}"
            )
        return names
    known = list(_KNOWN_COLUMNS)
    if task_name:
        known = [
            GLUE_TASKS[task_name].text_columns,
            GLUE_TASKS[task_name].hub_columns or ("",),
            *known,
        ]
    for columns in known:
        if set(columns) <= set(present):
            return columns
    texts = [
        name
        for name in present
        if name.lower() not in (*_NOT_TEXT, _LABEL)
        and all(isinstance(row.get(name), str) for row in rows)
    ]
    if not texts:
        raise ValueError(f"no column of text; columns: {present}")
    return tuple(texts[:2])


def find_label_column(
    rows: list[dict[str, Any]], chosen: str | None, task_name: str | None
) -> str | None:
    """Returns the column of a table's labels, None if it has none.

    Raises:
        ValueError: The column that the user named is missing.
    """
    if chosen:
        if chosen not in rows[0]:
            raise ValueError(
                f"label_column_name {chosen!r}: no such column; columns: {list(rows[0])}"
            )
        return chosen
    candidates = [GLUE_TASKS[task_name].label_column] if task_name else []
    return next((name for name in [*candidates, _LABEL] if name in rows[0]), None)
