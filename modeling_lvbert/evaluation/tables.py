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
"""Tables of sentences and pairs: GLUE's own files, BabyLM's, or any other with named columns.

GLUE (arXiv 1804.07461) came as tab-separated files without quoting, of which CoLA's have no header.
"""

import csv
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .glue import GLUE_TASKS

logger = logging.getLogger(__name__)

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


def _read_tsv(path: Path, columns: Sequence[str], must_be_whole: bool) -> list[dict[str, Any]]:
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8-sig").split("\n")]
    rows = [[cell.rstrip("\r") for cell in row] for row in lines if row != [""]]
    # CoLA's training and development files begin with a sentence, its test file with a header.
    header = list(columns) if columns and rows and len(rows[0]) == len(columns) else rows.pop(0)
    whole = [row for row in rows if len(row) == len(header)]
    if must_be_whole and len(whole) < len(rows):
        raise ValueError(
            f"{len(rows) - len(whole)} of {len(rows)} rows have not {len(header)} cells: answers "
            "are counted by row, none can be left out"
        )
    if len(whole) < len(rows):
        logger.warning(
            "%s: left out %s of %s rows, which do not have %s cells",
            path,
            len(rows) - len(whole),
            len(rows),
            len(header),
        )
    return [dict(zip(header, row, strict=True)) for row in whole]


def _read_csv(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file, restkey="(more cells)", strict=True))
    for number, row in enumerate(rows, start=1):
        if "(more cells)" in row or None in row.values():
            raise ValueError(f"row {number} has another number of cells than the header")
    return rows


def _read_json(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8-sig")
    rows = (
        json.loads(text)
        if text.lstrip().startswith("[")
        else [json.loads(x) for x in text.split("\n") if x.strip()]
    )
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("every record must be an object")
    return rows


def read_table(
    name: str, path: str, task_name: str | None = None, *, must_be_whole: bool = False
) -> list[dict[str, Any]]:
    """Reads the rows of a file.

    Args:
        name: The option that named the file, for messages.
        path: `.tsv` (unquoted, as GLUE's), `.csv` (quoted), `.json` or `.jsonl`.
        task_name: A task of GLUE whose files may lack a header.
        must_be_whole: Whether a row of a `.tsv` with other cells than the header's is an error; it
            is left out with a warning otherwise.

    Raises:
        ValueError: The file is missing, of another kind, damaged or empty.
    """
    columns = GLUE_TASKS[task_name].columns if task_name else ()
    readers: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
        ".tsv": lambda file: _read_tsv(file, columns, must_be_whole),
        ".csv": _read_csv,
        ".json": _read_json,
        ".jsonl": _read_json,
    }
    file = Path(path)
    if file.suffix.lower() not in readers:
        raise ValueError(f"{name} {path!r}: the name must end in one of {', '.join(readers)}")
    if not file.is_file():
        raise ValueError(f"{name} {path!r}: {'is a folder' if file.is_dir() else 'no such file'}")
    try:
        rows = readers[file.suffix.lower()](file)
    except (OSError, ValueError, csv.Error, IndexError) as error:
        raise ValueError(f"{name} {path!r}: cannot be read ({error})") from None
    if not rows:
        raise ValueError(f"{name} {path!r}: the file has no rows")
    return rows


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
