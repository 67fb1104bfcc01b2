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
"""Predictions of sentence tasks and what they are worth, by the metrics in `metrics/glue`."""

import logging

import numpy as np
from scipy.special import logsumexp

from .glue import find_metrics
from .labels import LabelScheme
from .metrics.glue.glue import CONFIGURATIONS, Glue

logger = logging.getLogger(__name__)


def predict(logits: np.ndarray, scheme: LabelScheme) -> np.ndarray:
    """Returns the predicted classes, or values for regression, (rows,).

    Args:
        logits: Output of a model in any precision, (rows, classes).
        scheme: The task's labels.
    """
    logits = np.asarray(logits, dtype=np.float32)
    return logits.reshape(len(logits)) if scheme.is_regression else logits.argmax(axis=-1)


def compute_loss(logits: np.ndarray, labels: np.ndarray, scheme: LabelScheme) -> float:
    """Returns the mean loss: cross-entropy in nats, squared error for regression.

    Args:
        logits: Output of a model, (rows, classes).
        labels: True classes or values, (rows,).
        scheme: The task's labels.
    """
    logits = np.asarray(logits, dtype=np.float64)
    if scheme.is_regression:
        return float(np.mean((logits.reshape(len(logits)) - labels) ** 2))
    rows = np.arange(len(logits))
    return float(np.mean(logsumexp(logits, axis=1) - logits[rows, labels]))


def list_scores(task_name: str | None, num_labels: int) -> list[str]:
    """Returns the names of what `compute_scores` gives.

    Args:
        task_name: A task of GLUE, None for others.
        num_labels: Its classes, 0 for regression.
    """
    names = list(CONFIGURATIONS[find_metrics(task_name, num_labels)])
    if len(names) > 1:
        names.append("combined_score")
    if num_labels:
        names += [*({"accuracy"} - {*names}), "majority_baseline"]
    return [*names, "loss", "constant_predictions"]


def compute_scores(
    logits: np.ndarray, labels: np.ndarray, scheme: LabelScheme, task_name: str | None = None
) -> dict[str, float]:
    """Scores predictions by the task's metrics.

    A warning says where all predictions are the same: fine-tuning has collapsed.

    Args:
        logits: Output of a model, (rows, classes).
        labels: True classes or values, (rows,).
        scheme: The task's labels.
        task_name: A task of GLUE; for others accuracy, and Matthews' correlation and F1 of class 1
            for two classes.

    Returns:
        The metrics, `combined_score` (their mean) where there are several, `loss`,
        `constant_predictions` (1 if all are the same, else 0), and for classes `accuracy` and
        `majority_baseline`, the accuracy of always answering the most frequent label.
    """
    predictions = predict(logits, scheme)
    # In memory: files would be locked by the process that came first.
    metric = Glue(find_metrics(task_name, len(scheme.names)), keep_in_memory=True)
    scores: dict[str, float] = metric.compute(predictions=predictions, references=labels)
    if len(scores) > 1:
        scores["combined_score"] = float(np.mean(list(scores.values())))
    if not scheme.is_regression:
        scores["accuracy"] = float(np.mean(predictions == labels))
        frequencies = np.bincount(np.asarray(labels, dtype=np.int64))
        scores["majority_baseline"] = float(frequencies.max() / len(labels))
    scores["loss"] = compute_loss(logits, labels, scheme)
    is_constant = len(predictions) > 1 and np.ptp(predictions) == 0
    scores["constant_predictions"] = float(is_constant)
    if is_constant:
        logger.warning(
            "all %s predictions are %s: fine-tuning has collapsed; "
            "try another seed or a smaller learning rate",
            len(predictions),
            predictions[0] if scheme.is_regression else scheme.names[int(predictions[0])],
        )
    return scores
