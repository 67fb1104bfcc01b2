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
"""A table of accuracies on minimal pairs, with published ones beside them."""

import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from .pairs import MinimalPair, PairResults, Tally

# The names of their columns in BLiMP's summaries: paradigm, and what is no accuracy.
_MODELS_NAME, _HUMANS_NAME = "UID", "Condition"


def read_published(models_file: str | None, humans_file: str | None) -> dict[str, dict[str, float]]:
    """Returns published accuracies by paradigm, for each model and for `human`.

    Args:
        models_file: BLiMP's `models_summary.jsonl`, or None.
        humans_file: BLiMP's `human_validation_summary.csv`, or None.

    Raises:
        ValueError: A file cannot be read or is none of these.
    """
    published: dict[str, dict[str, float]] = {}
    for option, path, read in (
        ("published_models_summary", models_file, _read_models),
        ("published_human_summary", humans_file, _read_humans),
    ):
        if path is None:
            continue
        try:
            found = read(Path(path).read_text(encoding="utf-8-sig"))
            if not any(found.values()):
                raise ValueError("there are no accuracies in it")
            published |= found
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{option} {path!r} is not BLiMP's file of that name: {type(error).__name__}: "
                f"{error}"
            ) from None
    return published


def _read_models(text: str) -> dict[str, dict[str, float]]:
    published: dict[str, dict[str, float]] = {}
    for line in filter(str.strip, text.splitlines()):
        row = json.loads(line)
        paradigm = row.pop(_MODELS_NAME)
        for model, accuracy in row.items():
            if model != "linguistics_term":
                published.setdefault(model, {})[paradigm] = float(accuracy)
    return published


def _read_humans(text: str) -> dict[str, dict[str, float]]:
    rows = csv.DictReader(text.splitlines())
    return {"human": {row[_HUMANS_NAME]: float(row["total_mean"]) for row in rows}}


def _average(published: Mapping[str, float], paradigms: Iterable[str]) -> float:
    """Returns the mean over paradigms, not a number where one of them is not there."""
    found = [published.get(paradigm, math.nan) for paradigm in sorted(set(paradigms))]
    return math.fsum(found) / len(found)


def _format_cells(cells: Sequence[str]) -> str:
    name, *numbers = cells
    return f"{name:<28}" + "".join(f"{number:>9}" for number in numbers)


def _format_percent(accuracy: float) -> str:
    return "-" if math.isnan(accuracy) else f"{100 * accuracy:.1f}"


def format_table(
    results: PairResults,
    pairs: Sequence[MinimalPair],
    published: Mapping[str, Mapping[str, float]],
) -> str:
    """Returns a table of percentages: overall, by field, by term.

    Args:
        results: The results.
        pairs: The pairs that they are of.
        published: Accuracies by paradigm, by column.
    """

    def format_row(name: str, tally: Tally, members: Iterable[MinimalPair]) -> str:
        paradigms = {pair.paradigm for pair in members}
        cells = [_format_percent(_average(column, paradigms)) for column in published.values()]
        counts = [str(tally.pairs), str(tally.ties)]
        return _format_cells([name, *counts, _format_percent(tally.accuracy), *cells])

    lines = [_format_cells(["", "pairs", "ties", "model", *published])]
    lines.append(format_row("overall", results.overall, pairs))
    for title, tallies, key in (
        ("field", results.by_field, "field"),
        ("term", results.by_term, "term"),
    ):
        if tallies:
            lines.append(title)
        for name, found in tallies.items():
            members = [pair for pair in pairs if getattr(pair, key) == name]
            lines.append(format_row(f"  {name}", found, members))
    lines.append("percent of the pairs, mean over paradigms; a tie counts half; chance is 50")
    if published:
        lines.append("beside it: published means over the same paradigms, 1000 pairs each")
    return "\n".join(lines)
