"""The README is run: Python as it stands, commands short by default and as written where slow."""

import json
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertTokenizer

from modeling_lvbert import LVBertConfig, LVBertForMaskedLM

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
FIXTURES = ROOT / "tests" / "fixtures"
SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "cat", "sat", "on", "mat", "a", "sentence", "."]
SENTENCES = [
    ("1", "", "sat"),
    ("0", "*", "sit sat"),
    ("1", "", "ran"),
    ("0", "*", "ran on the"),
] * 4
# What makes a command of minutes one of seconds. The last value of a flag counts.
SHORT = {
    "examples/run_pretraining.py": "--max_steps 2 --max_seq_length 16 --vocab_size 500",
    "examples/run_glue.py": "--max_steps 2",
    "examples/run_qa.py": "--max_steps 2",
    "examples/run_tagging.py": "--max_steps 2",
    "examples/run_search.py": "--max_steps 2 --max_seq_length 16 --vocab_size 500 "
    "--num_generations 2 --population_size 3",
}
# What a command leaves; the others a model.
OUTPUTS = {
    "examples/run_search.py": ("search_result.json", "best/model.safetensors"),
    "examples/train_tokenizer.py": ("tokenizer.json",),
    "examples/normalize_corpus.py": ("babylm.txt",),
    "examples/run_blimp.py": ("blimp.json",),
    "examples/analyze_layers.py": ("layer_importance.json",),
}


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def commands(text: str = README) -> list[str]:
    """The shell commands of a page, one string each, continued lines joined."""
    lines = "".join(blocks("bash", text)).replace("\\\n", " ").splitlines()
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


def write_vocabulary(path: Path, size: int) -> None:
    words = [*WORDS, *(f"word{number}" for number in range(size))]
    path.write_text("\n".join([*SPECIAL_TOKENS, *words][:size]) + "\n", encoding="utf-8")


def write_elcbert_tokenizer(path: Path) -> None:
    """Writes a tokenizer of the official files' form: no normalizer, no [CLS] and [SEP] added."""
    vocabulary = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", "[PAR]", "[TAB]"]
    tokens = {word: index for index, word in enumerate([*vocabulary, *(f"Ġ{w}" for w in WORDS)])}
    model = models.WordPiece(vocab=tokens, unk_token="[UNK]", continuing_subword_prefix="")
    tokenizer = Tokenizer(model)
    tokenizer.add_special_tokens(vocabulary)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    tokenizer.save(str(path))


def write_tasks(folder: Path) -> None:
    """Writes small files in the forms of SQuAD, CoNLL and BLiMP, and a text."""
    for name in ("squad", "conll", "blimp"):
        (folder / name).mkdir()
    questions = [
        {"id": "1", "question": "Who sat?", "answers": [{"text": "The cat", "answer_start": 0}]},
        {"id": "2", "question": "Who ran?", "answers": [], "is_impossible": True},
    ]
    text = "The cat sat on the mat."
    squad = {"data": [{"paragraphs": [{"context": text, "qas": questions}]}]}
    for split in ("train", "dev"):
        (folder / "squad" / f"{split}-v2.0.json").write_text(json.dumps(squad))
        (folder / "conll" / f"{split}.txt").write_text("Tom B-PER\nsat O\n\nAnn B-PER\nran O\n")
    pair = {"sentence_good": "The cat sat.", "sentence_bad": "The cat sit.", "UID": "agreement"}
    (folder / "blimp" / "agreement.jsonl").write_text(json.dumps(pair) + "\n")
    (folder / "valid.txt").write_text(f"{text}\n" * 20)


