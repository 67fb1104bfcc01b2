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
"""Tables in files: tab-separated without quoting, as GLUE's (arXiv 1804.07461), CSV, or JSON."""

import csv
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)


def check_file(name: str, path: str) -> None:
    """Checks that a file is there.

    Args:
        name: The option that named the file, for messages.
        path: The file.

    Raises:
        ValueError: It is not, or is a folder.
    """
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"{name} {path!r}: {'is a folder' if file.is_dir() else 'no such file'}")


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
    name: str, path: str, columns: Sequence[str] = (), *, must_be_whole: bool = False
) -> list[dict[str, Any]]:
    """Reads the rows of a file.

    Args:
        name: The option that named the file, for messages.
        path: `.tsv` (unquoted, as GLUE's), `.csv` (quoted), `.json` or `.jsonl`.
        columns: Columns of a `.tsv` without a header: one whose first row has as many cells.
        must_be_whole: Whether a row of a `.tsv` with other cells than the header's is an error; it
            is left out with a warning otherwise.

    Raises:
        ValueError: The file is missing, of another kind, damaged or empty.
    """
    readers: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
        ".tsv": lambda file: _read_tsv(file, columns, must_be_whole),
        ".csv": _read_csv,
        ".json": _read_json,
        ".jsonl": _read_json,
    }
    file = Path(path)
    if file.suffix.lower() not in readers:
        raise ValueError(f"{name} {path!r}: the name must end in one of {', '.join(readers)}")
    check_file(name, path)
    try:
        rows = readers[file.suffix.lower()](file)
    except (OSError, ValueError, csv.Error, IndexError) as error:
        raise ValueError(f"{name} {path!r}: cannot be read ({error})") from None
    if not rows:
        raise ValueError(f"{name} {path!r}: the file has no rows")
    return rows
