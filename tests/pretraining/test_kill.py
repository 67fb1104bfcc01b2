"""A pre-training run that is killed, or finds the disk full, goes on as if nothing had happened."""

import json
import random
import re
import resource
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

from modeling_lvbert.pretraining.checkpoints import find_last_checkpoint
from modeling_lvbert.pretraining.tokenizer_training import train_tokenizer

pytestmark = pytest.mark.slow

# Ten steps of four epochs, a checkpoint after every other step, the second stage after step 5.
NUM_STEPS, STAGES = 10, ("0.5:32:1", "0.5:64:0.5")


@pytest.fixture(scope="module")
def corpus(documents, tmp_path_factory):
    """Training and validation text, and a tokenizer."""
    folder = tmp_path_factory.mktemp("corpus")
    for name, part in (("training", range(6)), ("validation", range(30, 40))):
        text = "\n\n".join(documents.select(part)["text"])
        (folder / f"{name}.txt").write_text(text + "\n")
    train_tokenizer(documents, "lvbert", 300, 64).save_pretrained(folder / "tokenizer")
    return folder


@pytest.fixture(scope="module")
def make_command(corpus, project_root):
    """Returns the words after "python" that train into a folder."""

    def make(folder, *more):
        return [
            str(project_root / "examples" / "run_pretraining.py"),
            f"--train_file={corpus / 'training.txt'}",
            f"--validation_file={corpus / 'validation.txt'}",
            f"--tokenizer_name={corpus / 'tokenizer'}",
            f"--output_dir={folder}", "--model_size=tiny", "--hidden_size=16",
            "--num_attention_heads=2", "--intermediate_size=32", "--per_device_train_batch_size=4",
            "--stages", *STAGES, f"--max_steps={NUM_STEPS}", "--save_steps=2", "--logging_steps=1",
            "--learning_rate=1e-3", "--use_cpu", "--report_to=none", "--disable_tqdm=true",
            "--dataloader_pin_memory=false", *more,
        ]  # fmt: skip

    return make


@pytest.fixture
def start(project_root):
    """Starts python and returns what became of it."""

    def run(words, **more):
        return subprocess.run(
            [sys.executable, *words], cwd=project_root, capture_output=True, text=True,
            check=False, timeout=300, **more,
        )  # fmt: skip

    return run


def read_losses(folder):
    state = json.loads((folder / f"checkpoint-{NUM_STEPS}" / "trainer_state.json").read_text())
    return [entry["loss"] for entry in state["log_history"] if "loss" in entry]


def read_results(folder):
    """Returns the losses of all steps, the weights that the run left and its scores."""
    weights = {
        f"{path.parent.name}.{name}" if path.parent.name == "generator" else name: weight
        for path in (folder, folder / "generator")
        for path in path.glob("model.safetensors")
        for name, weight in load_file(path).items()
    }
    scores = json.loads((folder / "eval_results.json").read_text())
    return (
        read_losses(folder),
        weights,
        {name: value for name, value in scores.items() if "time" not in name and "per" not in name},
    )


def assert_same_results(folder, expected):
    losses, weights, scores = read_results(folder)
    expected_losses, expected_weights, expected_scores = expected
    assert len(losses) == NUM_STEPS
    assert losses == expected_losses
    assert weights.keys() == expected_weights.keys()
    assert all(torch.equal(weights[name], weight) for name, weight in expected_weights.items())
    assert scores == expected_scores


@pytest.fixture(scope="module")
def expected(make_command, tmp_path_factory, project_root):
    """Results of uninterrupted runs, by their options."""
    results = {}

    def run(*more):
        if more not in results:
            folder = tmp_path_factory.mktemp("whole") / "run"
            command = [sys.executable, *make_command(folder, *more)]
            subprocess.run(command, cwd=project_root, check=True, capture_output=True)
            results[more] = read_results(folder)
        return results[more]

    return run


def assert_only_whole_checkpoints(folder):
    """Checks that whatever is called a checkpoint is one; returns the last."""
    visible = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name[11:]))
    last = find_last_checkpoint(str(folder))
    assert last == (str(visible[-1]) if visible else None)
    return last


