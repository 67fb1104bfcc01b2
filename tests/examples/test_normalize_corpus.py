"""The example that joins BabyLM's files, the way a user starts it."""

import importlib.util
import lzma
from pathlib import Path

import pytest

from modeling_lvbert.pretraining.corpus import load_file

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "normalize_corpus.py"
# Words of what the normalizers leave of the real files.
REAL = {
    "aochildes": ("aochildes_2023style.train.xz", 178_660),
    "childes": ("childes.train.xz", 500_000),
    "gutenberg": ("gutenberg.train.xz", 500_000),
    "gutenberg_wrapped": ("gutenberg_hardwrapped_sample.txt.xz", 57_743),
    "simple_wiki": ("simple_wiki.train.xz", 500_000),
    "switchboard": ("switchboard.train.xz", 146_789),
}


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("example_normalize_corpus", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def files(tmp_path):
    childes = tmp_path / "childes.train.xz"
    childes.write_bytes(
        lzma.compress(b"= = = a.cha = = =\n*MOT:\tyes .\n\n= = = b.cha = = =\n*CHI:\tno .\n")
    )
    wiki = tmp_path / "wiki.train"
    wiki.write_text("= = = Sea = = =\n\nThe sea is &quot;salty&quot;.\n")
    return [f"childes={childes}", f"simple_wiki={wiki}"]


def test_files_become_one_corpus_that_can_be_loaded(example, files, tmp_path, caplog):
    output = tmp_path / "corpus.txt"
    with caplog.at_level("INFO"):
        example.run([*files, "--output_file", str(output)])
    expected = ['"Yes."', '"No."', 'Sea\nThe sea is "salty".']
    assert load_file("train_file", str(output))["text"] == expected
    assert "childes.train.xz: 2 words on 3 lines" in caplog.text
    example.run([files[0], "--output_file", str(output)])
    assert load_file("train_file", str(output))["text"] == expected[:2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reddit={wiki}"], "source 'reddit': must be one of aochildes"),
        (["{wiki}"], "must have the form SOURCE=FILE"),
        (["cbt=none"], "cbt 'none': no such file"),
        (["cbt={binary}"], "a binary file"),
        (["cbt={wiki}", "cbt={empty}"], "the file holds no text"),
        (["cbt={wiki}", "--output_file={wiki}"], "is also the input of cbt"),
        (["cbt={wiki}", "--output_file={folder}"], "is no ordinary file"),
        (["cbt={wiki}", "--output_file={folder}/no/file"], "its folder does not exist"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(example, files, tmp_path, arguments, message):
    (tmp_path / "binary").write_bytes(b"a\0b")
    (tmp_path / "empty").touch()
    names = {name: tmp_path / name for name in ("binary", "empty")}
    names |= {"folder": tmp_path, "wiki": tmp_path / "wiki.train"}
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(SystemExit) as caught:
        example.run(
            [f"--output_file={tmp_path / 'new'}", *(text.format(**names) for text in arguments)]
        )
    assert str(caught.value).startswith("error: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_interrupted_run_leaves_the_earlier_corpus(example, files, tmp_path, monkeypatch):
    output = tmp_path / "corpus.txt"
    output.write_text("earlier\n")

    def fail(source, lines):
        if lines:
            raise KeyboardInterrupt
        return iter(())

    monkeypatch.setattr(example, "normalize_lines", fail)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt):
        example.run([*files, "--output_file", str(output)])
    assert output.read_text() == "earlier\n"
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.slow
def test_the_real_files_go_through(example, shared_data, tmp_path):
    output = tmp_path / "corpus.txt"
    files = [f"{source}={shared_data / 'babylm_raw' / name}" for source, (name, _) in REAL.items()]
    example.run([*files, "--output_file", str(output)])
    num_words = len(output.read_text(encoding="utf-8").split())
    # A third of CHILDES are notes, codes and marks.
    assert 0.85 < num_words / sum(words for _, words in REAL.values()) < 0.95


def test_help_tells_a_command_and_the_sources(example, capsys):
    with pytest.raises(SystemExit) as ended:
        example.run(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "python examples/normalize_corpus.py" in shown
    assert "simple_wiki" in shown
