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
"""Minimal pairs: two sentences, of which a model should find the good one more likely.

Files are those of BLiMP (Warstadt et al. 2020, arXiv 1912.00582) and of its likes: one JSON object
a line with `sentence_good` and `sentence_bad`, and maybe with the names of its paradigm (`UID`,
else the file's name), its `field` and its `linguistics_term`.
"""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Scores in float32 that differ by less than its rounding are equal.
RELATIVE_TOLERANCE = 2.0**-23


@dataclass(frozen=True)
class MinimalPair:
    """Two sentences.

    Attributes:
        good: The acceptable one.
        bad: The other.
        paradigm: What is tried.
        field: Part of grammar that the paradigm is of, None where the file does not say.
        term: Phenomenon that it is of, None where the file does not say.
        place: File and line, for errors.
    """

    good: str
    bad: str
    paradigm: str
    field: str | None = None
    term: str | None = None
    place: str = ""


@dataclass(frozen=True)
class Tally:
    """What became of some pairs.

    Attributes:
        accuracy: From 0 to 1, a tie counting one half; of several paradigms their mean, as BLiMP
            has it.
        ties: Pairs whose sentences are equally likely.
        pairs: All pairs.
    """

    accuracy: float
    ties: int
    pairs: int


def _read_name(place: str, row: dict[str, Any], key: str) -> str | None:
    name = row.get(key)
    if name is None or name == "":
        return None
    if not isinstance(name, str):
        raise ValueError(f"{place}: {key} must be a string, got {name!r}")
    # One of BLiMP's files has "syntax/semantics", the others "syntax_semantics".
    return name.replace("/", "_")


def _read_pair(place: str, line: str, stem: str) -> MinimalPair:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{place}: no JSON: {error}") from None
    if not isinstance(row, dict):
        raise ValueError(f"{place}: a JSON object is needed, got {type(row).__name__}")
    for key in ("sentence_good", "sentence_bad"):
        if not isinstance(row.get(key), str) or not row[key].strip():
            raise ValueError(f"{place}: {key} must be a sentence, got {row.get(key)!r}")
    return MinimalPair(
        row["sentence_good"],
        row["sentence_bad"],
        _read_name(place, row, "UID") or stem,
        _read_name(place, row, "field"),
        _read_name(place, row, "linguistics_term"),
        place,
    )


def _read_file(path: Path) -> Iterator[MinimalPair]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{str(path)!r} cannot be read: {error}") from None
    # Not splitlines: a sentence may hold signs that it takes for an end of line.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _read_pair(f"{path}, line {number}", line, path.stem)


def find_pair_files(folder: str | Path) -> list[Path]:
    """Returns the `.jsonl` files of a folder and of the folders in it.

    Raises:
        ValueError: There is no such folder, or none in it.
    """
    if not Path(folder).is_dir():
        raise ValueError(f"blimp_dir {str(folder)!r}: a folder of .jsonl files is needed")
    files = sorted(
        path
        for path in Path(folder).rglob("*.jsonl")
        if path.is_file() and not path.name.startswith(".")
    )
    if not files:
        raise ValueError(f"blimp_dir {str(folder)!r}: there is no .jsonl file in it")
    return files


def read_pairs(folder: str | Path) -> list[MinimalPair]:
    """Reads all pairs of a folder's `.jsonl` files.

    Args:
        folder: Folder with a file for each paradigm, or with folders of such.

    Raises:
        ValueError: There are no pairs, a line is none, or two files have the same paradigm.
    """
    pairs: list[MinimalPair] = []
    owners: dict[str, Path] = {}
    for path in find_pair_files(folder):
        found = list(_read_file(path))
        if not found:
            raise ValueError(f"{str(path)!r} has no pairs")
        for name in sorted({pair.paradigm for pair in found}):
            if owners.setdefault(name, path) != path:
                raise ValueError(
                    f"paradigm {name!r} is in {str(owners[name])!r} and in {str(path)!r}: its "
                    "pairs would count twice"
                )
        pairs += found
    return pairs


def judge(good: float, bad: float) -> float:
    """Returns 1 where the good sentence has the higher score, 0 where the bad one, 0.5 for ties."""
    if math.isclose(good, bad, rel_tol=RELATIVE_TOLERANCE, abs_tol=0.0):
        return 0.5
    return float(good > bad)


def tally(pairs: Sequence[MinimalPair], verdicts: Sequence[float]) -> Tally:
    """Returns what became of some pairs.

    Args:
        pairs: The pairs, at least one.
        verdicts: Each pair's, as `judge` gives it.
    """
    by_paradigm: dict[str, list[float]] = defaultdict(list)
    for pair, verdict in zip(pairs, verdicts, strict=True):
        by_paradigm[pair.paradigm].append(verdict)
    accuracies = [math.fsum(group) / len(group) for group in by_paradigm.values()]
    return Tally(
        math.fsum(accuracies) / len(accuracies),
        sum(verdict == 0.5 for verdict in verdicts),
        len(verdicts),
    )


def _tally_groups(
    pairs: Sequence[MinimalPair],
    verdicts: Sequence[float],
    find_name: Callable[[MinimalPair], str | None],
) -> dict[str, Tally]:
    groups: dict[str, tuple[list[MinimalPair], list[float]]] = defaultdict(lambda: ([], []))
    for pair, verdict in zip(pairs, verdicts, strict=True):
        if (name := find_name(pair)) is not None:
            groups[name][0].append(pair)
            groups[name][1].append(verdict)
    return {name: tally(*groups[name]) for name in sorted(groups)}


@dataclass(frozen=True)
class PairResults:
    """Tallies of all pairs, and by name of those that have one."""

    overall: Tally
    by_field: dict[str, Tally]
    by_term: dict[str, Tally]
    by_paradigm: dict[str, Tally]


def summarize(pairs: Sequence[MinimalPair], verdicts: Iterable[float]) -> PairResults:
    """Returns the tallies of all pairs and of each group of them.

    Args:
        pairs: The pairs, at least one.
        verdicts: Each pair's, as `judge` gives it.
    """
    verdicts = list(verdicts)
    return PairResults(
        tally(pairs, verdicts),
        _tally_groups(pairs, verdicts, lambda pair: pair.field),
        _tally_groups(pairs, verdicts, lambda pair: pair.term),
        _tally_groups(pairs, verdicts, lambda pair: pair.paradigm),
    )
