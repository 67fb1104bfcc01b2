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
"""Tags, scores and files of what a model says of sentences."""

from collections.abc import Sequence
from pathlib import Path

import datasets
import numpy as np
from transformers import EvalPrediction

from ..whole_files import write_text
from ..window_trainer import sort_by_row
from .data import Sentence
from .metric import is_entity_scheme, score_entities, score_words
from .windows import SCORING_COLUMNS


class TagScorer:
    """Makes tags, scores and a file of what a model says of sentences.

    Attributes:
        num_samples: Number of sentences.
        predicted: The tags of the last call, one a word, by sentence.
    """

    def __init__(
        self,
        sentences: Sequence[Sentence],
        rows: datasets.Dataset,
        labels: Sequence[str],
        *,
        by_type: bool,
    ) -> None:
        """Makes a scorer.

        Args:
            sentences: The sentences.
            rows: Their windows.
            labels: The tags in the order of their numbers.
            by_type: Whether to give the scores of each type of entity.
        """
        self.sentences = sentences
        self.rows = rows.select_columns(list(SCORING_COLUMNS))
        self.labels = labels
        self.by_type = by_type
        self.num_samples = len(sentences)
        self.predicted: list[list[str]] = []

    def __call__(self, prediction: EvalPrediction) -> dict[str, float]:
        """Returns the scores; none where the data have no tags."""
        best, *losses = sort_by_row(prediction)
        self.predicted = [[""] * len(sentence.words) for sentence in self.sentences]
        num_words = 0
        for row, given in zip(self.rows, best, strict=True):
            tags = self.predicted[row["sentence"]]
            for token, word in zip(row["tokens_read"], row["words_read"], strict=True):
                tags[word] = self.labels[given[token]]
        gold = [sentence.tags for sentence in self.sentences if sentence.tags is not None]
        if len(gold) < len(self.sentences):
            return {}
        known = set(self.labels)
        num_words = sum(tag in known for tags in gold for tag in tags)
        scores = {"loss": float(np.sum(losses[0], dtype=np.float64)) / max(1, num_words)}
        if is_entity_scheme(self.labels):
            return {**scores, **score_entities(gold, self.predicted, self.by_type)}
        return {**scores, "accuracy": score_words(gold, self.predicted)}

    def write(self, folder: Path, prefix: str) -> None:
        """Writes a line a word, with its right tag where known, and the model's.

        Words lose blanks within them, by which columns are parted.

        Args:
            folder: Where to.
            prefix: Begins the file's name, but for "predict".
        """
        lines = []
        for sentence, tags in zip(self.sentences, self.predicted, strict=True):
            for number, word in enumerate(sentence.words):
                right = [] if sentence.tags is None else [sentence.tags[number]]
                lines.append(" ".join(["_".join(word.split()) or "_", *right, tags[number]]))
            lines.append("")
        name = "predictions.txt" if prefix == "predict" else f"{prefix}_predictions.txt"
        write_text(folder / name, "".join(f"{line}\n" for line in lines))
