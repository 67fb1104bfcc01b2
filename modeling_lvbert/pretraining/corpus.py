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
"""Documents for pre-training: a user's files, a Hub data set, or the text that comes with Python.

A document is one string with its paragraphs (or sentences) on lines of their own. Files are read a
document at a time into a memory-mapped cache named by their content.
"""

import bz2
import codecs
import contextlib
import gzip
import hashlib
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import datasets

from .code_hash import hash_code
from .embedded_corpus import load_embedded_corpus

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
_TABLES = {".csv": "csv", ".json": "json", ".jsonl": "json"}
NO_ROW = "it has no row"
# A longer run of lines without a blank one is cut here, so that no document outgrows the memory.
_MAX_LINES_OF_DOCUMENT = 1_000


def check_file(name: str, path: str) -> str:
    """Reads a text file once and returns the SHA-256 of its content.

    Args:
        name: The option that named the file, for messages.
        path: The file; `.gz`, `.xz` and `.bz2` are unpacked.

    Raises:
        ValueError: The file is missing, a folder, unreadable, damaged, empty, or not UTF-8 text.
    """
    if not Path(path).is_file():
        raise ValueError(
            f"{name} {path!r}: {'is a folder' if Path(path).is_dir() else 'no such file'}"
        )
    digest, decoder, size, has_text = (
        hashlib.sha256(),
        codecs.getincrementaldecoder("utf-8")(),
        0,
        False,
    )
    try:
        with _open(path) as file:
            while block := file.read(1 << 20):
                if b"\0" in block:
                    raise ValueError(f"{name} {path!r}: a binary file, UTF-8 text is needed")
                has_text = bool(decoder.decode(block).strip()) or has_text
                digest.update(block)
                size += len(block)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} {path!r}: not UTF-8 text ({error.reason} near byte {size + error.start})"
        ) from None
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise ValueError(f"{name} {path!r}: cannot be read ({error})") from None
    if not has_text:
        raise ValueError(f"{name} {path!r}: the file holds no text")
    return digest.hexdigest()


def _open(path: str) -> BinaryIO:
    return _OPENERS.get(Path(path).suffix.lower(), open)(path, "rb")


def open_lines(path: str) -> io.TextIOWrapper:
    """Opens a UTF-8 text, also a packed one, to iterate over its lines."""
    return io.TextIOWrapper(_open(path), encoding="utf-8-sig")


def iterate_documents(path: str, content: str = "") -> Iterator[dict[str, str]]:
    """Yields the documents of a text file: runs of lines between blank lines.

    Args:
        path: The file, checked by `check_file`.
        content: What else makes the documents what they are; the cache is named by the arguments.
    """
    lines: list[str] = []
    with open_lines(path) as raw:
        for line in raw:
            text = line.strip()
            if text:
                lines.append(text)
            if lines and (not text or len(lines) == _MAX_LINES_OF_DOCUMENT):
                yield {"text": "\n".join(lines)}
                lines = []
    if lines:
        yield {"text": "\n".join(lines)}


def load_file(name: str, path: str, text_column: str | None = None) -> datasets.Dataset:
    """Loads a file's documents, column `text`.

    Args:
        name: The option that named the file, for messages.
        path: `.csv`, `.json` or `.jsonl` (one record a document), anything else is plain text.
        text_column: Column of the table to read; its only column of strings, or "text", if absent.

    Raises:
        ValueError: See `check_file`; also a damaged table or a wrong column.
    """
    digest, kind = check_file(name, path), find_table_kind(path)
    if kind is None:
        content = f"{digest} {hash_code(__name__)}"
        return datasets.Dataset.from_generator(
            iterate_documents, gen_kwargs={"path": path, "content": content}
        )
    with refuse_damage(f"{name} {path!r}", f"not a valid {kind} file"):
        table = datasets.load_dataset(kind, data_files=path, split="train")
    return select_text(f"{name} {path!r}", table, text_column)


def find_table_kind(path: str) -> str | None:
    """Returns "csv" or "json" by a file's name, None for plain text; packed or not."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes if suffix.lower() not in _OPENERS]
    return _TABLES.get(suffixes[-1]) if suffixes else None


@contextlib.contextmanager
def refuse_damage(source: str, problem: str) -> Iterator[None]:
    """Turns whatever the reading of a table raises into one ValueError.

    Args:
        source: What the table is, for messages.
        problem: What is wrong with it.
    """
    try:
        yield
    # ValueError includes what pandas and pyarrow raise.
    except (ValueError, TypeError, OSError, datasets.exceptions.DatasetsError) as error:
        reason = (str(error.__cause__ or error).splitlines() or [type(error).__name__])[0]
        # How `datasets` says it.
        reason = NO_ROW if "corresponds to no data" in reason else reason
        raise ValueError(f"{source}: {problem} ({reason})") from error


def select_text(source: str, table: datasets.Dataset, text_column: str | None) -> datasets.Dataset:
    """Keeps one column of a table, as `text`, and its rows that have text.

    Args:
        source: What the table is, for messages.
        table: Any data set.
        text_column: Name of the column; its only column of strings, or "text", if absent.

    Raises:
        ValueError: No such column, not a column of strings, several to choose from, or no text.
    """
    chosen = choose_text_column(source, table.features, text_column)
    table = table.select_columns([chosen])
    table = table if chosen == "text" else table.rename_column(chosen, "text")
    table = table.filter(has_text, input_columns="text", desc="Dropping rows without text")
    if not len(table):
        raise ValueError(describe_lack_of_text(source, chosen))
    return table


def choose_text_column(source: str, features: datasets.Features, text_column: str | None) -> str:
    """Returns the column of a table's text, see `select_text`."""
    strings = [
        name
        for name, feature in features.items()
        if isinstance(feature, datasets.Value) and feature.dtype in ("string", "large_string")
    ]
    chosen = text_column or (strings[0] if len(strings) == 1 else "text")
    if chosen not in strings:
        raise ValueError(
            f"{source}: text_column_name {text_column!r} must be one of {strings} "
            f"(columns: {list(features)})"
        )
    return chosen


