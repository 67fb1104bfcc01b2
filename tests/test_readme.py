"""The README is run: Python as it stands, commands short by default and as written where slow."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import BertTokenizer

from modeling_lvbert import LVBertConfig, LVBertForMaskedLM

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
WORDS = ["the", "cat", "sat", "on", "mat", "a", "sentence", "."]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    """The shell commands of the README, one string each, continued lines joined."""
    lines = "".join(blocks("bash")).replace("\\\n", " ").splitlines()
    return [re.sub(r"\s+#.*", "", line).strip() for line in lines if not line.startswith("#")]


def python_commands() -> list[str]:
    return [command for command in commands() if command.startswith("python ")]


def script_and_flags(command: str) -> tuple[list[str], list[str]]:
    """Splits `python -m x --a 1` into `["-m", "x"]` and the rest."""
    words = shlex.split(command)[1:]
    length = 2 if words[0] == "-m" else 1
    return words[:length], words[length:]


def run(arguments: list[str], folder: Path, timeout_s: int) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "default"}
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert result.returncode == 0, f"{arguments}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def reader_folder(tmp_path_factory) -> Path:
    """A folder as the README's reader has it: the scripts, and a published model under its name."""
    folder = tmp_path_factory.mktemp("reader")
    for name in ("examples", "conversion", "modeling_lvbert"):
        (folder / name).symlink_to(ROOT / name, target_is_directory=True)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    published = folder / "USER" / "lvbert-small"
    tokenizer = BertTokenizer(vocab={word: index for index, word in enumerate(vocabulary)})
    tokenizer.save_pretrained(published)
    config = LVBertConfig(
        vocab_size=len(vocabulary), hidden_size=16, num_attention_heads=2, layer_order="ddsffs"
    )
    LVBertForMaskedLM(config).save_pretrained(published)
    return folder


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_python_snippets_run_as_written(number, reader_folder):
    output = run(["-c", blocks("python")[number]], reader_folder, timeout_s=300)
    assert output.strip(), "a snippet shows its reader something"


def test_make_commands_name_targets():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):(?!=)", makefile, flags=re.MULTILINE))
    called = {command.split()[1] for command in commands() if command.startswith("make ")}
    assert {"quickstart", "test"} <= called <= targets


def test_every_command_is_one_that_is_tried_here():
    assert all(command.startswith(("make ", "python ")) for command in commands())
