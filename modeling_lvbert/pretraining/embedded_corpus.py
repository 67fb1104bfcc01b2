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
"""The text that comes with Python: its reference's prose and its modules' docstrings.

About 200 thousand words of plain English that every user has, to try things out with.
"""

import ast
import inspect
import re
import sys
import sysconfig
import zlib
from collections.abc import Iterator
from pathlib import Path

import datasets

from .code_hash import hash_code

SPLITS = ("train", "validation", "held_out")

# Of 100 documents; by name, so that a change to one module moves no other.
_SHARES = {"train": 64, "validation": 8, "held_out": 28}


def load_embedded_corpus() -> datasets.DatasetDict:
    """Loads the text that comes with Python: its reference's prose and its modules' docstrings.

    About 200 thousand words, split by document into `train`, `validation` and `held_out`; no
    paragraph is there twice. The same for the same Python version.
    """
    documents = datasets.Dataset.from_generator(
        iterate_embedded_documents, gen_kwargs={"content": f"{sys.version} {hash_code(__name__)}"}
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


def iterate_embedded_documents(content: str = "") -> Iterator[dict[str, str]]:
    """Yields the embedded documents, `text` and `split`.

    Args:
        content: What makes the documents what they are; the cache is named by the arguments.
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
    for split, share in _SHARES.items():
        if place < share:
            return split
        place -= share
    raise ValueError(f"the shares {_SHARES} must add up to 100")


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
