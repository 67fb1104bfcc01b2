"""run_glue.py the way a user starts it, on small models of both families."""

import json
import re

import pytest

from tests.evaluation.small_models import FAMILIES, make_model
from tests.examples.test_examples import QUIET, load, run_script

RTE = "index\tsentence1\tsentence2\tlabel\n"
TEXTS = ("The old harbour was built in 1842 .", "A storm took the lighthouse away .")


@pytest.fixture(scope="module", params=FAMILIES)
def model_dir(request, tmp_path_factory):
    return make_model(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture
def files(tmp_path):
    """A task in GLUE's layout: whether two sentences are the same."""
    rows = []
    for number in range(16):
        same = number % 2 == 0
        first, second = TEXTS[number // 2 % 2], TEXTS[(number // 2 + (not same)) % 2]
        label = "entailment" if same else "not_entailment"
        rows.append((f"{number}\t{first}\t{second}", label))
    for name in ("train", "dev"):
        text = RTE + "".join(f"{row}\t{label}\n" for row, label in rows)
        (tmp_path / f"{name}.tsv").write_text(text)
    (tmp_path / "test.tsv").write_text(
        "index\tsentence1\tsentence2\n" + "".join(f"{row}\n" for row, _ in rows)
    )
    return [
        "--task_name=rte",
        f"--train_file={tmp_path / 'train.tsv'}",
        f"--validation_file={tmp_path / 'dev.tsv'}",
        f"--test_file={tmp_path / 'test.tsv'}",
    ]


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_trials_by_a_recipe_leave_results_and_files_for_the_test_server(model_dir, files, tmp_path):
    folder = tmp_path / "tuned"
    command = [
        f"--model_name_or_path={model_dir}", *files, "--recipe=lvbert-small", "--num_trials=2",
        "--do_train", "--do_eval", "--do_predict", "--max_steps=2", "--weight_decay=0.5",
        "--seed=3", f"--output_dir={folder}", *QUIET,
    ]  # fmt: skip
    load("run_glue").run(command)
    summary = read(folder / "all_results.json")
    assert [trial["folder"] for trial in summary["trials"]] == ["seed-3", "seed-4"]
    assert summary["metric"] == "eval_accuracy"
    assert set(summary) >= {"median", "mean", "standard_deviation", "best", "median_trial"}
    settings = read(folder / "fine_tuning.json")
    assert (settings["layerwise_lr_decay"], settings["layerwise_lr_decay_unit"]) == (0.8, "pair")
    assert (settings["learning_rate"], settings["weight_decay"]) == (3e-4, 0.5)
    lines = (folder / "seed-4" / "RTE.tsv").read_text().splitlines()
    assert lines[0] == "index\tprediction"
    assert all(re.fullmatch(rf"{n}\t(not_)?entailment", x) for n, x in enumerate(lines[1:]))
    # The same command again repeats nothing.
    before = {path: path.stat().st_mtime_ns for path in folder.glob("seed-*/*")}
    load("run_glue").run(command)
    assert {path: path.stat().st_mtime_ns for path in folder.glob("seed-*/*")} == before


def test_the_best_checkpoint_is_chosen_by_the_task_s_metric(model_dir, files, tmp_path):
    folder = tmp_path / "tuned"
    load("run_glue").run([
        f"--model_name_or_path={model_dir}", *files, "--do_train", "--do_eval", "--max_steps=2",
        "--eval_strategy=steps", "--save_strategy=steps", "--eval_steps=1", "--save_steps=1",
        "--load_best_model_at_end", "--early_stopping_patience=5", f"--output_dir={folder}",
        *QUIET,
    ])  # fmt: skip
    state = read(folder / "trainer_state.json")
    scores = [entry["eval_accuracy"] for entry in state["log_history"] if "eval_loss" in entry]
    assert state["best_metric"] == max(scores)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--recipe=bert"], "error: recipe 'bert': must be one of lvbert-small, "),
        (["--layerwise_lr_decay=2"], "error: layerwise_lr_decay 2.0: must be above 0"),
        (["--pair_both_orders"], "error: pair_both_orders: the order of the texts matters"),
        (["--num_trials=3"], "error: num_trials 3: do_train and do_eval are needed"),
    ],
)
def test_what_does_not_go_together_is_one_line(model_dir, files, tmp_path, words, message):
    with pytest.raises(SystemExit) as ended:
        load("run_glue").run([
            f"--model_name_or_path={model_dir}", *files, "--do_train", *words,
            f"--output_dir={tmp_path / 'tuned'}", *QUIET,
        ])  # fmt: skip
    assert str(ended.value).startswith(message)
    assert not (tmp_path / "tuned").exists()


@pytest.mark.slow
def test_a_killed_command_goes_on_with_the_unfinished_trial(tmp_path, files):
    model = make_model(tmp_path / "model", "lvbert")
    command = [
        f"--model_name_or_path={model}", *files, "--num_trials=2", "--do_train", "--do_eval",
        "--max_steps=4", "--save_strategy=steps", "--save_steps=2", "--learning_rate=1e-3",
        "--seed=1", *QUIET,
    ]  # fmt: skip
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run_script("run_glue", *command, f"--output_dir={whole}").returncode == 0
    # The seventh step of all is the second trial's third.
    result = run_script(
        "run_glue", *command, f"--output_dir={killed}",
        launcher=["-m", "tests.pretraining.killed_run", "step", "7"],
    )  # fmt: skip
    assert result.returncode == -9, result.stderr
    assert (killed / "seed-1" / "trial.json").is_file()
    assert not (killed / "seed-2" / "trial.json").exists()
    assert run_script("run_glue", *command, f"--output_dir={killed}").returncode == 0
    for seed in (1, 2):
        path = f"seed-{seed}/model.safetensors"
        assert (killed / path).read_bytes() == (whole / path).read_bytes()
