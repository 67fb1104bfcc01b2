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
"""Scores of tags: seqeval's for entities and chunks, accuracy for tags of words.

seqeval (github.com/chakki-works/seqeval) counts entities as CoNLL's conlleval does: right if first
and last word and type are. Its default mode takes IOB1, IOB2 and BIOES as they come.
"""

import importlib
from collections.abc import Sequence
from typing import Any

_MEASURES = {"precision": "precision", "recall": "recall", "f1": "f1-score"}
_BORDERS = ("B-", "I-", "E-", "S-")


def is_entity_scheme(tags: Sequence[str]) -> bool:
    """Returns whether tags mark entities: begin with B-, I-, E- or S-, or are O.

    Raises:
        ValueError: Some do and some do not.
    """
    others = sorted(tag for tag in tags if tag != "O" and not tag.startswith(_BORDERS))
    if others and any(tag.startswith(("B-", "I-")) for tag in tags):
        raise ValueError(
            f"tags {others[:5]} are none of IOB or BIOES: O, or begin with one of "
            f"{', '.join(_BORDERS)}"
        )
    return not others


def load_seqeval() -> Any:
    """Returns the module that scores entities.

    Raises:
        ImportError: It is not installed.
    """
    try:
        return importlib.import_module("seqeval.metrics")
    except ImportError as error:
        raise ImportError(
            f"scores of entities need seqeval ({error}): pip install 'lvbert[evaluation]'"
        ) from None


def list_metrics(is_entities: bool, by_type: bool) -> list[str]:
    """Returns the names of the scores of all tags together."""
    if not is_entities:
        return ["accuracy"]
    prefix = "overall_" if by_type else ""
    return [f"{prefix}{name}" for name in (*_MEASURES, "accuracy")]


def score_words(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> float:
    """Returns the share of words that have the right tag.

    Args:
        gold: The right tags by sentence.
        predicted: The others, as many.
    """
    matches = [
        right == given
        for rights, givens in zip(gold, predicted, strict=True)
        for right, given in zip(rights, givens, strict=True)
    ]
    return sum(matches) / len(matches)


def score_entities(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], by_type: bool
) -> dict[str, float]:
    """Returns precision, recall and F1 of entities, and the accuracy of words, by seqeval.

    Args:
        gold: The right tags by sentence.
        predicted: The others, as many.
        by_type: Adds the scores of each type; the others' names then begin with "overall_".

    Raises:
        ImportError: seqeval is not installed.
    """
    metrics = load_seqeval()
    rights, givens = [list(tags) for tags in gold], [list(tags) for tags in predicted]
    report: dict[str, Any] = {}
    # Of no entities at all, seqeval takes a mean, with a warning.
    if any(tag != "O" for tags in (*rights, *givens) for tag in tags):
        report = metrics.classification_report(rights, givens, output_dict=True, zero_division=0)
    overall = report.pop("micro avg", {})
    for other in ("macro avg", "weighted avg"):
        report.pop(other, None)
    names = list_metrics(True, by_type)
    scores = {
        name: float(overall.get(key, 0.0))
        for name, key in zip(names, _MEASURES.values(), strict=False)
    }
    scores[names[-1]] = score_words(rights, givens)
    if by_type:
        for kind, parts in report.items():
            for name, key in _MEASURES.items():
                scores[f"{kind}_{name}"] = float(parts[key])
            scores[f"{kind}_number"] = int(parts["support"])
    return scores
