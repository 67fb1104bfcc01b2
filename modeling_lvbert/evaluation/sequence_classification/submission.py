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
"""Predictions as files: run_glue's, and those that GLUE's test server takes."""

import logging
from pathlib import Path

import numpy as np

from ..whole_files import write_text
from .glue import GLUE_TASKS
from .labels import LabelScheme

logger = logging.getLogger(__name__)


def write_predictions(
    folder: Path,
    predictions: np.ndarray,
    scheme: LabelScheme,
    task_name: str | None,
    *,
    is_mismatched: bool = False,
) -> list[Path]:
    """Writes `predict_results_....txt` and, for a task of GLUE, its file for the test server.

    Args:
        folder: Where to write.
        predictions: Classes or values, (rows,).
        scheme: The task's labels.
        task_name: A task of GLUE, None for others.
        is_mismatched: Whether the rows are MNLI's second test set.

    Returns:
        The files.
    """
    suffix = "-mm" if is_mismatched else ""
    texts = [f"{x:.3f}" if scheme.is_regression else scheme.names[int(x)] for x in predictions]
    written = [folder / f"predict_results_{task_name or 'test'}{suffix}.txt"]
    _write_table(written[0], texts)
    if task_name:
        name = GLUE_TASKS[task_name].submission
        written.append(folder / f"{'MNLI-mm' if is_mismatched else name}.tsv")
        _write_table(written[1], _list_answers(predictions, scheme, task_name))
    logger.info("predictions are in %s", " and ".join(map(str, written)))
    return written


def _list_answers(predictions: np.ndarray, scheme: LabelScheme, task_name: str) -> list[str]:
    task = GLUE_TASKS[task_name]
    if scheme.is_regression:
        # The scale of STS-B.
        return [f"{x:.3f}" for x in np.clip(predictions, 0.0, 5.0)]
    names = [scheme.names[int(x)] for x in predictions]
    # A model's own order of the labels may be another than GLUE's.
    return names if task.submits_names else [str(task.labels.index(name)) for name in names]


def _write_table(path: Path, texts: list[str]) -> None:
    lines = ["index\tprediction", *(f"{number}\t{text}" for number, text in enumerate(texts))]
    write_text(path, "\n".join(lines) + "\n")
