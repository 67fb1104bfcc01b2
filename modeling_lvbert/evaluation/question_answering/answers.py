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
"""From a model's scores of tokens to answers: the best spans over all windows of a question."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .data import Question

logger = logging.getLogger(__name__)

_WORST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class Candidate:
    """A possible answer.

    Attributes:
        text: What the context has there; empty for silence.
        start_logit: Score of its first token.
        end_logit: Score of its last token.
        probability: Share among the candidates that are kept.
    """

    text: str
    start_logit: float
    end_logit: float
    probability: float = 0.0

    @property
    def score(self) -> float:
        """The sum of both scores."""
        return self.start_logit + self.end_logit

    def to_dict(self) -> dict[str, Any]:
        """Returns it as it stands in the file of the n best."""
        return {
            "text": self.text,
            "probability": self.probability,
            "start_logit": self.start_logit,
            "end_logit": self.end_logit,
        }


@dataclass(frozen=True)
class Answer:
    """What a model says to a question.

    Attributes:
        best: The best span's text; empty if there is no span at all.
        candidates: The best candidates, best first, silence among them where it is allowed.
        null_odds: How much higher silence scores than the best span.
    """

    best: str
    candidates: tuple[Candidate, ...]
    null_odds: float

    def choose(self, threshold: float | None) -> str:
        """Returns the answer, silence where its odds are above a threshold; None: never."""
        return "" if threshold is not None and self.null_odds > threshold else self.best


def list_spans(
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    allowed: np.ndarray,
    n_best: int,
    max_length: int,
) -> list[tuple[int, int]]:
    """Returns the best spans of a window, best first: of equal ones the earlier, then the shorter.

    Args:
        start_logits: Score of each token as the first, (seq,).
        end_logits: Score of each token as the last, (seq,).
        allowed: Which tokens may be first or last, (seq,).
        n_best: Number of spans at most.
        max_length: Tokens of a span at most.
    """
    seq_length = len(allowed)
    lengths = np.arange(min(max_length, seq_length))
    ends = np.arange(seq_length)[:, None] + lengths
    is_span = allowed[:, None] & (ends < seq_length)
    ends = np.minimum(ends, seq_length - 1)
    is_span &= allowed[ends]
    # (seq, lengths)
    scores = np.where(is_span, start_logits[:, None].astype(np.float64) + end_logits[ends], -np.inf)
    flat = scores.ravel()
    order = np.argsort(-flat, kind="stable")[: min(n_best, int(is_span.sum()))]
    starts, widths = np.divmod(order, len(lengths))
    return [(int(start), int(start + width)) for start, width in zip(starts, widths, strict=True)]


def find_answers(
    questions: Sequence[Question],
    windows: Iterable[dict[str, Any]],
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    *,
    n_best: int,
    max_length: int,
    with_negative: bool,
) -> list[Answer]:
    """Finds the answers of questions.

    Args:
        questions: The questions.
        windows: Their windows, with `question`, `offsets` and `null_position`.
        start_logits: Scores as first token, (windows, seq); tokens beyond a window do not count.
        end_logits: Scores as last token, (windows, seq).
        n_best: Candidates of each window, and of each question, at most.
        max_length: Tokens of an answer at most.
        with_negative: Whether silence is a candidate.
    """
    if not (np.isfinite(start_logits).all() and np.isfinite(end_logits).all()):
        logger.warning("the model's scores are not all finite: training has diverged")
        start_logits, end_logits = (
            np.nan_to_num(logits, nan=_WORST, posinf=-_WORST, neginf=_WORST)
            for logits in (start_logits, end_logits)
        )
    spans: list[dict[tuple[int, int], Candidate]] = [{} for _ in questions]
    silence: list[Candidate | None] = [None for _ in questions]
    for window, starts, ends in zip(windows, start_logits, end_logits, strict=True):
        number, offsets = window["question"], np.asarray(window["offsets"])
        context, found = questions[number].context, spans[number]
        starts, ends = starts[: len(offsets)], ends[: len(offsets)]
        allowed = offsets[:, 0] < offsets[:, 1]
        for first, last in list_spans(starts, ends, allowed, n_best, max_length):
            place = int(offsets[first, 0]), int(offsets[last, 1])
            candidate = Candidate(
                context[place[0] : place[1]], float(starts[first]), float(ends[last])
            )
            if place not in found or candidate.score > found[place].score:
                found[place] = candidate
        null = window["null_position"]
        candidate = Candidate("", float(starts[null]), float(ends[null]))
        # The window that is least sure that the answer is not there decides.
        if (known := silence[number]) is None or candidate.score < known.score:
            silence[number] = candidate
    return [
        _rank(list(found.values()), null, n_best, with_negative)
        for found, null in zip(spans, silence, strict=True)
    ]


def _rank(
    spans: list[Candidate], silence: Candidate | None, n_best: int, with_negative: bool
) -> Answer:
    spans = sorted(spans, key=lambda span: -span.score)[:n_best]
    null = silence or Candidate("", 0.0, 0.0)
    best = spans[0] if spans else None
    kept = sorted([*spans, null], key=lambda span: -span.score) if with_negative else spans
    if len(kept) > n_best:
        # Silence always stays.
        kept = kept[:n_best] if null in kept[:n_best] else [*kept[: n_best - 1], null]
    scores = np.array([candidate.score for candidate in kept], dtype=np.float64)
    shares = np.exp(scores - scores.max()) if kept else scores
    return Answer(
        best.text if best else "",
        tuple(
            replace(candidate, probability=float(share))
            for candidate, share in zip(kept, shares / shares.sum(), strict=True)
        ),
        null.score - best.score if best else -_WORST,
    )