@pytest.fixture
def reader_folder(tmp_path) -> Path:
    """A folder as the README's reader has it: our scripts, and small files under its names."""
    folder = tmp_path
    for name in ("examples", "conversion", "modeling_lvbert"):
        (folder / name).symlink_to(ROOT / name, target_is_directory=True)

    published = folder / "USER" / "lvbert-small"
    vocabulary = {word: index for index, word in enumerate([*SPECIAL_TOKENS, *WORDS])}
    BertTokenizer(vocab=vocabulary).save_pretrained(published)
    config = LVBertConfig(
        vocab_size=len(vocabulary), hidden_size=16, num_attention_heads=2, layer_order="ddsffs"
    )
    LVBertForMaskedLM(config).save_pretrained(published)

    (folder / "CoLA").mkdir()
    rows = [f"gj04\t{label}\t{mark}\tThe cat {verb}." for label, mark, verb in SENTENCES]
    for split in ("train", "dev"):
        (folder / "CoLA" / f"{split}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")

    write_tasks(folder)

    (folder / "childes.train").write_text("*CHI:\twhere is the cat ?\n*MOT:\tthe cat sat .\n")
    (folder / "simple_wiki.train").write_text("= = = Cat = = =\nA cat sat on the mat.\n")

    shutil.copytree(FIXTURES / "conversion" / "lvbert_small_order", folder / "lvbert_small")
    write_vocabulary(folder / "vocab.txt", 120)
    original = FIXTURES / "goldens" / "elc_base"
    shutil.copytree(original, folder / "elcbert_small")
    (folder / "elcbert_small" / "config.json").rename(folder / "elcbert_small" / "small.json")
    weights = load_file(original / "model.safetensors")
    torch.save({"model": weights}, folder / "elcbert_small" / "model.bin")
    write_elcbert_tokenizer(folder / "elcbert_small" / "tokenizer.json")
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


def test_every_flag_in_the_text_is_one_of_a_command_tried_here():
    prose = re.sub(r"^```.*?^```", "", README, flags=re.DOTALL | re.MULTILINE)
    flags = set(re.findall(r"(?<![-\w])--\w+", prose))
    scripts = ("run_pretraining", "run_search", "run_glue", "run_qa", "run_blimp")
    programs = [[f"examples/{script}.py"] for script in scripts]
    programs.append(["-m", "conversion.push_searched"])
    texts = [run([*program, "--help"], ROOT, timeout_s=300) for program in programs]
    # TensorBoard's own.
    assert flags - {"--logdir"} <= set(re.findall(r"--\w+", "".join(texts)))


def find_output(folder: Path, flags: list[str]) -> Path:
    if "--dry_run" in flags:
        return folder / flags[flags.index("--dry_run") + 1]
    if "--output_file" in flags:
        return (folder / flags[flags.index("--output_file") + 1]).parent
    return folder / flags[flags.index("--output_dir") + 1]


def run_in_order(shortened: bool, folder: Path) -> None:
    """Runs the README's Python commands in turn: later ones use what earlier ones wrote."""
    for command in python_commands():
        script, flags = script_and_flags(command)
        if script[-1] == "conversion.convert_lvbert" and find_spec("tensorflow") is None:
            continue
        extra = shlex.split(SHORT.get(script[-1], "")) if shortened else []
        run([*script, *flags, *extra], folder, timeout_s=1800)
        output = find_output(folder, flags)
        for name in OUTPUTS.get(script[-1], ("config.json", "model.safetensors")):
            assert (output / name).is_file(), command


@pytest.mark.slow
def test_the_commands_of_the_results_run_when_cut_short(reader_folder):
    for name in ("train", "valid"):
        lines = "".join(f"Number {line} of the {name} texts .\n\n" for line in range(200))
        with lzma.open(reader_folder / f"{name}.txt.xz", "wt") as file:
            file.write(lines)
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    found = [command for command in commands(page) if command.startswith("python ")]
    assert found
    short = "--max_steps 2 --max_seq_length 16 --vocab_size 500"
    shorter = "--num_generations 1 --population_size 3 --rank_check_steps 2 --num_scoring_rows 8"
    for command in found:
        script, flags = script_and_flags(command)
        is_search = script[-1] == "examples/run_search.py"
        more = shlex.split(f"{short} {shorter if is_search else '--seeds 1'}")
        run([*script, *flags, *more], reader_folder, timeout_s=1800)
        name = "search_result.json" if is_search else "table.md"
        assert (find_output(reader_folder, flags) / name).is_file()


def test_commands_run_in_order_when_cut_short(reader_folder):
    run_in_order(True, reader_folder)


@pytest.mark.slow
def test_commands_run_in_order_as_written(reader_folder):
    run_in_order(False, reader_folder)
