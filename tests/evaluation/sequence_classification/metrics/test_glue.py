import warnings
from pathlib import Path

import evaluate
import numpy as np
import pytest

import modeling_lvbert.evaluation.sequence_classification.metrics.glue as glue_folder
from modeling_lvbert.evaluation.sequence_classification.glue import GLUE_TASKS
from modeling_lvbert.evaluation.sequence_classification.metrics.glue.glue import (
    CONFIGURATIONS,
    Glue,
)

FOLDER = str(Path(glue_folder.__file__).parent)
PREDICTIONS, LABELS = [1, 0, 1, 1, 0, 1], [1, 0, 0, 1, 1, 1]


def by_hand(name, predictions, labels):
    """The Hub's metrics as its documentation defines them."""
    x, y = np.asarray(predictions, dtype=float), np.asarray(labels, dtype=float)
    hits = np.sum((x == 1) & (y == 1))
    if name == "accuracy":
        return np.mean(x == y)
    if name == "f1":
        return 2 * hits / (np.sum(x == 1) + np.sum(y == 1))
    if name == "spearmanr":
        x, y = (np.argsort(np.argsort(values)).astype(float) for values in (x, y))
    # Of two classes it is Matthews' correlation.
    return np.corrcoef(x, y)[0, 1]


@pytest.mark.parametrize("task", ["cola", "mrpc", "qqp", "stsb", "mnli", "sst2", "ax"])
def test_evaluate_opens_the_folder_offline_and_gives_the_textbook_s_values(task):
    metric = evaluate.load(FOLDER, task)
    predictions, labels = PREDICTIONS, LABELS
    if task == "stsb":
        predictions, labels = [0.5, 2.0, 3.5, 1.0, 5.0], [1.0, 2.5, 2.0, 0.0, 4.0]
    scores = metric.compute(predictions=predictions, references=labels)
    assert tuple(scores) == CONFIGURATIONS[task]
    for name, value in scores.items():
        assert value == pytest.approx(by_hand(name, predictions, labels)), name


def test_metrics_are_those_that_the_hub_s_module_gives():
    assert CONFIGURATIONS["cola"] == ("matthews_correlation",)
    assert CONFIGURATIONS["mrpc"] == CONFIGURATIONS["qqp"] == ("accuracy", "f1")
    assert CONFIGURATIONS["stsb"] == ("pearson", "spearmanr")
    for task in ("sst2", "mnli", "mnli_matched", "mnli_mismatched", "qnli", "rte", "wnli", "hans"):
        assert CONFIGURATIONS[task] == ("accuracy",)
    assert set(GLUE_TASKS) <= set(CONFIGURATIONS)


def test_batches_are_gathered():
    metric = Glue("mrpc", keep_in_memory=True)
    metric.add_batch(predictions=PREDICTIONS[:2], references=LABELS[:2])
    metric.add_batch(predictions=PREDICTIONS[2:], references=LABELS[2:])
    whole = Glue("mrpc", keep_in_memory=True).compute(predictions=PREDICTIONS, references=LABELS)
    assert metric.compute() == whole


@pytest.mark.parametrize("task", ["cola", "stsb"])
def test_a_constant_correlates_with_nothing(task):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for predictions, labels in (([1, 1, 1], [1, 0, 1]), ([1, 0, 1], [0, 0, 0])):
            scores = Glue(task, keep_in_memory=True).compute(
                predictions=predictions, references=labels
            )
            assert set(scores.values()) == {0.0}


def test_an_unknown_task_is_refused():
    with pytest.raises(ValueError, match="configuration 'boolq': must be one of cola, "):
        evaluate.load(FOLDER, "boolq")
