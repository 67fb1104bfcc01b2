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
"""Rows packed while they are read, for a corpus that is not to be prepared as a whole.

Documents are read in blocks; each block is packed and its rows are shuffled among themselves. So
the order is less mixed than that of all rows, and no more than a block is held. A position in the
stream says all that is needed to go on from there, to the last bit.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count, islice
from typing import Any

import datasets
import numpy as np

from .corpus import (
    NO_ROW,
    check_file,
    check_sources,
    choose_text_column,
    describe_lack_of_text,
    find_table_kind,
    has_text,
    iterate_documents,
    load_named,
    refuse_damage,
)
from .embedded_corpus import iterate_embedded_documents

# Pass over the corpus, block of documents, rows of it already taken.
Position = tuple[int, int, int]

# Bits of a mask key for a row's number in its block.
_ROW_BITS = 20
# Characters packed at once: a tokenizer's account of a text is much larger than its tokens.
_BATCH_SIZE = 1_000_000
# Rows that tell the columns of a table without a schema.
_NUM_ROWS_TO_INFER_FROM = 1_000


class StreamedRows:
    """Packed rows of a corpus that is read again for each pass and never held as a whole."""

    def __init__(
        self,
        read_documents: Callable[[], Iterable[dict[str, str]]],
        pack: Callable[[dict[str, list[str]], list[int]], dict[str, list]],
        seed: int,
        block_size: int = 1000,
    ) -> None:
        """Describes the stream.

        Args:
            read_documents: Begins to read the documents, `{"text": ...}`, the same in the same
                order each time; see `open_stream`.
            pack: Makes rows of documents and their numbers in the corpus, each column a list of
                lists of integers; see `packing.bind_packing`. What it makes of a document must not
                depend on the documents beside it.
            seed: Seed of the shuffling and of the masks.
            block_size: Number of documents whose rows are shuffled together.

        Raises:
            ValueError: A block of no document.
        """
        if block_size < 1:
            raise ValueError(f"block_size {block_size}: must be at least 1")
        self.read_documents = read_documents
        self.pack = pack
        self.seed = seed
        self.block_size = block_size

    def iterate_from(self, position: Position) -> Iterator[tuple[Position, dict[str, Any]]]:
        """Yields rows without an end, each with the position after it.

        A row has the packed columns and `mask_key`: the seed, the pass, and the block and the row's
        number in it before shuffling as one number. Documents before the position's block are read
        but not packed.

        Args:
            position: (0, 0, 0), or one that came with a row of the same corpus.

        Raises:
            ValueError: A whole pass gives no row, the corpus has no such position, or a block has
                more rows than a mask key can number.
        """
        first_pass, first_block, num_taken = position
        for current_pass in count(first_pass):
            has_rows = False
            for block, texts in self._read_blocks(first_block):
                rows = self._pack_block(current_pass, block, texts)
                if num_taken > len(rows):
                    raise ValueError(f"row {num_taken} of block {block}: it has {len(rows)} rows")
                for place in range(num_taken, len(rows)):
                    yield (current_pass, block, place + 1), _unfold(rows[place])
                has_rows = has_rows or len(rows) > 0
                num_taken = 0
            if not has_rows:
                raise ValueError(
                    "a whole pass over the corpus gave no row: the tokenizer found no token in it, "
                    "at least one is needed"
                )
            first_block = 0

    def _read_blocks(self, first_block: int) -> Iterator[tuple[int, list[str]]]:
        documents = iter(self.read_documents())
        num_skipped = sum(1 for _ in islice(documents, first_block * self.block_size))
        for block in count(first_block):
            texts = [document["text"] for document in islice(documents, self.block_size)]
            if texts:
                yield block, texts
            elif block == first_block > 0:
                raise ValueError(
                    f"block {block} of {self.block_size} documents each: the corpus ends after "
                    f"{num_skipped} documents"
                )
            if len(texts) < self.block_size:
                return

    def _pack_block(self, current_pass: int, block: int, texts: list[str]) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for numbers in _cut_batches(texts):
            batch = {"text": [texts[number] for number in numbers]}
            first = block * self.block_size
            columns = self.pack(batch, [first + number for number in numbers])
            for values in zip(*columns.values(), strict=True):
                # Arrays, since a list has 36 bytes a token.
                arrays = (np.array(value, dtype=np.int32) for value in values)
                key = (self.seed, current_pass, block << _ROW_BITS | len(rows))
                rows.append({"mask_key": key, **dict(zip(columns, arrays, strict=True))})
        if len(rows) >> _ROW_BITS:
            raise ValueError(
                f"block_size {self.block_size}: block {block} has {len(rows)} rows, at most "
                f"{(1 << _ROW_BITS) - 1} are allowed"
            )
        random.Random(f"{self.seed} {current_pass} {block}").shuffle(rows)
        return rows


def _cut_batches(texts: list[str]) -> Iterator[range]:
    """Yields the numbers of the texts of each batch: as many as have about `_BATCH_SIZE`."""
    start = size = 0
    for number, text in enumerate(texts):
        size += len(text)
        if size >= _BATCH_SIZE or number == len(texts) - 1:
            yield range(start, number + 1)
            start, size = number + 1, 0


def _unfold(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in row.items()
    }


def open_stream(
    train_file: str | None = None,
    dataset_name: str | None = None,
    dataset_config_name: str | None = None,
    text_column: str | None = None,
) -> Callable[[], Iterable[dict[str, str]]]:
    """Opens the documents of training, without a copy of them; the embedded text if none are named.

    Args:
        train_file: A text, CSV or JSON file, which is read once to check it.
        dataset_name: A data set of the Hub, instead of a file; its split "train" is read from there
            in each pass.
        dataset_config_name: Its configuration.
        text_column: Column of the text in a table or Hub data set.

    Returns:
        A function that begins to read the documents, `{"text": ...}`, from the first one on.
        Damage beyond the first rows of a table is a ValueError when it is reached.

    Raises:
        ValueError: As `corpus.load_corpus`.
    """
    check_sources(train_file, dataset_name)
    if dataset_name:
        table = load_named(dataset_name, dataset_config_name, streaming=True)["train"]
        return _open_table(f"dataset_name {dataset_name!r}", "cannot be read", table, text_column)
    if not train_file:
        return _iterate_embedded
    check_file("train_file", train_file)
    kind = find_table_kind(train_file)
    if kind is None:
        return partial(iterate_documents, train_file)
    source, problem = f"train_file {train_file!r}", f"not a valid {kind} file"
    with refuse_damage(source, problem):
        table = datasets.load_dataset(kind, data_files=train_file, split="train", streaming=True)
    return _open_table(source, problem, table, text_column)


def _iterate_embedded() -> Iterator[dict[str, str]]:
    for document in iterate_embedded_documents():
        if document["split"] == "train":
            yield {"text": document["text"]}


def _open_table(
    source: str, problem: str, table: datasets.IterableDataset, text_column: str | None
) -> Callable[[], Iterable[dict[str, str]]]:
    with refuse_damage(source, problem):
        first_rows = list(table.take(_NUM_ROWS_TO_INFER_FROM))
        if not first_rows:
            raise ValueError(NO_ROW)
        features = table.features or datasets.Dataset.from_list(first_rows).features
    column = choose_text_column(source, features, text_column)
    read = partial(_iterate_table, table, column, source, problem)
    if next(read(), None) is None:
        raise ValueError(describe_lack_of_text(source, column))
    return read


def _iterate_table(
    table: datasets.IterableDataset, column: str, source: str, problem: str
) -> Iterator[dict[str, str]]:
    with refuse_damage(source, problem):
        for number, row in enumerate(table):
            text = row[column]
            if not isinstance(text, str | None):
                raise TypeError(f"row {number}: its column {column!r} holds {type(text).__name__}")
            if text is not None and has_text(text):
                yield {"text": text}
