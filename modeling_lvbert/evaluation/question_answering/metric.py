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
"""Exact match and F1 of answers, as the official scripts of SQuAD 1.1 and 2.0 define them.

SQuAD 1.1: arXiv 1606.05250, section 6.1; 2.0: arXiv 1806.03822, section 5. Written from the
definitions: an answer counts without case, punctuation, articles and superfluous blanks, and of
several right answers the nearest counts.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")

Measure = Callable[[str, str], float]


def normalize_answer(text: str) -> str:
    """Returns a text in lower case without ASCII punctuation, articles and superfluous blanks."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def compute_exact(prediction: str, gold: str) -> float:
    """Returns 1 if two answers are the same when normalized, else 0."""
    return float(normalize_answer(prediction) == normalize_answer(gold))


def compute_f1(prediction: str, gold: str) -> float:
    """Returns the harmonic mean of precision and recall over the words of normalized answers.

    It is 0 where they share no word, also where neither has any: SQuAD 1.1.
    """
    predicted, right = normalize_answer(prediction).split(), normalize_answer(gold).split()
    num_shared = (Counter(predicted) & Counter(right)).total()
    return 2 * num_shared / (len(predicted) + len(right)) if num_shared else 0.0


def compute_f1_or_silence(prediction: str, gold: str) -> float:
    """Returns `compute_f1`, but 1 where neither answer has a word: SQuAD 2.0."""
    if not normalize_answer(prediction) and not normalize_answer(gold):
        return 1.0
    return compute_f1(prediction, gold)


def score_question(
    prediction: str, golds: Sequence[str], with_negative: bool
) -> tuple[float, float]:
    """Returns exact match and F1 of one answer, each of the gold answer that it suits best.

    Args:
        prediction: The answer; empty for "there is none".
        golds: The right answers; none for a question without answer.
        with_negative: Whether to score as SQuAD 2.0.

    Raises:
        ValueError: No right answer, but not SQuAD 2.0.
    """
    measure: Measure = compute_f1
    if with_negative:
        measure = compute_f1_or_silence
        golds = [gold for gold in golds if normalize_answer(gold)] or [""]
    elif not golds:
        raise ValueError("a question has no right answer: SQuAD 1.1 has no score for that")
    return (
        max(compute_exact(prediction, gold) for gold in golds),
        max(measure(prediction, gold) for gold in golds),
    )


def summarize_scores(
    scores: Mapping[str, tuple[float, float]], answerable: Mapping[str, bool], with_negative: bool
) -> dict[str, float]:
    """Returns the means over questions in percent, under the official scripts' names.

    Args:
        scores: Exact match and F1 by question.
        answerable: Which questions have an answer.
        with_negative: SQuAD 2.0: also by whether there is an answer, and the numbers of questions.
    """
    if not with_negative:
        return {
            "exact_match": _mean([exact for exact, _ in scores.values()]),
            "f1": _mean([f1 for _, f1 in scores.values()]),
        }
    summary = _summarize_part("", list(scores.values()))
    for prefix, wanted in (("HasAns_", True), ("NoAns_", False)):
        part = [scores[name] for name in scores if answerable[name] == wanted]
        if part:
            summary.update(_summarize_part(prefix, part))
    return summary


def _summarize_part(prefix: str, part: Sequence[tuple[float, float]]) -> dict[str, float]:
    return {
        f"{prefix}exact": _mean([exact for exact, _ in part]),
        f"{prefix}f1": _mean([f1 for _, f1 in part]),
        f"{prefix}total": len(part),
    }


def _mean(values: Sequence[float]) -> float:
    return 100.0 * sum(values) / len(values)


def find_best_threshold(
    scores: Mapping[str, float],
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float],
    answerable: Mapping[str, bool],
) -> tuple[float, float]:
    """Returns the best score that any threshold gives, in percent, and that threshold.

    A question whose odds are above the threshold is answered by "there is none". As in the official
    script, thresholds between questions of equal odds count as well, and 0.0 is returned where
    never to answer is best.

    Args:
        scores: Score of each question's prediction.
        predictions: The predictions. To find the best they must be answers, not silence, wherever
            there is an answer to give.
        null_odds: How much is to be said for silence, by question; any scale.
        answerable: Which questions have an answer.
    """
    current = best = float(sum(not answerable[name] for name in scores))
    threshold = 0.0
    for name in sorted(scores, key=lambda name: null_odds[name]):
        if answerable[name]:
            current += scores[name]
        elif predictions[name]:
            current -= 1
        if current > best:
            best, threshold = current, null_odds[name]
    return 100.0 * best / len(scores), threshold
