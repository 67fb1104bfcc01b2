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
"""The tasks of GLUE (arXiv 1804.07461) as data: columns, labels, and files for its test server."""

from dataclasses import dataclass

from .metrics.glue.glue import CONFIGURATIONS


@dataclass(frozen=True)
class GlueTask:
    """What is known of a task of GLUE.

    Attributes:
        text_columns: Its one or two texts in the original files.
        label_column: Its label there.
        labels: Names of the labels, in the order of their numbers; none for regression.
        submission: Name of its file for the test server, without the ending.
        columns: Columns of files without a header.
        hub_columns: `text_columns` in the Hub's version, where they differ.
        is_symmetric: Whether the order of the two texts says nothing.
        submits_names: Whether the test server wants the labels' names and not their numbers.
    """

    text_columns: tuple[str, ...]
    label_column: str
    labels: tuple[str, ...]
    submission: str
    columns: tuple[str, ...] = ()
    hub_columns: tuple[str, ...] = ()
    is_symmetric: bool = False
    submits_names: bool = False


_PAIR = ("sentence1", "sentence2")
_THREE = ("entailment", "neutral", "contradiction")
_TWO = ("entailment", "not_entailment")
GLUE_TASKS = {
    "cola": GlueTask(
        ("sentence",),
        "label",
        ("unacceptable", "acceptable"),
        "CoLA",
        columns=("source", "label", "mark", "sentence"),
    ),
    "sst2": GlueTask(("sentence",), "label", ("negative", "positive"), "SST-2"),
    "mrpc": GlueTask(
        ("#1 String", "#2 String"),
        "Quality",
        ("not_equivalent", "equivalent"),
        "MRPC",
        hub_columns=_PAIR,
        is_symmetric=True,
    ),
    "qqp": GlueTask(
        ("question1", "question2"),
        "is_duplicate",
        ("not_duplicate", "duplicate"),
        "QQP",
        is_symmetric=True,
    ),
    "stsb": GlueTask(_PAIR, "score", (), "STS-B", is_symmetric=True),
    "mnli": GlueTask(
        _PAIR,
        "gold_label",
        _THREE,
        "MNLI-m",
        hub_columns=("premise", "hypothesis"),
        submits_names=True,
    ),
    "qnli": GlueTask(("question", "sentence"), "label", _TWO, "QNLI", submits_names=True),
    "rte": GlueTask(_PAIR, "label", _TWO, "RTE", submits_names=True),
    "wnli": GlueTask(_PAIR, "label", ("not_entailment", "entailment"), "WNLI"),
    # The diagnostic sentences, which a model for MNLI answers.
    "ax": GlueTask(
        _PAIR,
        "label",
        _THREE,
        "AX",
        hub_columns=("premise", "hypothesis"),
        submits_names=True,
    ),
}
SYMMETRIC_TASKS = tuple(name for name, task in GLUE_TASKS.items() if task.is_symmetric)
# GLUE's and the Hub's second validation and test sets are of this task alone.
TASK_WITH_MISMATCHED = "mnli"


def find_metrics(task_name: str | None, num_labels: int) -> str:
    """Returns the configuration of `metrics/glue` that a task is scored by.

    Args:
        task_name: A task of GLUE, None for others.
        num_labels: Its classes, 0 for regression.
    """
    if task_name:
        return task_name
    return {0: "scale", 2: "two_classes"}.get(num_labels, "classes")


def find_main_metric(task_name: str | None, num_labels: int) -> str:
    """Returns the score that a task's models are chosen by, a key of `compute_scores`.

    Where GLUE has two metrics it is their mean; for classes of other tasks it is the accuracy.

    Args:
        task_name: A task of GLUE, None for others.
        num_labels: Its classes, 0 for regression.
    """
    if not task_name and num_labels:
        return "accuracy"
    names = CONFIGURATIONS[find_metrics(task_name, num_labels)]
    return names[0] if len(names) == 1 else "combined_score"
