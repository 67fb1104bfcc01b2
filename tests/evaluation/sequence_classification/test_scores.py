import json
import logging

import numpy as np
import pytest

from modeling_lvbert.evaluation.sequence_classification.glue import GLUE_TASKS, find_main_metric
from modeling_lvbert.evaluation.sequence_classification.labels import LabelScheme
from modeling_lvbert.evaluation.sequence_classification.metrics.glue.glue import CONFIGURATIONS
from modeling_lvbert.evaluation.sequence_classification.scores import (
    compute_loss,
    compute_scores,
    list_scores,
    predict,
)


def one_hot(predictions, classes):
    return np.eye(classes, dtype=np.float32)[predictions]


def test_scores_are_the_textbook_s():
    labels = np.array([1, 1, 1, 0, 0, 1])
    logits = one_hot([1, 1, 0, 0, 1, 1], 2)
    scores = compute_scores(logits, labels, LabelScheme(["a", "b"]))
    # 3 true and 1 false positive, 1 true and 1 false negative.
    assert scores["accuracy"] == pytest.approx(4 / 6)
    assert scores["f1"] == pytest.approx(2 * 3 / (2 * 3 + 1 + 1))
    assert scores["matthews_correlation"] == pytest.approx((3 * 1 - 1 * 1) / (4 * 4 * 2 * 2) ** 0.5)
    assert scores["majority_baseline"] == pytest.approx(4 / 6)
    assert scores["combined_score"] == pytest.approx(
        np.mean([scores["accuracy"], scores["f1"], scores["matthews_correlation"]])
    )


def test_each_glue_task_has_its_metrics():
    labels, logits = np.array([0, 1, 1]), one_hot([0, 1, 0], 2)
    for task, about in GLUE_TASKS.items():
        scheme = LabelScheme(list(about.labels))
        values = (np.array([1.0, 2.0, 4.0]), labels) if scheme.is_regression else (logits, labels)
        scores = compute_scores(*values, scheme, task)
        assert {*CONFIGURATIONS[task]} <= set(scores)
        assert sorted(scores) == sorted(list_scores(task, len(about.labels)))
        assert find_main_metric(task, len(about.labels)) in scores


def test_the_score_of_two_metrics_is_their_mean_and_that_of_one_is_its_own():
    assert [find_main_metric(task, 2) for task in ("cola", "sst2", "mrpc")] == [
        "matthews_correlation",
        "accuracy",
        "combined_score",
    ]
    assert find_main_metric("stsb", 0) == find_main_metric(None, 0) == "combined_score"
    assert find_main_metric(None, 2) == find_main_metric(None, 3) == "accuracy"


def test_the_loss_is_torch_s():
    import torch

    logits, labels = torch.randn(7, 3), torch.tensor([0, 1, 2, 2, 1, 0, 0])
    loss = compute_loss(logits.numpy(), labels.numpy(), LabelScheme(["a", "b", "c"]))
    assert loss == pytest.approx(torch.nn.functional.cross_entropy(logits, labels).item(), abs=1e-6)
    values, truth = torch.randn(7, 1), torch.randn(7)
    loss = compute_loss(values.numpy(), truth.numpy(), LabelScheme([]))
    expected = torch.nn.functional.mse_loss(values.squeeze(1), truth)
    assert loss == pytest.approx(expected.item(), abs=1e-6)


def test_regression_is_scored_by_correlation():
    values = np.array([[1.0], [2.0], [4.0]])
    scores = compute_scores(values, np.array([1.0, 4.0, 16.0]), LabelScheme([]), "stsb")
    assert scores["spearmanr"] == pytest.approx(1.0)
    assert scores["pearson"] == pytest.approx(np.corrcoef([1, 2, 4], [1, 4, 16])[0, 1])


def test_constant_predictions_are_scored_zero_and_told(caplog):
    with caplog.at_level(logging.WARNING):
        scores = compute_scores(
            one_hot([1, 1, 1, 1], 2), np.array([1, 1, 0, 1]), LabelScheme(["a", "b"])
        )
    assert (scores["matthews_correlation"], scores["constant_predictions"]) == (0.0, 1.0)
    assert "all 4 predictions are b" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        constant = compute_scores(np.ones((3, 1)), np.array([1.0, 2.0, 3.0]), LabelScheme([]))
    assert (constant["pearson"], constant["spearmanr"]) == (0.0, 0.0)
    assert "all 3 predictions are 1.0" in caplog.text


def test_close_logits_are_compared_in_full_precision():
    import torch

    logits = torch.tensor([[100.0, 100.001], [100.001, 100.0]])
    assert predict(logits.numpy(), LabelScheme(["a", "b"])).tolist() == [1, 0]
    assert json.dumps(predict(np.array([[0.5]]), LabelScheme([])).tolist()) == "[0.5]"
