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
"""Sentence and sentence-pair tasks: GLUE's own files, BabyLM's, or any table; their metrics.

GLUE (arXiv 1804.07461) came as tab-separated files without quoting, of which CoLA's have no header.
"""

import csv
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import numpy as np
from scipy.special import logsumexp
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GlueTask:
    """What is known of a task of GLUE.

    Attributes:
        text_columns: Its one or two texts in the original files.
        label_column: Its label there.
        labels: Names of the labels, in the order of their numbers; none for regression.
        metrics: Names of `METRICS`, as in the leaderboard.
        columns: Columns of files without a header.
        hub_columns: `text_columns` in the Hub's version, where they differ.
    """

    text_columns: tuple[str, ...]
    label_column: str
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    columns: tuple[str, ...] = ()
    hub_columns: tuple[str, ...] = ()


_PAIR = ("sentence1", "sentence2")
GLUE_TASKS = {
    "cola": GlueTask(
        ("sentence",),
        "label",
        ("unacceptable", "acceptable"),
        ("matthews_correlation", "accuracy"),
        columns=("source", "label", "mark", "sentence"),
    ),
    "sst2": GlueTask(("sentence",), "label", ("negative", "positive"), ("accuracy",)),
    "mrpc": GlueTask(
        ("#1 String", "#2 String"),
        "Quality",
        ("not_equivalent", "equivalent"),
        ("accuracy", "f1"),
        hub_columns=_PAIR,
    ),
    "qqp": GlueTask(
        ("question1", "question2"),
        "is_duplicate",
        ("not_duplicate", "duplicate"),
        ("accuracy", "f1"),
    ),
    "stsb": GlueTask(_PAIR, "score", (), ("pearson", "spearmanr")),
    "mnli": GlueTask(
        _PAIR,
        "gold_label",
        ("entailment", "neutral", "contradiction"),
        ("accuracy",),
        hub_columns=("premise", "hypothesis"),
    ),
    "qnli": GlueTask(
        ("question", "sentence"), "label", ("entailment", "not_entailment"), ("accuracy",)
    ),
    "rte": GlueTask(_PAIR, "label", ("entailment", "not_entailment"), ("accuracy",)),
    "wnli": GlueTask(_PAIR, "label", ("not_entailment", "entailment"), ("accuracy",)),
}

# Texts in tables of other origin, BabyLM's among them; of several columns after the first, the
# second text is all of them, joined by blanks.
_KNOWN_COLUMNS = (
    ("text", "span1_text", "span2_text"),
    ("paragraph", "question", "answer"),
    ("question", "passage"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("sentence1", "sentence2"),
    ("sentence",),
)
_NOT_TEXT = ("idx", "index", "id")
_LABEL = "label"


def _read_tsv(path: Path, columns: Sequence[str]) -> list[dict[str, Any]]:
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8-sig").split("\n")]
    rows = [[cell.rstrip("\r") for cell in row] for row in lines if row != [""]]
    # CoLA's training and development files begin with a sentence, its test file with a header.
    header = list(columns) if columns and rows and len(rows[0]) == len(columns) else rows.pop(0)
    whole = [row for row in rows if len(row) == len(header)]
    if len(whole) < len(rows):
        logger.warning(
            "%s: left out %s of %s rows, which do not have %s cells",
            path,
            len(rows) - len(whole),
            len(rows),
            len(header),
        )
    return [dict(zip(header, row, strict=True)) for row in whole]


def _read_csv(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file, restkey="(more cells)", strict=True))
    for number, row in enumerate(rows, start=1):
        if "(more cells)" in row or None in row.values():
            raise ValueError(f"row {number} has another number of cells than the header")
    return rows


def _read_json(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8-sig")
    rows = (
        json.loads(text)
        if text.lstrip().startswith("[")
        else [json.loads(x) for x in text.split("\n") if x.strip()]
    )
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("every record must be an object")
    return rows


def read_table(name: str, path: str, task_name: str | None = None) -> list[dict[str, Any]]:
    """Reads the rows of a file.

    Args:
        name: The option that named the file, for messages.
        path: `.tsv` (unquoted, as GLUE's), `.csv` (quoted), `.json` or `.jsonl`.
        task_name: A task of GLUE whose files may lack a header.

    Raises:
        ValueError: The file is missing, of another kind, damaged or empty.
    """
    columns = GLUE_TASKS[task_name].columns if task_name else ()
    readers: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
        ".tsv": lambda file: _read_tsv(file, columns),
        ".csv": _read_csv,
        ".json": _read_json,
        ".jsonl": _read_json,
    }
    file = Path(path)
    if file.suffix.lower() not in readers:
        raise ValueError(f"{name} {path!r}: the name must end in one of {', '.join(readers)}")
    if not file.is_file():
        raise ValueError(f"{name} {path!r}: {'is a folder' if file.is_dir() else 'no such file'}")
    try:
        rows = readers[file.suffix.lower()](file)
    except (OSError, ValueError, csv.Error, IndexError) as error:
        raise ValueError(f"{name} {path!r}: cannot be read ({error})") from None
    if not rows:
        raise ValueError(f"{name} {path!r}: the file has no rows")
    return rows


