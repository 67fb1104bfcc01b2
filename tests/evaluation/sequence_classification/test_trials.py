import json
import logging
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from modeling_lvbert.evaluation.sequence_classification.fine_tuner import FineTuner
from modeling_lvbert.evaluation.sequence_classification.options import TASK_METRIC
from modeling_lvbert.evaluation.sequence_classification.trials import (
    find_checkpoint,
    run_trials,
    summarize_trials,
)
from tests.evaluation.small_tasks import (
    read_json,
    save_model,
    sentences,
    tune,
    write,
)


def make_trial(seed, value, degenerate=False, **metrics):
    return {
        "seed": seed,
        "folder": f"seed-{seed}",
        "degenerate": degenerate,
        "metrics": {"eval_accuracy": value, "eval_loss": 1.0 - value, "train_loss": 9.0, **metrics},
    }


def test_the_summary_has_the_textbook_s_numbers():
    trials = [make_trial(seed, value) for seed, value in enumerate([0.2, 0.9, 0.4, 0.8, 0.7])]
    summary = summarize_trials(trials, "eval_accuracy")
    assert summary["median"] == {"eval_accuracy": 0.7, "eval_loss": pytest.approx(0.3)}
    assert summary["mean"]["eval_accuracy"] == pytest.approx(0.6)
    squares = [(value - 0.6) ** 2 for value in (0.2, 0.9, 0.4, 0.8, 0.7)]
    assert summary["standard_deviation"]["eval_accuracy"] == pytest.approx(
        (sum(squares) / 4) ** 0.5
    )
    assert (summary["median_trial"], summary["best_trial"]) == ("seed-4", "seed-1")
    assert summary["best"] == {"eval_accuracy": 0.9, "eval_loss": pytest.approx(0.1)}
    assert summary["trials"] == trials


def test_of_an_even_number_the_lower_of_the_two_is_the_median_model():
    trials = [make_trial(seed, value) for seed, value in enumerate([0.9, 0.2, 0.6, 0.4])]
    summary = summarize_trials(trials, "eval_accuracy")
    assert summary["median"]["eval_accuracy"] == pytest.approx(0.5)
    assert summary["median_trial"] == "seed-3"
    ties = [make_trial(seed, 0.5) for seed in range(3)]
    assert summarize_trials(ties, "eval_accuracy")["median_trial"] == "seed-0"
    assert summarize_trials(ties, "eval_accuracy")["best_trial"] == "seed-0"


def test_one_trial_has_no_spread():
    summary = summarize_trials([make_trial(7, 0.5)], "eval_accuracy")
    assert summary["standard_deviation"]["eval_accuracy"] == 0.0


def test_degenerate_trials_are_listed_and_told(tmp_path, caplog):
    def run(seed, folder):
        folder.mkdir(parents=True)
        return {"eval_accuracy": 0.5, "eval_constant_predictions": float(seed == 2)}

    with caplog.at_level(logging.INFO):
        summary = run_trials(tmp_path, [1, 2, 3], "eval_accuracy", run, writes=True)
    assert summary["degenerate_trials"] == ["seed-2"]
    assert [trial["degenerate"] for trial in summary["trials"]] == [False, True, False]
    assert "1 of 3 trials always gave the same answer: seed-2" in caplog.text
    assert read_json(tmp_path / "all_results.json") == summary


def test_finished_trials_are_not_repeated_and_the_others_are(tmp_path):
    done = []

    def run(seed, folder):
        folder.mkdir(parents=True, exist_ok=True)
        if seed == 2 and not done.count(2):
            done.append(seed)
            raise KeyboardInterrupt
        done.append(seed)
        return {"eval_accuracy": seed / 10, "eval_constant_predictions": 0.0}

    with pytest.raises(KeyboardInterrupt):
        run_trials(tmp_path, [1, 2, 3], "eval_accuracy", run, writes=True)
    assert not (tmp_path / "all_results.json").exists()
    summary = run_trials(tmp_path, [1, 2, 3], "eval_accuracy", run, writes=True)
    assert done == [1, 2, 2, 3]
    # Half a record is none.
    (tmp_path / "seed-3" / "trial.json").write_text('{"seed": 3')
    again = run_trials(tmp_path, [1, 2, 3], "eval_accuracy", run, writes=True)
    assert done == [1, 2, 2, 3, 3]
    assert again == summary


def test_a_loss_that_is_no_number_leaves_json_that_any_program_reads(tmp_path):
    def run(seed, folder):
        folder.mkdir(parents=True)
        loss = float("nan") if seed == 1 else 0.5
        return {"eval_accuracy": 0.5, "eval_loss": loss, "eval_constant_predictions": 0.0}

    run_trials(tmp_path, [1, 2], "eval_accuracy", run, writes=True)
    for _ in range(2):
        text = (tmp_path / "all_results.json").read_text()
        assert "NaN" not in text
        assert json.loads(text)["median"]["eval_loss"] is None
        run_trials(tmp_path, [1, 2], "eval_accuracy", run, writes=True)


