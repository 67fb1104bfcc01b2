"""Every example runs two steps, without a network, the way a user starts it."""

import importlib.util
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PARAGRAPHS = [
    f"The old sailor number {number} told the children a story about the {thing} .\n"
    f"Nobody in the village had seen {number} of them , and the {thing} was gone ."
    for number, thing in enumerate(["sea", "bird", "fire", "harbour", "machine", "garden"] * 5)
]
QUIET = [
    "--use_cpu", "--disable_tqdm=true", "--report_to=none", "--dataloader_pin_memory=false",
    "--log_level=error", "--logging_steps=1",
]  # fmt: skip
FAMILIES = ("lvbert", "elcbert")


def load(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_script(name, *arguments, launcher=()):
    command = [sys.executable, *launcher, str(EXAMPLES / f"{name}.py"), *arguments]
    environment = {**os.environ, "TRANSFORMERS_VERBOSITY": "error"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def launch_on_cpu(number):
    """Words that start a script as several processes, for `run_script`."""
    return [
        "-m", "accelerate.commands.launch", "--cpu", f"--num_processes={number}",
        "--num_machines=1", f"--main_process_port={29500 + os.getpid() % 1000}",
        "--mixed_precision=no", "--dynamo_backend=no",
    ]  # fmt: skip


def read(folder, name):
    return json.loads((Path(folder) / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def corpus_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n\n".join(PARAGRAPHS) + "\n")
    return path


def pretraining_flags(corpus_file, folder, family, *more):
    return [
        f"--model_family={family}", "--model_size=tiny", "--hidden_size=16",
        "--num_attention_heads=2", "--intermediate_size=32", "--vocab_size=300",
        f"--train_file={corpus_file}", "--max_seq_length=24", "--per_device_train_batch_size=4",
        "--max_steps=2", "--save_steps=1", f"--output_dir={folder}", *QUIET, *more,
    ]  # fmt: skip


@pytest.fixture(scope="module", params=FAMILIES)
def pretrained(request, corpus_file, tmp_path_factory):
    """A model of each family, pre-trained for two steps by the script."""
    folder = tmp_path_factory.mktemp(request.param) / "run"
    load("run_pretraining").run(pretraining_flags(corpus_file, folder, request.param))
    return folder


def test_pretraining_leaves_a_model_and_its_numbers(pretrained):
    scores = read(pretrained, "eval_results")
    assert scores["eval_loss"] > 0
    assert 0 <= scores["eval_masked_accuracy"] <= 1
    assert scores["eval_unigram_entropy"] > 0
    assert read(pretrained, "train_results")["train_tokens_per_second"] > 0
    config = read(pretrained, "config")
    assert config["hidden_size"] == 16
    assert {"model.safetensors", "tokenizer.json"} <= {p.name for p in pretrained.iterdir()}


FRESH = """
import sys
sys.modules["modeling_lvbert"] = None
from transformers import pipeline
task, folder, text = sys.argv[1:]
pipe = pipeline(task, model=folder, trust_remote_code=True)
if task == "fill-mask":
    text = text.replace("[MASK]", pipe.tokenizer.mask_token)
print(sorted(guess.get("token_str", guess.get("label")) is not None for guess in pipe(text)))
"""


def open_elsewhere(task, folder, text):
    command = [sys.executable, "-I", "-c", FRESH, task, str(folder), text]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_process_without_the_package_fills_a_mask(pretrained):
    result = open_elsewhere("fill-mask", pretrained, "The old [MASK] told a story .")
    assert result.stdout.strip() == str([True] * 5), result.stderr


def test_the_same_command_goes_on_and_another_one_is_refused(corpus_file, tmp_path, caplog, capsys):
    script = load("run_pretraining")
    flags = pretraining_flags(corpus_file, tmp_path / "run", "lvbert")
    script.run([*flags, "--max_steps=1"])
    first = torch.load(tmp_path / "run" / "checkpoint-1" / "optimizer.pt", weights_only=True)
    with caplog.at_level(logging.INFO):
        script.run(flags)
    assert [r.message for r in caplog.records if "going on from" in r.message] == [
        f"going on from {tmp_path / 'run' / 'checkpoint-1'}"
    ]
    assert read(tmp_path / "run" / "checkpoint-2", "trainer_state")["global_step"] == 2
    assert first["state"]
    # Once it is done, the command only evaluates again.
    before = read(tmp_path / "run", "eval_results")["eval_loss"]
    script.run(flags)
    assert read(tmp_path / "run", "eval_results")["eval_loss"] == before
    with pytest.raises(
        SystemExit, match="error: output_dir .* holds another run .hidden_size was 16"
    ):
        script.run([*flags, "--hidden_size=32"])


def test_the_interrupted_and_the_whole_run_end_alike(corpus_file, tmp_path):
    script = load("run_pretraining")
    for name, steps in (("whole", [2]), ("parts", [1, 2])):
        for stop in steps:
            flags = pretraining_flags(corpus_file, tmp_path / name, "elcbert")
            script.run([*flags, "--lr_scheduler_type=constant", f"--max_steps={stop}"])
    losses = [read(tmp_path / name, "eval_results")["eval_loss"] for name in ("whole", "parts")]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_recipe_s_stages_run_in_one_run_and_go_on(corpus_file, tmp_path, is_streamed):
    """The published run in small: 90 % of the steps on short rows, the rest on long ones."""
    script = load("run_pretraining")
    flags = [
        "--recipe=elcbert-strict-small", "--model_size=tiny", "--layer_order=d sf",
        "--hidden_size=16", "--num_attention_heads=2", "--intermediate_size=32", "--vocab_size=300",
        "--stages", "0.9:16:1", "0.1:32:0.25", "--per_device_train_batch_size=4",
        "--global_batch_size=8", "--max_steps=10", "--save_steps=1", "--ema_decay=0.9",
        "--final_mlm_probability=0.3", f"--train_file={corpus_file}", *QUIET,
    ]  # fmt: skip
    if is_streamed:
        script.run([*flags, f"--output_dir={tmp_path / 'tokenizer'}"])
        flags += [
            "--streaming", f"--tokenizer_name={tmp_path / 'tokenizer'}",
            f"--validation_file={corpus_file}",
        ]  # fmt: skip
    script.run([*flags, f"--output_dir={tmp_path / 'whole'}"])
    for later in (9, 10):
        shutil.copytree(tmp_path / "whole", tmp_path / f"cut-{later}")
        for step in range(later, 11):
            shutil.rmtree(tmp_path / f"cut-{later}" / f"checkpoint-{step}")
        (tmp_path / f"cut-{later}" / "train_results.json").unlink()
        script.run([*flags, f"--output_dir={tmp_path / f'cut-{later}'}"])
        states = [
            read(tmp_path / run / "checkpoint-10", "trainer_state")["log_history"]
            for run in ("whole", f"cut-{later}")
        ]
        losses = [[entry["loss"] for entry in log if "loss" in entry] for log in states]
        assert len(losses[0]) == 10
        assert losses[0] == losses[1]
    recipe = read(tmp_path / "whole", "recipe")["settings"]
    assert recipe["stages"]["value"] == [[0.9, 16, 1.0], [0.1, 32, 0.25]]
    assert recipe["optimizer"] == {**recipe["optimizer"], "value": "lamb", "source": "C"}


def test_a_user_s_mistake_is_one_line_and_exit_code_1(tmp_path):
    result = run_script(
        "run_pretraining",
        "--train_file=nowhere.txt",
        f"--output_dir={tmp_path / 'run'}",
        "--use_cpu",
    )
    assert result.returncode == 1
    assert result.stderr.strip() == "error: train_file 'nowhere.txt': no such file"
    assert not (tmp_path / "run").exists()
    with pytest.raises(SystemExit, match="^error: task_name 'boolq': must be one of [^\\n]*$"):
        load("run_glue").run(["--model_name_or_path=x", "--task_name=boolq", "--use_cpu"])


def test_a_damaged_model_is_one_line(pretrained, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(pretrained, folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:500])
    task = tmp_path / "task.csv"
    task.write_text("sentence,label\nthe sea,0\nthe bird,1\n")
    result = run_script(
        "run_glue",
        f"--model_name_or_path={folder}",
        f"--train_file={task}",
        "--do_train",
        f"--output_dir={tmp_path / 'tuned'}",
        "--use_cpu",
    )
    assert result.returncode == 1
    assert re.fullmatch(
        r"error: model_name_or_path '.*model' cannot be loaded: .*", result.stderr.strip()
    )
    assert not (tmp_path / "tuned").exists()


def test_a_layer_order_changed_by_hand_is_one_line(pretrained, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(pretrained, folder)
    config = read(folder, "config")
    config["layer_order"] = config["layer_order"][::-1]
    (folder / "config.json").write_text(json.dumps(config))
    task = tmp_path / "task.csv"
    task.write_text("sentence,label\nthe sea,0\nthe bird,1\n")
    with pytest.raises(SystemExit, match="^error: .* do not fit its configuration: [^\\n]*$"):
        load("run_glue").run(
            [
                f"--model_name_or_path={folder}",
                f"--train_file={task}",
                "--do_train",
                f"--output_dir={tmp_path / 'tuned'}",
                *QUIET,
            ]
        )
    assert not (tmp_path / "tuned").exists()


def test_a_step_of_the_quickstart_that_fails_shows_its_own_error(tmp_path):
    (tmp_path / "lvbert").mkdir()
    (tmp_path / "lvbert" / "file").write_text("precious")
    result = run_script("quickstart", f"--output_dir={tmp_path}")
    assert result.returncode == 1
    errors = [line for line in result.stdout.splitlines() if "error" in line]
    assert len(errors) == 1
    assert errors[0].startswith("[lvbert] error: output_dir ")
    assert "Traceback" not in result.stdout + result.stderr
    assert all(line.startswith("==>") for line in result.stderr.splitlines())


def test_the_quickstart_ends_with_the_exit_code_of_its_step():
    script = load("quickstart")
    codes = {"slow": "import time; time.sleep(60)", "wrong": "raise SystemExit(3)"}
    began = time.monotonic()
    with pytest.raises(SystemExit) as ended:
        script.start_side_by_side({name: ["-c", code] for name, code in codes.items()})
    assert ended.value.code == 3
    assert time.monotonic() - began < 30


def test_the_quickstart_needs_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match="^error: .*exists"):
        load("quickstart").run([f"--output_dir={tmp_path / 'file'}"])


@pytest.mark.parametrize("name", ["run_pretraining", "run_glue", "quickstart"])
def test_help_tells_a_command_that_runs(name, capsys):
    with pytest.raises(SystemExit) as ended:
        load(name).run(["--help"])
    assert ended.value.code == 0
    assert f"python examples/{name}.py" in capsys.readouterr().out


def test_fine_tuning_leaves_a_model_that_opens_elsewhere(pretrained, tmp_path):
    lines = [f"x\t{number % 2}\t\t{text.splitlines()[0]}" for number, text in enumerate(PARAGRAPHS)]
    (tmp_path / "train.tsv").write_text("\n".join(lines))
    load("run_glue").run(
        [
            f"--model_name_or_path={pretrained}",
            "--task_name=cola",
            "--do_train",
            "--do_eval",
            f"--train_file={tmp_path / 'train.tsv'}",
            f"--validation_file={tmp_path / 'train.tsv'}",
            "--max_steps=2",
            f"--output_dir={tmp_path / 'tuned'}",
            *QUIET,
        ]  # fmt: skip
    )
    scores = read(tmp_path / "tuned", "eval_results")
    assert {"eval_matthews_correlation", "eval_accuracy", "eval_majority_baseline"} <= set(scores)
    assert read(tmp_path / "tuned", "config")["id2label"]["1"] == "acceptable"
    result = open_elsewhere("text-classification", tmp_path / "tuned", "The old sailor sang .")
    assert result.stdout.strip() == "[True]", result.stderr


def test_two_processes_train_as_one(corpus_file, tmp_path):
    same = ["--hidden_dropout_prob=0", "--attention_probs_dropout_prob=0", "--max_steps=6"]
    port = 29500 + os.getpid() % 1000
    launcher = [
        "-m", "accelerate.commands.launch", "--cpu", "--num_processes=2", "--num_machines=1",
        f"--main_process_port={port}", "--mixed_precision=no", "--dynamo_backend=no",
    ]  # fmt: skip
    for name, batch, start in (("one", 8, ()), ("two", 4, launcher)):
        flags = pretraining_flags(corpus_file, tmp_path / name, "lvbert", *same)
        flags += [f"--per_device_train_batch_size={batch}", "--learning_rate=1e-3"]
        result = run_script("run_pretraining", *flags, launcher=start)
        assert result.returncode == 0, result.stderr
    one, two = (read(tmp_path / name, "trainer_state")["log_history"] for name in ("one", "two"))
    losses = [[e["loss"] for e in log if "loss" in e] for log in (one, two)]
    assert len(losses[0]) == 6
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)
    scores = [read(tmp_path / name, "eval_results") for name in ("one", "two")]
    for key in ("eval_loss", "eval_masked_accuracy", "eval_num_masked_tokens"):
        assert scores[1][key] == pytest.approx(scores[0][key], abs=1e-4)


def test_the_quickstart_tells_the_whole_story(tmp_path, monkeypatch, capfd):
    script = load("quickstart")
    short = f"{script.PRE_TRAINING} --hidden_size 16 --logging_steps 1"
    monkeypatch.setattr(script, "PRE_TRAINING", short)
    few = {name: f"{options} --max_steps 2" for name, options in script.MODELS.items()}
    monkeypatch.setattr(script, "MODELS", few)
    monkeypatch.setattr(script, "FINE_TUNING", f"{script.FINE_TUNING} --max_steps 2")
    script.main(str(tmp_path))
    shown = capfd.readouterr().out
    for name in ("LVBertForMaskedLM", "ELCBertForMaskedLM"):
        assert re.search(rf"{name}: Return .MASK. list of strings.  ->  .+, .+", shown)
    table = (tmp_path / "table.txt").read_text()
    assert shown.rstrip().endswith(table.rstrip())
    heads, _, *rows = table.splitlines()
    assert heads.split()[:3] == ["model", "order", "parameters"]
    assert [row.split()[0] for row in rows] == list(FAMILIES)
    assert all(row.split()[-1] == "0.500" for row in rows)


@pytest.mark.slow
def test_the_quickstart_beats_its_baselines_and_runs_twice(tmp_path):
    first = run_script("quickstart", f"--output_dir={tmp_path / 'run'}")
    assert first.returncode == 0, first.stderr
    for family in FAMILIES:
        scores = read(tmp_path / "run" / family, "eval_results")
        assert scores["eval_loss"] < scores["eval_unigram_entropy"] - 0.5
        tuned = read(tmp_path / "run" / f"{family}-tuned", "eval_results")
        assert tuned["eval_accuracy"] > tuned["eval_majority_baseline"] + 0.05
    second = run_script("quickstart", f"--output_dir={tmp_path / 'run'}")
    assert second.returncode == 0, second.stderr
    tables = [run.stdout[run.stdout.index("\nmodel ") :] for run in (first, second)]
    # Pre-training was over: its numbers are the same ones.
    assert [row.split()[:6] for row in tables[0].splitlines()] == [
        row.split()[:6] for row in tables[1].splitlines()
    ]
