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
"""GLUE's metrics (arXiv 1804.07461) as a module of `evaluate`, opened from this folder offline.

    evaluate.load("modeling_lvbert/evaluation/sequence_classification/metrics/glue", "mrpc")

Names and values are those of the Hub's module `glue`. Of a constant there is no correlation: that
is 0 here, where the Hub's gives not-a-number. The Hub's has no `ax`, and none of the last three
configurations, which are for tasks that are none of GLUE's. `evaluate` copies this file: it imports
no other of ours.
"""

from collections.abc import Callable
from typing import Any

import datasets
import evaluate  # type: ignore[import-untyped]
import numpy as np
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

CONFIGURATIONS: dict[str, tuple[str, ...]] = {
    "cola": ("matthews_correlation",),
    "sst2": ("accuracy",),
    "mrpc": ("accuracy", "f1"),
    "qqp": ("accuracy", "f1"),
    "stsb": ("pearson", "spearmanr"),
    "mnli": ("accuracy",),
    "mnli_matched": ("accuracy",),
    "mnli_mismatched": ("accuracy",),
    "qnli": ("accuracy",),
    "rte": ("accuracy",),
    "wnli": ("accuracy",),
    "hans": ("accuracy",),
    "ax": ("matthews_correlation",),
    "two_classes": ("accuracy", "matthews_correlation", "f1"),
    "classes": ("accuracy",),
    "scale": ("pearson", "spearmanr"),
}
_ON_A_SCALE = ("stsb", "scale")


def _correlate(measure: Callable[..., Any], predictions: np.ndarray, labels: np.ndarray) -> float:
    if len(labels) < 2 or np.ptp(predictions) == 0 or np.ptp(labels) == 0:
        return 0.0
    return float(measure(predictions, labels)[0])


def _correlate_classes(predictions: np.ndarray, labels: np.ndarray) -> float:
    if np.ptp(predictions) == 0 or np.ptp(labels) == 0:
        return 0.0
    return float(matthews_corrcoef(labels, predictions))


_MEASURES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": lambda predictions, labels: float(accuracy_score(labels, predictions)),
    "f1": lambda predictions, labels: float(f1_score(labels, predictions, zero_division=0)),
    "matthews_correlation": _correlate_classes,
    "pearson": lambda predictions, labels: _correlate(pearsonr, predictions, labels),
    "spearmanr": lambda predictions, labels: _correlate(spearmanr, predictions, labels),
}


class Glue(evaluate.Metric):
    """The metrics of one task of GLUE, named by the configuration."""

    def _info(self) -> evaluate.MetricInfo:
        """Returns the module's description.

        Raises:
            ValueError: There is no such configuration.
        """
        if self.config_name not in CONFIGURATIONS:
            raise ValueError(
                f"configuration {self.config_name!r}: must be one of {', '.join(CONFIGURATIONS)}"
            )
        kind = "float64" if self.config_name in _ON_A_SCALE else "int64"
        return evaluate.MetricInfo(
            description="The metrics of one task of GLUE.",
            citation="arXiv 1804.07461",
            inputs_description="predictions and references: classes, or values for stsb and scale.",
            features=datasets.Features(
                {"predictions": datasets.Value(kind), "references": datasets.Value(kind)}
            ),
            format="numpy",
        )

    def _compute(self, predictions: np.ndarray, references: np.ndarray) -> dict[str, float]:
        """Returns the configuration's metrics."""
        return {
            name: _MEASURES[name](predictions, references)
            for name in CONFIGURATIONS[self.config_name]
        }