def find_text_columns(
    rows: list[dict[str, Any]], chosen: str | None, task_name: str | None
) -> tuple[str, ...]:
    """Returns the columns of a table's texts: the first one's, then all that make up the second.

    Args:
        rows: The table.
        chosen: Names parted by commas, if the user gave them.
        task_name: A task of GLUE, if it is one.

    Raises:
        ValueError: A named column is missing, or there is no text.
    """
    present = list(rows[0])
    if chosen:
        names = tuple(name.strip() for name in chosen.split(","))
        missing = [name for name in names if name not in present]
        if missing:
            raise ValueError(
                f"text_column_names {chosen!r}: no column {', '.join(missing)}; columns: {present}"
            )
        return names
    known = list(_KNOWN_COLUMNS)
    if task_name:
        known = [
            GLUE_TASKS[task_name].text_columns,
            GLUE_TASKS[task_name].hub_columns or ("",),
            *known,
        ]
    for columns in known:
        if set(columns) <= set(present):
            return columns
    texts = [
        name
        for name in present
        if name.lower() not in (*_NOT_TEXT, _LABEL)
        and all(isinstance(row.get(name), str) for row in rows)
    ]
    if not texts:
        raise ValueError(f"no column of text; columns: {present}")
    return tuple(texts[:2])


def find_label_column(
    rows: list[dict[str, Any]], chosen: str | None, task_name: str | None
) -> str | None:
    """Returns the column of a table's labels, None if it has none.

    Raises:
        ValueError: The column that the user named is missing.
    """
    if chosen:
        if chosen not in rows[0]:
            raise ValueError(
                f"label_column_name {chosen!r}: no such column; columns: {list(rows[0])}"
            )
        return chosen
    candidates = [GLUE_TASKS[task_name].label_column] if task_name else []
    return next((name for name in [*candidates, _LABEL] if name in rows[0]), None)


@dataclass
class LabelScheme:
    """How a task's labels become numbers.

    Attributes:
        names: Names of the classes, in the order of their numbers; empty for regression.
    """

    names: list[str]

    @property
    def is_regression(self) -> bool:
        """Whether the labels are numbers on a scale."""
        return not self.names

    def encode(self, source: str, values: Sequence[Any]) -> list[int] | list[float]:
        """Returns the labels as numbers.

        Args:
            source: What the labels are, for messages.
            values: Labels as they stand in a table: names, or the numbers of the names.

        Raises:
            ValueError: A label that is no number, or none of the classes.
        """
        if self.is_regression:
            try:
                return [float(value) for value in values]
            except (TypeError, ValueError):
                raise ValueError(
                    f"{source}: the labels must be numbers, got {_find_non_number(values)!r}"
                ) from None
        numbers = {name: number for number, name in enumerate(self.names)}
        by_number = {str(number): number for number in range(len(self.names))}
        # Names first: where classes are called "1" and "2", these are names.
        known = numbers if any(_write(value) in numbers for value in values) else by_number
        unknown = sorted({_write(value) for value in values} - set(known))
        if unknown:
            raise ValueError(f"{source}: unknown labels {unknown[:5]}; known: {self.names}")
        return [known[_write(value)] for value in values]