# Place, number of the call there, and the step of the last whole checkpoint then. Each start goes
# on from what the one before it left.
KILLS = {
    "mlm": [
        ("step", 2, None),
        ("half a file", 1, None),
        ("after the rename", 1, 2),
        ("epoch", 2, 2),
        ("before the rename", 1, 2),
        ("after the rename", 1, 4),
        ("step", 2, 4),  # the first one of the second stage
        ("after the rename", 1, 6),  # also the end of an epoch
        ("step", 1, 6),
        ("weights saved", 1, 6),
        ("model written", 1, 10),
        ("one file moved", 1, 10),
        ("model saved", 1, 10),
    ],
    "electra": [
        ("before the rename", 1, None),
        ("after the rename", 2, 4),
        ("step", 3, 4),  # between two parts of the first step of the second stage
        ("half a file", 1, 4),
        ("one file moved", 1, 10),
    ],
    "streaming": [
        ("after the rename", 1, 2),
        ("step", 4, 4),  # the first one of the second stage
        ("after the rename", 1, 6),
        ("before the rename", 1, 6),
        ("model saved", 1, 10),
    ],
}
OPTIONS = {
    "mlm": ("--model_family=elcbert",),
    "electra": ("--objective=electra", "--gradient_accumulation_steps=2"),
    "streaming": ("--streaming", "--final_mlm_probability=0.3", "--ema_decay=0.9"),
}


@pytest.mark.parametrize("mode", KILLS)
def test_a_run_killed_anywhere_goes_on_to_the_last_bit(
    mode, make_command, start, expected, tmp_path
):
    folder = tmp_path / "run"
    command = make_command(folder, *OPTIONS[mode])
    last = None
    for place, count, step in KILLS[mode]:
        killer = ["-m", "tests.pretraining.killed_run", place, str(count)]
        result = start([*killer, *command])
        assert result.returncode == -signal.SIGKILL, (place, result.stderr[-2000:])
        picked_up = re.findall(r"going on from (\S+)|(\S+) is the end of the run", result.stderr)
        assert ["".join(found) for found in picked_up] == ([last] if last else [])
        last = assert_only_whole_checkpoints(folder)
        assert last == (str(folder / f"checkpoint-{step}") if step else None), place
    result = start(command)
    assert result.returncode == 0, result.stderr[-2000:]
    assert_same_results(folder, expected(*OPTIONS[mode]))
    assert not (folder / ".unfinished").exists()


@pytest.mark.parametrize("mode", OPTIONS)
def test_a_run_killed_at_random_goes_on_to_the_last_bit(
    mode, make_command, start, expected, tmp_path, project_root
):
    folder = tmp_path / "run"
    command = make_command(folder, *OPTIONS[mode])
    seed = random.SystemRandom().randrange(1000)
    with subprocess.Popen(
        [sys.executable, *command], cwd=project_root, stderr=subprocess.DEVNULL
    ) as process:
        while not (folder / "checkpoint-2").exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(random.Random(seed).uniform(0.0, 1.0))
        process.kill()
    assert_only_whole_checkpoints(folder)
    result = start(command)
    assert result.returncode == 0, (seed, result.stderr[-2000:])
    assert_same_results(folder, expected(*OPTIONS[mode]))


@pytest.mark.parametrize("share", [0.5, 1.5], ids=["weights", "optimizer"])
def test_a_save_that_finds_no_room_costs_no_checkpoint(
    share, make_command, start, expected, tmp_path
):
    folder = tmp_path / "run"
    command = make_command(folder, *OPTIONS["electra"])
    killer = ["-m", "tests.pretraining.killed_run", "after the rename", "1"]
    assert start([*killer, *command]).returncode == -signal.SIGKILL
    last = folder / "checkpoint-2"
    before = {path: path.read_bytes() for path in last.rglob("*") if path.is_file()}
    # The optimizer's file is twice as large as that of the weights, everything else small.
    limit = int(share * (last / "model.safetensors").stat().st_size)

    def fill_up():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    result = start(command, preexec_fn=fill_up)
    assert result.returncode == 1
    told = result.stderr.strip().splitlines()[-1]
    assert told.startswith("error: the checkpoint of step 4 cannot be written (")
    assert f"the last complete checkpoint is {last}. Make room and start again" in told
    assert "Traceback" not in result.stderr
    assert {path: path.read_bytes() for path in last.rglob("*") if path.is_file()} == before
    assert {path.name for path in folder.iterdir()} == {"run.json", last.name}
    assert start(command).returncode == 0
    assert_same_results(folder, expected(*OPTIONS["electra"]))
