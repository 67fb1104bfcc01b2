"""Faults that fine-tuning had elsewhere, for a model of the library and for both of ours."""

import json
import math
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.evaluation.small_tasks import (
    pairs,
    read_json,
    sentences,
    tune,
    write,
)

CLOCK = ("runtime", "per_second", "epoch", "time")


def test_hidden_states_are_not_gathered(any_model_dir, tmp_path):
    path = write(tmp_path, "seven.jsonl", sentences(7))
    scores = {}
    for name, fields in (("plain", {}), ("all", {"output_hidden_states": True})):
        config = {**read_json(Path(any_model_dir, "config.json")), **fields}
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        scores[name] = tune(
            any_model_dir,
            folder / "scores",
            training={"do_eval": True, "do_predict": True, "per_device_eval_batch_size": 2},
            model={"config_name": str(folder)},
            validation_file=path,
            test_file=path,
        )
        lines = (folder / "scores" / "predict_results_test.txt").read_text().splitlines()
        assert len(lines) == 1 + 7
    assert scores["all"]["eval_loss"] == pytest.approx(scores["plain"]["eval_loss"])


@pytest.mark.parametrize("first", ["classes", "scale"])
def test_the_kind_of_the_last_task_does_not_stay(any_model_dir, tmp_path, first):
    paths = {
        "classes": write(tmp_path, "classes.jsonl", sentences(32)),
        "scale": write(tmp_path, "scale.jsonl", sentences(32, labels=(0.5, 4.0))),
    }
    expected = {"classes": "single_label_classification", "scale": "regression"}
    source = any_model_dir
    for kind in (first, *({*paths} - {first})):
        folder = tmp_path / f"tuned-{kind}"
        scores = tune(
            source,
            folder,
            training={"do_train": True, "do_eval": True, "num_train_epochs": 4},
            model={"ignore_mismatched_sizes": True},
            train_file=paths[kind],
            validation_file=paths[kind],
        )
        source = folder
        assert read_json(folder / "config.json")["problem_type"] == expected[kind]
        assert math.isfinite(scores["train_loss"])


def test_regression_takes_batches_of_one(any_model_dir, tmp_path):
    path = write(tmp_path, "stsb.jsonl", [
        {**row, "score": row["label"]} for row in pairs(6, labels=(0.5, 4.5))
    ])  # fmt: skip
    one = {"per_device_train_batch_size": 1, "per_device_eval_batch_size": 1}
    scores = {}
    for name, batch in (("one", one), ("five", {**one, "per_device_eval_batch_size": 5})):
        scores[name] = tune(
            any_model_dir,
            tmp_path / name,
            training={"do_train": True, "do_eval": True, "max_steps": 6, **batch},
            task_name="stsb",
            train_file=path,
            validation_file=path,
        )
    assert scores["one"]["eval_loss"] == pytest.approx(scores["five"]["eval_loss"], rel=1e-5)
    assert set(scores["one"]) >= {"eval_pearson", "eval_spearmanr", "eval_combined_score"}


@pytest.mark.slow
def test_seven_rows_on_two_processes_are_seven(model_dir, tmp_path, project_root):
    """Padding the last batch to both processes adds no rows, and trials write once."""
    path = write(tmp_path, "seven.jsonl", sentences(7))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={port}"]
    command = [
        str(project_root / "examples" / "run_glue.py"), f"--model_name_or_path={model_dir}",
        f"--train_file={path}", f"--validation_file={path}", f"--test_file={path}", "--do_train",
        "--do_eval", "--do_predict", "--per_device_eval_batch_size=2", "--learning_rate=0",
        "--max_steps=2", "--num_trials=2", "--save_strategy=no", "--report_to=none",
        "--disable_tqdm=true", "--dataloader_pin_memory=false", "--use_cpu",
    ]  # fmt: skip
    summaries = {}
    for name, before in (("one", []), ("two", launcher)):
        result = subprocess.run(
            [sys.executable, *before, *command, f"--output_dir={tmp_path / name}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env={**os.environ, "TRANSFORMERS_VERBOSITY": "error"},
        )
        assert result.returncode == 0, result.stderr[-3000:]
        summaries[name] = read_json(tmp_path / name / "all_results.json")
        for seed in (42, 43):
            folder = tmp_path / name / f"seed-{seed}"
            lines = (folder / "predict_results_test.txt").read_text().splitlines()
            assert len(lines) == 1 + 7
    for one, two in zip(summaries["one"]["trials"], summaries["two"]["trials"], strict=True):
        assert two["metrics"]["eval_samples"] == 7
        for metric, value in one["metrics"].items():
            if metric.startswith("eval_") and not metric.endswith(CLOCK):
                assert two["metrics"][metric] == pytest.approx(value, rel=1e-5), metric
