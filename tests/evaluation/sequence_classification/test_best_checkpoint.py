import logging

import pytest
import torch
from safetensors.torch import load_file

from modeling_lvbert.evaluation.sequence_classification import fine_tuning
from modeling_lvbert.evaluation.sequence_classification.options import TASK_METRIC
from tests.evaluation.small_tasks import read_json, sentences, tune, write

EVERY_EPOCH = {"eval_strategy": "epoch", "save_strategy": "epoch", "num_train_epochs": 3}


def script_scores(monkeypatch, **values):
    """Makes the n-th evaluation give the n-th of the values, and the last from then on."""
    calls = []

    def score(logits, labels, scheme, task_name=None):
        place = len(calls)
        calls.append(place)
        return {
            "constant_predictions": 0.0,
            **{name: listed[min(place, len(listed) - 1)] for name, listed in values.items()},
        }

    monkeypatch.setattr(fine_tuning, "compute_scores", score)
    return calls


@pytest.mark.parametrize(
    ("metric", "best"),
    [(TASK_METRIC, 1), ("matthews_correlation", 1), ("eval_loss", 3), ("accuracy", 2)],
)
def test_the_final_weights_are_the_best_checkpoint_s(
    any_model_dir, tmp_path, monkeypatch, caplog, metric, best
):
    rows = [{**row, "source": "x", "mark": ""} for row in sentences(16, labels=(0, 1))]
    train = write(tmp_path, "train.jsonl", rows)
    script_scores(
        monkeypatch,
        matthews_correlation=[0.9, 0.5, 0.1],
        accuracy=[0.1, 0.9, 0.1],
        loss=[0.9, 0.5, 0.1],
    )
    with caplog.at_level(logging.WARNING):
        tune(
            any_model_dir,
            tmp_path / "tuned",
            training={
                "do_train": True, "do_eval": True, **EVERY_EPOCH,
                "load_best_model_at_end": True, "metric_for_best_model": metric,
            },
            task_name="cola",
            train_file=train,
            validation_file=train,
        )  # fmt: skip
    checkpoints = {
        number: load_file(tmp_path / "tuned" / f"checkpoint-{2 * number}" / "model.safetensors")
        for number in (1, 2, 3)
    }
    final = load_file(tmp_path / "tuned" / "model.safetensors")
    equal = [
        number
        for number, weights in checkpoints.items()
        if all(torch.equal(final[name], weights[name]) for name in final)
    ]
    assert equal == [best]
    assert "missing keys" not in caplog.text
    state = read_json(tmp_path / "tuned" / "trainer_state.json")
    assert state["best_model_checkpoint"].endswith(f"checkpoint-{2 * best}")


def test_training_ends_when_patience_does(model_dir, train_file, tmp_path, monkeypatch):
    calls = script_scores(monkeypatch, accuracy=[0.5, 0.9, 0.8, 0.7, 0.6])
    tune(
        model_dir,
        tmp_path / "tuned",
        training={
            "do_train": True, "do_eval": True, **EVERY_EPOCH, "num_train_epochs": 9,
            "load_best_model_at_end": True, "metric_for_best_model": TASK_METRIC,
        },
        method={"early_stopping_patience": 2},
        train_file=train_file,
        validation_file=train_file,
    )  # fmt: skip
    state = read_json(tmp_path / "tuned" / "trainer_state.json")
    assert (state["epoch"], state["best_metric"]) == (4.0, 0.9)
    # Four in training and one of the best model.
    assert len(calls) == 5


@pytest.mark.parametrize(
    ("training", "method", "message"),
    [
        (
            {"load_best_model_at_end": True, "metric_for_best_model": "bleu"},
            {},
            "metric_for_best_model 'bleu': must be one of accuracy, matthews_correlation",
        ),
        ({}, {"early_stopping_patience": 3}, "patience 3: load_best_model_at_end is needed"),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused_before_training(
    model_dir, train_file, tmp_path, training, method, message
):
    with pytest.raises(ValueError, match=message):
        tune(
            model_dir,
            tmp_path / "tuned",
            training={"do_train": True, "do_eval": True, **EVERY_EPOCH, **training},
            method=method,
            train_file=train_file,
            validation_file=train_file,
        )
    assert not (tmp_path / "tuned").exists()