def has_text(text: str | None) -> bool:
    """Whether there is more than white space."""
    return bool(text and text.strip())


def describe_lack_of_text(source: str, column: str) -> str:
    """Returns the message on a table without a single text."""
    return f"{source}: no row has text in its column {column!r}"


def split_documents(documents: datasets.Dataset, percentage: float) -> datasets.DatasetDict:
    """Splits documents into `train` and `validation`, the same for the same documents.

    A single document is cut at a line.

    Args:
        documents: Documents with a column `text`.
        percentage: Share of the documents, at least one, that becomes the validation split.

    Raises:
        ValueError: A percentage outside (0, 100), or a corpus of a single line.
    """
    if not 0 < percentage < 100:
        raise ValueError(f"validation_split_percentage {percentage}: must be between 0 and 100")
    if len(documents) == 1:
        lines = documents[0]["text"].splitlines()
        if len(lines) < 2:
            raise ValueError(
                "the corpus is a single line, which cannot be split: "
                "at least 2 lines or a validation_file are needed"
            )
        documents = datasets.Dataset.from_dict({"text": lines})
    num_validation = min(max(1, round(len(documents) * percentage / 100)), len(documents) - 1)
    order = sorted(range(len(documents)), key=lambda number: zlib.crc32(str(number).encode()))
    return datasets.DatasetDict(
        train=documents.select(sorted(order[num_validation:])),
        validation=documents.select(sorted(order[:num_validation])),
    )


def load_corpus(
    train_file: str | None = None,
    validation_file: str | None = None,
    dataset_name: str | None = None,
    dataset_config_name: str | None = None,
    text_column: str | None = None,
    validation_split_percentage: float = 5,
) -> datasets.DatasetDict:
    """Loads the splits `train` and `validation` of a corpus; the embedded text if nothing is named.

    Args:
        train_file: A text, CSV or JSON file.
        validation_file: The same for validation; absent, a part of the training documents is split
            off.
        dataset_name: A data set of the Hub, instead of files.
        dataset_config_name: Its configuration.
        text_column: Column of the text in a table or Hub data set.
        validation_split_percentage: Share of the documents to split off where there is no
            validation data.

    Raises:
        ValueError: Contradictory sources, bad files (see `load_file`), or a data set out of reach.
    """
    check_sources(train_file, dataset_name)
    if validation_file and not train_file:
        raise ValueError(f"validation_file {validation_file!r} needs a train_file")
    if dataset_name:
        found = datasets.DatasetDict(
            {
                split: select_text(f"dataset_name {dataset_name!r}", table, text_column)
                for split, table in load_named(dataset_name, dataset_config_name).items()
                if split in ("train", "validation")
            }
        )
        if "validation" in found:
            return found
        return split_documents(found["train"], validation_split_percentage)
    if not train_file:
        return load_embedded_corpus()
    train = load_file("train_file", train_file, text_column)
    if not validation_file:
        return split_documents(train, validation_split_percentage)
    return datasets.DatasetDict(
        train=train, validation=load_file("validation_file", validation_file, text_column)
    )


def load_training_documents(
    train_file: str | None = None,
    dataset_name: str | None = None,
    dataset_config_name: str | None = None,
    text_column: str | None = None,
) -> datasets.Dataset:
    """Loads all that there is to train on, without splitting validation data off.

    The arguments and errors are those of `load_corpus`.
    """
    check_sources(train_file, dataset_name)
    if train_file:
        return load_file("train_file", train_file, text_column)
    if not dataset_name:
        return load_embedded_corpus()["train"]
    table = load_named(dataset_name, dataset_config_name)["train"]
    return select_text(f"dataset_name {dataset_name!r}", table, text_column)


def check_sources(train_file: str | None, dataset_name: str | None) -> None:
    """Checks that at most one source of training documents is named.

    Raises:
        ValueError: Both are.
    """
    if train_file and dataset_name:
        raise ValueError(
            f"train_file {train_file!r} and dataset_name {dataset_name!r}: only one may be given"
        )


def load_named(name: str, config_name: str | None, streaming: bool = False) -> Any:
    """Loads a Hub data set's splits, or opens them to be read from the Hub as they are used.

    Args:
        name: Its name, or a local folder.
        config_name: Its configuration.
        streaming: Open only.

    Raises:
        ValueError: It is out of reach, or has no split "train".
    """
    try:
        found = datasets.load_dataset(name, config_name, streaming=streaming)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        raise ValueError(f"dataset_name {name!r} cannot be loaded: {error}") from error
    if "train" not in found:
        raise ValueError(f"dataset_name {name!r} has no split 'train', but {sorted(found)}")
    return found


def split_sentences(paragraph: str) -> list[str]:
    """Returns the sentences of a paragraph, cut after `.`, `!` or `?` before a capital letter."""
    return re.split(r"(?<=[.!?])\s+(?=[A-Z])", paragraph)
