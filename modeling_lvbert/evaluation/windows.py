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
"""What tasks on long texts share: overlapping windows of tokens, and scores gathered by row."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from transformers import EvalPrediction, PreTrainedTokenizerBase, Trainer

# Column that numbers the rows of a data set that is scored.
ROW = "row"


def check_fast_tokenizer(tokenizer: PreTrainedTokenizerBase) -> None:
    """Checks that a tokenizer tells where in the text its tokens are, and that it can pad.

    Raises:
        ValueError: It does not, or it cannot.
    """
    kind = type(tokenizer).__name__
    if not tokenizer.is_fast:
        raise ValueError(
            f"the tokenizer is a slow {kind}, which does not tell where its tokens are in the text:"
            " one with a tokenizer.json (a fast one) is needed"
        )
    if tokenizer.pad_token_id is None:
        raise ValueError(f"the tokenizer, a {kind}, has no pad_token: one is needed for batches")


def choose_windows(windows: Sequence[Sequence[int]]) -> list[set[int]]:
    """Chooses for each unit of a text the window that shows most of what is around it.

    That is the window whose nearer border is farthest away, the first of several.

    Args:
        windows: Numbers of the units (characters, words) at the tokens of each window, ascending.

    Returns:
        The units that each window is best for; every unit is in one of the sets.
    """
    best: dict[int, tuple[int, int]] = {}
    for number, units in enumerate(windows):
        for position, unit in enumerate(units):
            margin = min(position, len(units) - 1 - position)
            if unit not in best or margin > best[unit][0]:
                best[unit] = (margin, number)
    chosen: list[set[int]] = [set() for _ in windows]
    for unit, (_, number) in best.items():
        chosen[number].add(unit)
    return chosen


def drop_columns(rows: datasets.Dataset, columns: Sequence[str]) -> datasets.Dataset:
    """Returns a data set without those of the columns that it has."""
    return rows.remove_columns([name for name in columns if name in rows.column_names])


class WindowTrainer(Trainer):
    """A Trainer that scores rows, each of which comes back with its number.

    What it gathers is the same for any batch size and number of processes when it is sorted by
    `sort_by_row`.
    """

    def __init__(
        self, *, reduce: Callable[[Any, torch.Tensor | None], Any], **options: Any
    ) -> None:
        """Makes the Trainer.

        Args:
            reduce: Makes tensors, (batch, ...) each, of a model's output and the labels, (batch,
                seq), None where there are none.
            options: Arguments of `Trainer`.
        """
        super().__init__(**options)
        self.reduce = reduce
        # Keeps the column for scoring; models do not know it.
        self.label_names = [ROW]

    def prediction_step(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> tuple[None, Any, torch.Tensor]:
        """Returns no loss, what `reduce` makes of the output, and the rows' numbers."""
        inputs = self._prepare_inputs(inputs)
        rows, labels = inputs.pop(ROW), inputs.pop("labels", None)
        with torch.no_grad(), self.compute_loss_context_manager():
            outputs = model(**inputs)
        return None, self.reduce(outputs, labels), rows


def sort_by_row(prediction: EvalPrediction) -> tuple[np.ndarray, ...]:
    """Returns what was gathered for each row of a data set once, in the order of the rows.

    Several processes may give a row twice, and in any order.
    """
    _, places = np.unique(np.asarray(prediction.label_ids), return_index=True)
    predictions = prediction.predictions
    parts = predictions if isinstance(predictions, tuple) else (predictions,)
    return tuple(np.asarray(part)[places] for part in parts)


def write_whole(path: Path, text: str) -> None:
    """Writes a file that appears when it is complete."""
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(text, encoding="utf-8", newline="\n")
    temporary.replace(path)


def write_json(path: Path, content: Any) -> None:
    """Writes a JSON file that appears when it is complete, characters as they are."""
    write_whole(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