def _write(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _is_scale(values: Sequence[Any]) -> bool:
    """Tells whether labels are numbers of which at least one is written with a decimal point."""
    try:
        return all(np.isfinite(float(value)) for value in values) and any(
            "." in str(value) for value in values
        )
    except (TypeError, ValueError):
        return False


def _find_non_number(values: Sequence[Any]) -> Any:
    def is_number(value: Any) -> bool:
        try:
            float(value)
        except (TypeError, ValueError):
            return False
        return True

    return next(value for value in values if not is_number(value))


def find_label_scheme(
    values: Sequence[Any], task_name: str | None = None, saved_names: Sequence[str] = ()
) -> LabelScheme:
    """Finds out what kind of labels a task has.

    Args:
        values: The training labels.
        task_name: A task of GLUE, whose names are known.
        saved_names: Names that the model was saved with, whose order is taken if they are the same
            names.

    Raises:
        ValueError: A label is missing, or there is only one class.
    """
    if any(value is None or value == "" for value in values):
        raise ValueError(
            f"row {next(i for i, v in enumerate(values, 1) if v is None or v == '')} has no label"
        )
    if task_name:
        names = list(GLUE_TASKS[task_name].labels)
    elif _is_scale(values):
        names = []
    else:
        found = {_write(value) for value in values}
        names = sorted(
            found, key=lambda name: (0, int(name), "") if name.isdecimal() else (1, 0, name)
        )
        if len(names) < 2:
            raise ValueError(f"all labels are {names[0]!r}: at least two classes are needed")
    return LabelScheme(list(saved_names) if names and set(saved_names) == set(names) else names)


def build_dataset(
    source: str,
    rows: list[dict[str, Any]],
    text_columns: Sequence[str],
    label_column: str | None,
    scheme: LabelScheme,
) -> datasets.Dataset:
    """Builds a data set with columns `sentence1`, `sentence2` for pairs, `label` if there is one.

    Args:
        source: What the rows are, for messages.
        rows: The table.
        text_columns: Result of `find_text_columns`.
        label_column: Result of `find_label_column`.
        scheme: How the labels become numbers.

    Raises:
        ValueError: A text is missing, or a label is unknown.
    """
    for number, row in enumerate(rows, start=1):
        wrong = [name for name in text_columns if not isinstance(row.get(name), str)]
        if wrong:
            raise ValueError(
                f"{source}: row {number} has no text in column {wrong[0]!r}, "
                f"but {row.get(wrong[0])!r}"
            )
    columns: dict[str, list[Any]] = {"sentence1": [row[text_columns[0]] for row in rows]}
    if len(text_columns) > 1:
        columns["sentence2"] = [" ".join(row[name] for name in text_columns[1:]) for row in rows]
    if label_column:
        columns["label"] = list(scheme.encode(source, [row.get(label_column) for row in rows]))
    return datasets.Dataset.from_dict(columns)


def _correlate(measure: Callable[..., Any], predictions: np.ndarray, labels: np.ndarray) -> float:
    # Of a constant there is no correlation.
    if len(labels) < 2 or np.ptp(predictions) == 0 or np.ptp(labels) == 0:
        return 0.0
    return float(measure(predictions, labels)[0])


def _correlate_classes(predictions: np.ndarray, labels: np.ndarray) -> float:
    if np.ptp(predictions) == 0 or np.ptp(labels) == 0:
        return 0.0
    return float(matthews_corrcoef(labels, predictions))


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": lambda predictions, labels: float(accuracy_score(labels, predictions)),
    "f1": lambda predictions, labels: float(f1_score(labels, predictions, zero_division=0)),
    "matthews_correlation": _correlate_classes,
    "pearson": lambda predictions, labels: _correlate(pearsonr, predictions, labels),
    "spearmanr": lambda predictions, labels: _correlate(spearmanr, predictions, labels),
}


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
        The metrics, `loss`, `combined_score` (the metrics' mean) where there are several, and for
        classes `majority_baseline`, the accuracy of always answering the most frequent label.
    """
    predictions = predict(logits, scheme)
    if task_name:
        names: tuple[str, ...] = GLUE_TASKS[task_name].metrics
    elif scheme.is_regression:
        names = ("pearson", "spearmanr")
    else:
        names = (
            ("accuracy", "matthews_correlation", "f1") if len(scheme.names) == 2 else ("accuracy",)
        )
    scores = {name: METRICS[name](predictions, labels) for name in names}
    if len(names) > 1:
        scores["combined_score"] = float(np.mean(list(scores.values())))
    scores["loss"] = compute_loss(logits, labels, scheme)
    if not scheme.is_regression:
        scores["majority_baseline"] = float(
            np.bincount(np.asarray(labels, dtype=np.int64)).max() / len(labels)
        )
    if len(predictions) > 1 and np.ptp(predictions) == 0:
        logger.warning(
            "all %s predictions are %s: fine-tuning has collapsed; "
            "try another seed or a smaller learning rate",
            len(predictions),
            predictions[0] if scheme.is_regression else scheme.names[int(predictions[0])],
        )
    return scores
