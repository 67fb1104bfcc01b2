"""The example that trains a tokenizer, the way a user starts it."""

import importlib.util
from pathlib import Path

import pytest
from transformers import AutoTokenizer

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "train_tokenizer.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("example_train_tokenizer", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def corpus_file(tmp_path):
    things = ["sea", "bird", "fire", "harbour", "machine", "garden"] * 5
    path = tmp_path / "corpus.txt"
    path.write_text(
        "\n\n".join(f"The sailor told {n} about the {thing} ." for n, thing in enumerate(things))
    )
    return path


@pytest.mark.parametrize("family", ["lvbert", "elcbert"])
def test_a_tokenizer_is_trained_and_its_f95_told(example, corpus_file, tmp_path, family, caplog):
    folder = tmp_path / "new" / "tokenizer"
    flags = [f"--model_family={family}", f"--train_file={corpus_file}", "--vocab_size=300"]
    with caplog.at_level("INFO"):
        example.run([*flags, f"--output_dir={folder}"])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert 150 < len(tokenizer) <= 300
    assert ("[PAR]" in tokenizer.get_vocab()) == (family == "elcbert")
    assert tokenizer.model_max_length == 512
    assert f"{len(tokenizer)} tokens, F95 is " in caplog.text


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--vocab_size=3"], "vocab_size 3: at least 263"),
        (["--model_family=bert"], "model_family 'bert': must be one of lvbert, elcbert"),
        (["--train_file=none.txt"], "train_file 'none.txt': no such file"),
        (["--train_file={corpus}", "--dataset_name=x"], "only one may be given"),
        (["--train_file={binary}"], "a binary file"),
        (["--train_file={empty}"], "the file holds no text"),
        (["--output_dir={full}"], "is not empty: take a new folder"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(example, corpus_file, tmp_path, flags, message):
    (tmp_path / "binary").write_bytes(b"a\0b")
    (tmp_path / "empty").touch()
    names = {"corpus": corpus_file, "full": tmp_path}
    names |= {name: tmp_path / name for name in ("binary", "empty")}
    before = sorted(tmp_path.iterdir())
    with pytest.raises(SystemExit) as caught:
        example.run([f"--output_dir={tmp_path / 'new'}", *(flag.format(**names) for flag in flags)])
    assert str(caught.value).startswith("error: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before


def test_help_tells_a_command_that_runs(example, capsys):
    with pytest.raises(SystemExit) as ended:
        example.run(["--help"])
    assert ended.value.code == 0
    assert "python examples/train_tokenizer.py" in capsys.readouterr().out
