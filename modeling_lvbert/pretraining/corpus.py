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

import ast
import bz2
import codecs
import gzip
import hashlib
import inspect
import lzma
import re
import sys
import sysconfig
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import datasets
from datasets.exceptions import DatasetGenerationError

from .normalizers import NORMALIZERS, normalize_lines

SPLITS = ("train", "validation", "held_out")

# Of 100 documents of the embedded text; by name, so that a change to one module moves no other.
_EMBEDDED_SHARES = {"train": 64, "validation": 8, "held_out": 28}
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
_TABLES = {".csv": "csv", ".json": "json", ".jsonl": "json"}
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


def open_lines(path: str) -> codecs.StreamReader:
    """Opens a UTF-8 text, also a packed one, to iterate over its lines."""
    return codecs.getreader("utf-8-sig")(_open(path))


def iterate_documents(
    path: str, digest: str, source: str | None = None
) -> Iterator[dict[str, str]]:
    """Yields the documents of a text file: runs of lines between blank lines.

    Args:
        path: The file, checked by `check_file`.
        digest: Its content's SHA-256; the cache is named by the arguments.
        source: Where the text is from, one of `NORMALIZERS`; None takes the lines as they are.
    """
    lines: list[str] = []
    with open_lines(path) as raw:
        for line in raw if source is None else normalize_lines(source, raw):
            text = line.strip()
            if text:
                lines.append(text)
            if lines and (not text or len(lines) == _MAX_LINES_OF_DOCUMENT):
                yield {"text": "\n".join(lines)}
                lines = []
    if lines:
        yield {"text": "\n".join(lines)}


def load_file(
    name: str, path: str, text_column: str | None = None, source: str | None = None
) -> datasets.Dataset:
    """Loads a file's documents, column `text`.

    Args:
        name: The option that named the file, for messages.
        path: `.csv`, `.json` or `.jsonl` (one record a document), anything else is plain text.
        text_column: Column of the table to read; its only column of strings, or "text", if absent.
        source: Where a plain text is from, one of `NORMALIZERS`.

    Raises:
        ValueError: See `check_file`; also a damaged table, a wrong column, an unknown source, or a
            source of a table.
    """
    if source is not None and source not in NORMALIZERS:
        raise ValueError(f"source {source!r}: must be one of {', '.join(NORMALIZERS)}")
    digest = check_file(name, path)
    suffixes = [suffix.lower() for suffix in Path(path).suffixes if suffix.lower() not in _OPENERS]
    kind = _TABLES.get(suffixes[-1]) if suffixes else None
    if kind is None:
        return datasets.Dataset.from_generator(
            iterate_documents, gen_kwargs={"path": path, "digest": digest, "source": source}
        )
    if source is not None:
        raise ValueError(f"{name} {path!r}: source {source!r} is for plain text, not for {kind}")
    try:
        table = datasets.load_dataset(kind, data_files=path, split="train")
    except (DatasetGenerationError, datasets.exceptions.DataFilesNotFoundError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise ValueError(f"{name} {path!r}: not a valid {kind} file ({reason})") from None
    return select_text(f"{name} {path!r}", table, text_column)


def select_text(source: str, table: datasets.Dataset, text_column: str | None) -> datasets.Dataset:
    """Keeps one column of a table, as `text`, and its rows that have text.

    Args:
        source: What the table is, for messages.
        table: Any data set.
        text_column: Name of the column; its only column of strings, or "text", if absent.

    Raises:
        ValueError: No such column, not a column of strings, several to choose from, or no text.
    """
    strings = [
        name
        for name, feature in table.features.items()
        if isinstance(feature, datasets.Value) and feature.dtype in ("string", "large_string")
    ]
    chosen = text_column or (
        "text" if "text" in strings else strings[0] if len(strings) == 1 else None
    )
    if chosen not in strings:
        raise ValueError(
            f"{source}: text_column_name {text_column!r} must be one of {strings} "
            f"(columns: {table.column_names})"
        )
    table = table.select_columns([chosen])
    table = table if chosen == "text" else table.rename_column(chosen, "text")
    table = table.filter(_has_text, desc="Dropping rows without text")
    if not len(table):
        raise ValueError(f"{source}: no row has text in its column {chosen!r}")
    return table


def _has_text(row: dict[str, str | None]) -> bool:
    return bool(row["text"] and row["text"].strip())


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
    if train_file and dataset_name:
        raise ValueError(
            f"train_file {train_file!r} and dataset_name {dataset_name!r}: only one may be given"
        )
    if validation_file and not train_file:
        raise ValueError(f"validation_file {validation_file!r} needs a train_file")
    if dataset_name:
        found = _load_named(dataset_name, dataset_config_name, text_column)
        if "validation" in found:
            return datasets.DatasetDict(found)
        return split_documents(found["train"], validation_split_percentage)
    if not train_file:
        return load_embedded_corpus()
    train = load_file("train_file", train_file, text_column)
    if not validation_file:
        return split_documents(train, validation_split_percentage)
    return datasets.DatasetDict(
        train=train, validation=load_file("validation_file", validation_file, text_column)
    )


def _load_named(
    name: str, config_name: str | None, text_column: str | None
) -> dict[str, datasets.Dataset]:
    try:
        found = datasets.load_dataset(name, config_name)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        raise ValueError(f"dataset_name {name!r} cannot be loaded: {error}") from error
    if "train" not in found:
        raise ValueError(f"dataset_name {name!r} has no split 'train', but {sorted(found)}")
    return {
        split: select_text(f"dataset_name {name!r}", found[split], text_column)
        for split in ("train", "validation")
        if split in found
    }


def load_embedded_corpus() -> datasets.DatasetDict:
    """Loads the text that comes with Python: its reference's prose and its modules' docstrings.

    About 200 thousand words, split by document into `train`, `validation` and `held_out`; no
    paragraph is there twice. The same for the same Python version.
    """
    documents = datasets.Dataset.from_generator(
        iterate_embedded_documents, gen_kwargs={"version": sys.version}
    )
    splits = documents["split"]
    return datasets.DatasetDict(
        {
            name: documents.select(
                [i for i, split in enumerate(splits) if split == name]
            ).select_columns(["text"])
            for name in SPLITS
        }
    )


def iterate_embedded_documents(version: str) -> Iterator[dict[str, str]]:
    """Yields the embedded documents, `text` and `split`.

    Args:
        version: Python's version; the cache is named by the arguments.
    """
    seen: set[str] = set()
    for name, text in _iterate_raw_documents():
        # A dict keeps the order and drops repetitions within the document.
        paragraphs = [text for text in dict.fromkeys(extract_prose(text)) if text not in seen]
        seen.update(paragraphs)
        if paragraphs:
            yield {"text": "\n".join(paragraphs), "split": assign_split(name)}


def assign_split(name: str) -> str:
    """Returns the split of an embedded document, a function of its name alone."""
    place = zlib.crc32(name.encode()) % 100
    for split, share in _EMBEDDED_SHARES.items():
        if place < share:
            return split
        place -= share
    raise ValueError(f"the shares {_EMBEDDED_SHARES} must add up to 100")


def _iterate_raw_documents() -> Iterator[tuple[str, str]]:
    from pydoc_data.topics import topics

    for name in sorted(topics):
        yield f"topic {name}", topics[name]
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).as_posix()):
        parts = path.relative_to(root).with_suffix("").parts
        # The standard library's own modules, without its tests, third-party packages and tables of
        # letters.
        if parts[0] not in sys.stdlib_module_names or {
            "test",
            "tests",
            "pydoc_data",
            "encodings",
        } & set(parts):
            continue
        yield f"module {'.'.join(parts)}", "\n\n".join(collect_docstrings(path.read_bytes()))


