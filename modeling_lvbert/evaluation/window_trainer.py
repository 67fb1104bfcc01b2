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
"""A Trainer for long texts, which are read through windows: scores are gathered by row."""

from collections.abc import Callable, Sequence
from typing import Any

import datasets
import numpy as np
import torch
from transformers import EvalPrediction, Trainer

# Column that numbers the rows of a data set that is scored.
ROW = "row"


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
