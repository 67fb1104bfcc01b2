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
"""Sentences of tagged words, from files in CoNLL's form or from tables with lists of words.

CoNLL's form: a word a line, columns parted by blanks (by tabs where each line has one), the word in
the first, its tag in the last, a blank line between sentences. Documents begin with `-DOCSTART-`.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..tables import check_file, read_table

_TABLES = (".csv", ".json", ".jsonl")
_WORD_COLUMNS = ("tokens", "words")
_DOCUMENT_BORDER = "-DOCSTART-"
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Sentence:
    """A sentence.

    Attributes:
        words: Its words, as they stand in the data.
        tags: A tag a word; None if the data do not say.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None


@dataclass(frozen=True)
class Columns:
    """Where words and tags are.

    Attributes:
        words: Column of the words in tables; "tokens" or "words" if None.
        tags: Column of the tags in tables; that of the task, as "ner_tags", if None.
        task_name: The task, for the column's name.
        number: Column of the tag in files of CoNLL's form, from 1; the last if None.
    """

    words: str | None = None
    tags: str | None = None
    task_name: str = "ner"
    number: int | None = None


def read_sentences(option: str, path: str, columns: Columns, *, has_tags: bool) -> list[Sentence]:
    """Reads the sentences of a file.

    Args:
        option: The option that named the file, for messages.
        path: A table (`.csv`, `.json`, `.jsonl`), or a file of any other name in CoNLL's form.
        columns: Where words and tags are.
        has_tags: Whether there must be tags.

    Raises:
        ValueError: The file is missing, damaged or empty, or lacks a column.
    """
    source = f"{option} {path!r}"
    file = Path(path)
    if file.suffix.lower() in _TABLES:
        rows = read_table(option, path)
        if file.suffix.lower() == ".csv":
            rows = [{name: _split_cell(source, cell) for name, cell in row.items()} for row in rows]
        return parse_rows(source, rows, columns, has_tags=has_tags)
    check_file(option, path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{source}: cannot be read ({error})") from None
    return parse_conll(source, text, columns.number, has_tags=has_tags)


def parse_conll(
    source: str, text: str, label_column: int | None, *, has_tags: bool
) -> list[Sentence]:
    """Makes sentences of a text in CoNLL's form.

    Args:
        source: What it is, for messages.
        text: The text.
        label_column: Column of the tag, from 1; the last if None.
        has_tags: Whether there must be tags.

    Raises:
        ValueError: There are no words, a line has too few columns, or, where the last is the tag's,
            another number than the first has.
    """
    # Not splitlines(): words may be, or have, what Unicode counts among ends of lines.
    lines = [line.strip(" \t\r") for line in text.split("\n")]
    has_tabs = all("\t" in line for line in lines if line and not line.startswith("#"))
    sentences: list[Sentence] = []
    words: list[str] = []
    tags: list[str] = []
    width = 0
    for number, line in enumerate([*lines, ""], start=1):
        # In files with tabs, a line without one is a comment, as CoNLL-U has them.
        if has_tabs and line.startswith("#") and "\t" not in line:
            continue
        cells = re.split(" *\t *" if has_tabs else "[ \t]+", line)
        if line and cells[0] != _DOCUMENT_BORDER:
            width = width or len(cells)
            words.append(cells[0])
            tags += _find_tag(f"{source}: line {number}", cells, width, label_column, has_tags)
        elif words:
            sentences.append(Sentence(tuple(words), tuple(tags) if tags else None))
            words, tags = [], []
    if not sentences:
        raise ValueError(f"{source}: no words")
    return sentences


def _find_tag(
    place: str, cells: list[str], width: int, label_column: int | None, has_tags: bool
) -> list[str]:
    """Returns the tag in a line's cells, none if lines have no tags and need none."""
    if label_column is None and len(cells) != width:
        raise ValueError(
            f"{place} has {len(cells)} columns, the first has {width}: if the tag is not in the "
            "last, label_column is needed"
        )
    column = label_column or width
    if column == 1 or len(cells) < column:
        if not has_tags and width == 1:
            return []
        least = max(2, column)
        raise ValueError(f"{place} has {len(cells)} columns: at least {least} are needed")
    tag = cells[column - 1]
    if not tag:
        raise ValueError(f"{place} has no tag in column {column}")
    return [tag]


def parse_rows(
    source: str, rows: Sequence[dict[str, Any]], columns: Columns, *, has_tags: bool
) -> list[Sentence]:
    """Makes sentences of the rows of a table.

    Args:
        source: What the rows are, for messages.
        rows: The rows, with lists of words and of tags.
        columns: Where words and tags are.
        has_tags: Whether there must be tags.

    Raises:
        ValueError: No rows, or a column is missing, of another kind, or too short or long.
    """
    if not rows:
        raise ValueError(f"{source}: no sentences")
    known = list(rows[0])
    names = [columns.words] if columns.words else list(_WORD_COLUMNS)
    word_column = next((name for name in names if name in known), None)
    if word_column is None:
        raise ValueError(
            f"{source}: no column {' or '.join(names)}; columns: {known} (text_column_name)"
        )
    tag_column = columns.tags or f"{columns.task_name}_tags"
    if tag_column not in known:
        if has_tags or columns.tags:
            raise ValueError(
                f"{source}: no column {tag_column}; columns: {known} (label_column_name)"
            )
        return [Sentence(words, None) for words in _read_lists(source, rows, word_column)]
    sentences = []
    both = zip(
        _read_lists(source, rows, word_column), _read_lists(source, rows, tag_column), strict=True
    )
    for number, (words, tags) in enumerate(both, start=1):
        if len(words) != len(tags):
            raise ValueError(f"{source}: row {number} has {len(words)} words but {len(tags)} tags")
        if "" in tags:
            raise ValueError(f"{source}: row {number} has an empty tag")
        sentences.append(Sentence(words, tags))
    return sentences


def _read_lists(
    source: str, rows: Sequence[dict[str, Any]], column: str
) -> Iterator[tuple[str, ...]]:
    for number, row in enumerate(rows, start=1):
        values = row.get(column)
        if not isinstance(values, list) or not all(isinstance(v, str | int) for v in values):
            raise ValueError(
                f"{source}: row {number} must have a list of texts in {column!r}, got "
                f"{values!r:.100}"
            )
        texts = tuple(str(value) for value in values)
        if _SURROGATE.search("".join(texts)):
            raise ValueError(f"{source}: row {number} has half a character in {column!r}")
        yield texts


def _split_cell(source: str, cell: str) -> list[Any]:
    """Returns the list in a cell of a CSV file: JSON's, or what is parted by blanks."""
    if not cell.startswith("["):
        return cell.split()
    try:
        return json.loads(cell)
    except ValueError:
        # A first word may begin so; a list of another language's form must not become words.
        if cell.endswith("]") and ("'" in cell or '"' in cell):
            raise ValueError(
                f"{source}: a list must be in JSON's form or parted by blanks, got {cell!r:.100}"
            ) from None
        return cell.split()