def test_other_processes_write_nothing(tmp_path):
    def run(seed, folder):
        return {"eval_accuracy": 0.5, "eval_constant_predictions": 0.0}

    run_trials(tmp_path, [1, 2], "eval_accuracy", run, writes=False)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_without_its_state_does_not_count(tmp_path):
    assert find_checkpoint(tmp_path) is None
    for step, state in ((5, "{}"), (10, '{"global_step": 10}'), (15, '{"glob'), (20, None)):
        (tmp_path / f"checkpoint-{step}").mkdir()
        if state is not None:
            (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text(state)
    (tmp_path / "checkpoint-best").mkdir()
    assert find_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")


@pytest.fixture(scope="module")
def with_dropout(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("dropout"), hidden_dropout_prob=0.3)


TRAINING = {
    "do_train": True,
    "do_eval": True,
    "num_train_epochs": 3,
    "seed": 11,
    "save_strategy": "steps",
    "save_steps": 2,
    "eval_strategy": "steps",
    "eval_steps": 2,
    "load_best_model_at_end": True,
    "metric_for_best_model": TASK_METRIC,
}


def run_two(model_dir, folder, path, num_trials=2, **training):
    return tune(
        model_dir,
        folder,
        training={**TRAINING, **training},
        method={"num_trials": num_trials, "early_stopping_patience": 4},
        train_file=path,
        validation_file=path,
    )


def list_numbers(summary):
    """All that does not depend on the clock."""
    return [
        (
            trial["folder"],
            trial["degenerate"],
            {
                name: value
                for name, value in trial["metrics"].items()
                if not name.endswith(("_runtime", "_per_second"))
            },
        )
        for trial in summary["trials"]
    ]


@pytest.mark.parametrize("step", [4, 9])
def test_killed_trials_go_on_to_the_same_weights(with_dropout, tmp_path, monkeypatch, step):
    path = write(tmp_path, "train.jsonl", sentences(32))
    medians = run_two(with_dropout, tmp_path / "whole", path)
    whole = read_json(tmp_path / "whole" / "all_results.json")
    calls = []
    train = FineTuner.training_step

    def die_in_the_second_trial(trainer, *args, **kwargs):
        calls.append(trainer.args.seed)
        if calls.count(12) == step:
            raise KeyboardInterrupt
        return train(trainer, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(FineTuner, "training_step", die_in_the_second_trial)
        with pytest.raises(KeyboardInterrupt):
            run_two(with_dropout, tmp_path / "killed", path)
    assert (tmp_path / "killed" / "seed-11" / "trial.json").is_file()
    assert not (tmp_path / "killed" / "seed-12" / "trial.json").exists()
    # What a checkpoint half written looks like.
    checkpoint = find_checkpoint(tmp_path / "killed" / "seed-12")
    torn = tmp_path / "killed" / "seed-12" / "checkpoint-11"
    shutil.copytree(checkpoint, torn)
    (torn / "trainer_state.json").unlink()
    first = (tmp_path / "killed" / "seed-11" / "trial.json").stat().st_mtime_ns
    assert run_two(with_dropout, tmp_path / "killed", path) == medians
    assert (tmp_path / "killed" / "seed-11" / "trial.json").stat().st_mtime_ns == first
    killed = read_json(tmp_path / "killed" / "all_results.json")
    left_out = ("train_loss", "total_flos")
    assert [
        (folder, flag, {k: v for k, v in numbers.items() if k not in left_out})
        for folder, flag, numbers in list_numbers(killed)
    ] == [
        (folder, flag, {k: v for k, v in numbers.items() if k not in left_out})
        for folder, flag, numbers in list_numbers(whole)
    ]
    for seed in (11, 12):
        weights, expected = (
            load_file(tmp_path / name / f"seed-{seed}" / "model.safetensors")
            for name in ("killed", "whole")
        )
        assert all(torch.equal(weights[name], expected[name]) for name in expected)


def test_trials_differ_and_each_is_the_run_of_its_seed(with_dropout, tmp_path):
    path = write(tmp_path, "train.jsonl", sentences(16))
    short = {"num_train_epochs": 1}
    run_two(with_dropout, tmp_path / "trials", path, **short)
    alone = tune(
        with_dropout,
        tmp_path / "alone",
        training={**TRAINING, **short, "seed": 12},
        method={"early_stopping_patience": 4},
        train_file=path,
        validation_file=path,
    )
    losses = [
        trial["metrics"]["eval_loss"]
        for trial in read_json(tmp_path / "trials" / "all_results.json")["trials"]
    ]
    assert losses[0] != losses[1] == alone["eval_loss"]
    # More trials of the same run: only those are new.
    record = (tmp_path / "trials" / "seed-11" / "trial.json").read_bytes()
    medians = run_two(with_dropout, tmp_path / "trials", path, num_trials=3, **short)
    summary = read_json(tmp_path / "trials" / "all_results.json")
    assert (tmp_path / "trials" / "seed-11" / "trial.json").read_bytes() == record
    assert [trial["seed"] for trial in summary["trials"]] == [11, 12, 13]
    assert medians["eval_loss"] == np.median(
        [trial["metrics"]["eval_loss"] for trial in summary["trials"]]
    )
    assert (tmp_path / "trials" / summary["median_trial"] / "model.safetensors").is_file()
    with pytest.raises(ValueError, match="holds another run .*has_trials"):
        tune(
            with_dropout,
            tmp_path / "trials",
            training={**TRAINING, **short},
            method={"early_stopping_patience": 4},
            train_file=path,
            validation_file=path,
        )


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"do_train": True}, "num_trials 2: do_train and do_eval are needed"),
        (
            {"do_train": True, "do_eval": True, "resume_from_checkpoint": "."},
            "without resume_from_checkpoint",
        ),
    ],
)
def test_trials_need_scores_and_go_on_by_themselves(
    model_dir, train_file, tmp_path, training, message
):
    with pytest.raises(ValueError, match=message):
        tune(
            model_dir,
            tmp_path / "tuned",
            training=training,
            method={"num_trials": 2},
            train_file=train_file,
            validation_file=train_file,
        )