def collect_docstrings(source: bytes) -> list[str]:
    """Returns the docstrings of a module, its classes and functions in the order of the source.

    A file that is no valid Python (a template, say) has none.

    Args:
        source: A Python file, which is parsed and not run.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    nodes.sort(key=lambda node: 0 if isinstance(node, ast.Module) else node.lineno)
    return [doc for node in nodes if (doc := ast.get_docstring(node, clean=True))]


def extract_prose(text: str) -> list[str]:
    """Returns the paragraphs of prose of a docstring or help text, each unwrapped onto one line.

    A block between blank lines counts as prose if it is not indented by four or more, has at least
    six words, begins with a capital letter, ends like a sentence and is mostly made of plain words.
    """
    blocks = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return [paragraph for block in blocks if (paragraph := _unwrap(block)) and _is_prose(paragraph)]


def _unwrap(block: str) -> str:
    indent = min(len(line) - len(line.lstrip()) for line in block.splitlines() or [""])
    return "" if indent >= 4 else " ".join(re.sub(r"(\w)-\n\s*(?=\w)", r"\1-", block).split())


def _is_prose(paragraph: str) -> bool:
    words = paragraph.split()
    plain = sum(
        bool(re.fullmatch(r"[\"'(*]*[A-Za-z][a-z]*(['’-][a-z]+)*[\"')*]*[.,;:!?]*", word))
        for word in words
    )
    return (
        len(words) >= 6
        and paragraph[0].isupper()
        and paragraph[-1] in ".!?:"
        and plain >= 0.75 * len(words)
    )


def split_sentences(paragraph: str) -> list[str]:
    """Returns the sentences of a paragraph, cut after `.`, `!` or `?` before a capital letter."""
    return re.split(r"(?<=[.!?])\s+(?=[A-Z])", paragraph)
