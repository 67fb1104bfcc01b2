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
"""Answers, official scores and files of what a model says of questions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
from transformers import EvalPrediction

from ..whole_files import write_json
from ..window_trainer import sort_by_row
from .answers import Answer, find_answers
from .data import Question
from .metric import find_best_threshold, score_question, summarize_scores
from .windows import SCORING_COLUMNS


class AnswerScorer:
    """Makes answers, scores and files of what a model says of questions.

    Attributes:
        num_samples: Number of questions.
        threshold: Odds above which there is no answer; None where all questions have one.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        windows: datasets.Dataset,
        *,
        n_best: int,
        max_length: int,
        threshold: float | None,
        tunes: bool = False,
        tuned: "AnswerScorer | None" = None,
    ) -> None:
        """Makes a scorer.

        Args:
            questions: The questions.
            windows: Their windows.
            n_best: Candidates of a question at most.
            max_length: Tokens of an answer at most.
            threshold: Odds above which there is no answer; None where all questions have one.
            tunes: Whether each call sets the threshold to what gives the best F1.
            tuned: A scorer whose threshold is taken instead.
        """
        self.questions = questions
        self.windows = windows.select_columns(list(SCORING_COLUMNS))
        self.n_best = n_best
        self.max_length = max_length
        self.threshold = threshold
        self.tunes = tunes
        self.tuned = tuned
        self.num_samples = len(questions)
        self.answers: dict[str, Answer] = {}
        self.scores: dict[str, tuple[float, float]] = {}

    def __call__(self, prediction: EvalPrediction) -> dict[str, float]:
        """Returns the official scores; none where the data lack right answers."""
        if self.tuned is not None:
            self.threshold = self.tuned.threshold
        with_negative = self.threshold is not None
        start_logits, end_logits = sort_by_row(prediction)
        found = find_answers(
            self.questions,
            self.windows,
            start_logits,
            end_logits,
            n_best=self.n_best,
            max_length=self.max_length,
            with_negative=with_negative,
        )
        self.answers = {q.name: answer for q, answer in zip(self.questions, found, strict=True)}
        golds = {q.name: q.golds for q in self.questions if q.golds is not None}
        if len(golds) < len(self.questions) or not (with_negative or all(golds.values())):
            return {}
        answerable = {name: bool(answers) for name, answers in golds.items()}
        best = self._find_best(golds, answerable) if with_negative else {}
        if self.tunes:
            self.threshold = best["best_f1_thresh"]
        self.scores = {
            name: score_question(self.answers[name].choose(self.threshold), right, with_negative)
            for name, right in golds.items()
        }
        return {**summarize_scores(self.scores, answerable, with_negative), **best}

    def _find_best(
        self, golds: dict[str, tuple[str, ...]], answerable: dict[str, bool]
    ) -> dict[str, float]:
        predictions = {name: answer.best for name, answer in self.answers.items()}
        null_odds = {name: answer.null_odds for name, answer in self.answers.items()}
        scores = {name: score_question(predictions[name], golds[name], True) for name in golds}
        best = {}
        for number, measure in enumerate(("exact", "f1")):
            of_measure = {name: pair[number] for name, pair in scores.items()}
            value, threshold = find_best_threshold(of_measure, predictions, null_odds, answerable)
            best[f"best_{measure}"], best[f"best_{measure}_thresh"] = value, threshold
        return best

    def write(self, folder: Path, prefix: str) -> None:
        """Writes the answers, the n best, the odds of silence, and each question's scores.

        Args:
            folder: Where to.
            prefix: Begins the files' names.
        """
        answers = self.answers.items()
        content: dict[str, Any] = {
            "predictions": {name: answer.choose(self.threshold) for name, answer in answers},
            "nbest_predictions": {
                name: [candidate.to_dict() for candidate in answer.candidates]
                for name, answer in answers
            },
        }
        if self.threshold is not None:
            content["null_odds"] = {name: answer.null_odds for name, answer in answers}
        if self.scores:
            names = ("exact_match" if self.threshold is None else "exact", "f1")
            content["question_scores"] = {
                name: dict(zip(names, pair, strict=True)) for name, pair in self.scores.items()
            }
        for name, values in content.items():
            write_json(folder / f"{prefix}_{name}.json", values)
