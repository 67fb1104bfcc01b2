import gzip
import json
import lzma
import os
import signal
import subprocess
import sys
from pathlib import Path

import datasets
import pytest

from modeling_lvbert.pretraining.corpus import (
    check_file,
    iterate_documents,
    load_corpus,
    load_file,
    split_documents,
    split_sentences,
)

TEXT = "\ufeffFirst line .\nSecond line .\n\n \nAnother document .\r\n\r\nThird , café .\n"
DOCUMENTS = ["First line .\nSecond line .", "Another document .", "Third , café ."]


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        data = content if isinstance(content, bytes) else content.encode()
        opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
        with opener(path, "wb") as file:
            file.write(data)
        return str(path)

    return write


@pytest.mark.parametrize("name", ["a.txt", "a.train", "a.txt.gz", "a.txt.xz"])
def test_blank_lines_part_the_documents_of_a_text_file(write, name):
    assert load_file("train_file", write(name, TEXT))["text"] == DOCUMENTS


def test_a_long_document_is_cut_and_no_line_is_lost(write):
    lines = [f"Line {number} ." for number in range(2500)]
    documents = load_file("train_file", write("a.txt", "\n".join(lines)))["text"]
    assert len(documents) == 3
    assert "\n".join(documents).splitlines() == lines


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"text": "One ."}\n{"text": " "}\n{"text": "Two ."}\n'),
        ("a.json", json.dumps([{"text": "One ."}, {"text": None}, {"text": "Two ."}])),
        ("a.csv", 'id,text\n1,One .\n2,""\n3,Two .\n'),
        ("a.csv", 'id,body\n1,One .\n3,"Two ."\n'),
    ],
)
def test_a_row_of_a_table_is_a_document(write, name, content):
    assert load_file("train_file", write(name, content))["text"] == ["One .", "Two ."]


def test_the_column_can_be_named(write):
    path = write("a.jsonl", '{"text": "no", "body": "One ."}\n{"text": "no", "body": "Two ."}\n')
    assert load_file("train_file", path, "body")["text"] == ["One .", "Two ."]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.txt", "", "holds no text"),
        ("blank.txt", " \n\n \n", "holds no text"),
        ("binary.txt", b"some text\0and more", "a binary file"),
        ("latin.txt", "café".encode("latin-1"), "not UTF-8 text"),
        ("cut.txt", "café".encode()[:-1], "not UTF-8 text"),
        ("a.json", "{not json", "not a valid json file"),
        ("columns.csv", "a,b\nx,y\n", r"text_column_name None must be one of \['a', 'b'\]"),
        ("numbers.csv", "a,b\n1,2\n", r"must be one of \[\]"),
        ("header.csv", "id,text\n", r"not a valid csv file \(it has no row\)"),
        ("none.json", "[]", r"not a valid json file \(it has no row\)"),
        ("ragged.csv", "a,text\n1,x\n2,y,z\n", r"not a valid csv file \(.*line 3"),
        ("blank.jsonl", '{"text": " "}\n', "no row has text in its column 'text'"),
    ],
)
def test_a_bad_file_is_refused(write, name, content, message):
    path = write(name, content)
    with pytest.raises(ValueError, match=message) as caught:
        load_file("train_file", path)
    assert str(caught.value).startswith("train_file ")
    assert path in str(caught.value)


def test_a_wrong_column_is_named_with_those_there_are(write):
    path = write("a.csv", "id,text\n1,One .\n")
    with pytest.raises(ValueError, match=r"text_column_name 'body' must be one of \['text'\]"):
        load_file("train_file", path, "body")


@pytest.mark.parametrize(("name", "data"), [("a.txt.gz", b"plain"), ("a.txt.xz", b"plain")])
def test_a_damaged_archive_is_refused(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match="cannot be read"):
        check_file("train_file", str(tmp_path / name))


def test_a_truncated_archive_is_refused(write, tmp_path):
    whole = Path(write("a.txt.gz", "text " * 1000)).read_bytes()
    (tmp_path / "b.txt.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="cannot be read"):
        check_file("train_file", str(tmp_path / "b.txt.gz"))


@pytest.mark.parametrize("name", ["a.txt", "a.csv"])
def test_a_file_that_may_not_be_read_is_refused(write, monkeypatch, name):
    path = write(name, "text\nOne .\n")

    def refuse(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("modeling_lvbert.pretraining.corpus._open", refuse)
    with pytest.raises(ValueError, match=f"train_file '.*{name}': cannot be read .*denied"):
        load_corpus(train_file=path)


def test_lines_end_as_in_any_text_file_and_at_no_other_character(write):
    text = "One\u2028more .\r\nTwo .\rThree .\n\nFour ."
    assert load_file("train_file", write("a.txt", text))["text"] == [
        "One\u2028more .\nTwo .\nThree .",
        "Four .",
    ]


def test_a_missing_file_or_a_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no such file"):
        load_corpus(train_file=str(tmp_path / "none.txt"))
    with pytest.raises(ValueError, match="is a folder"):
        load_corpus(train_file=str(tmp_path))


def test_changed_content_under_the_same_name_is_read_anew(write):
    assert load_file("train_file", write("a.txt", "Old .\n"))["text"] == ["Old ."]
    assert load_file("train_file", write("a.txt", "New .\n"))["text"] == ["New ."]


KILLED_SCRIPT = """
import os, signal, sys
from modeling_lvbert.pretraining import corpus

open_lines = corpus.open_lines

class Lines:
    def __enter__(self):
        return self
    def __exit__(self, *error):
        pass
    def __iter__(self):
        for number, line in enumerate(open_lines(sys.argv[1])):
            if number == int(sys.argv[2]):
                os.kill(os.getpid(), signal.SIGKILL)
            yield line

corpus.open_lines = lambda path: Lines()
documents = corpus.load_file("train_file", sys.argv[1])
print(len(documents), documents[-1]["text"])
"""


@pytest.mark.slow
def test_a_file_whose_reading_was_killed_is_read_whole_the_next_time(write, tmp_path):
    path = write("a.txt", "".join(f"Line {number} .\n\n" for number in range(5000)))
    environment = {**os.environ, "HF_DATASETS_CACHE": str(tmp_path / "cache")}
    for fatal in ("9000", "-1"):
        result = subprocess.run(
            [sys.executable, "-c", KILLED_SCRIPT, path, fatal],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        assert result.returncode == (-signal.SIGKILL if fatal == "9000" else 0), result.stderr
        # The killed process left what it had written.
        assert list((tmp_path / "cache").rglob("*.arrow")) != []
    assert result.stdout == "5000 Line 4999 .\n"


def test_a_file_is_read_anew_when_the_code_has_changed(write, monkeypatch):
    path, names = write("a.txt", TEXT), []
    for code in ("old", "old", "new"):
        monkeypatch.setattr(
            "modeling_lvbert.pretraining.corpus.hash_code", lambda *modules, code=code: code
        )
        names.append(load_file("train_file", path).cache_files[0]["filename"])
    assert names[0] == names[1] != names[2]


def test_the_split_is_fixed_and_a_partition():
    documents = datasets.Dataset.from_dict({"text": [f"Document {i} ." for i in range(200)]})
    first, second = (split_documents(documents, 5) for _ in range(2))
    assert len(first["validation"]) == 10
    assert first["validation"]["text"] == second["validation"]["text"]
    assert sorted([*first["train"]["text"], *first["validation"]["text"]]) == sorted(
        documents["text"]
    )
    # Not the end of the file.
    assert first["validation"]["text"] != documents["text"][-10:]


def test_two_documents_leave_one_for_each_split():
    split = split_documents(datasets.Dataset.from_dict({"text": ["One .", "Two ."]}), 90)
    assert (len(split["train"]), len(split["validation"])) == (1, 1)


def test_a_single_document_is_cut_at_a_line(write):
    split = load_corpus(train_file=write("a.txt", "One .\nTwo .\nThree .\n"))
    assert sorted([*split["train"]["text"], *split["validation"]["text"]]) == [
        "One .",
        "Three .",
        "Two .",
    ]


def test_a_single_line_needs_a_validation_file(write):
    path = write("a.txt", "One line .\n")
    with pytest.raises(ValueError, match="a single line"):
        load_corpus(train_file=path)
    given = load_corpus(train_file=path, validation_file=write("b.txt", "Another .\n"))
    assert given["train"]["text"] == ["One line ."]
    assert given["validation"]["text"] == ["Another ."]


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({"train_file": "a.txt", "dataset_name": "b"}, "only one may be given"),
        ({"validation_file": "a.txt"}, "needs a train_file"),
    ],
)
def test_contradictory_sources_are_refused(sources, message):
    with pytest.raises(ValueError, match=message):
        load_corpus(**sources)


@pytest.mark.parametrize("percentage", [0, 100, -3])
def test_a_percentage_out_of_range_is_refused(percentage):
    with pytest.raises(ValueError, match="between 0 and 100"):
        split_documents(datasets.Dataset.from_dict({"text": ["a", "b"]}), percentage)


def test_a_hub_data_set_gives_its_splits(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"text": "One ."}\n{"text": "Two ."}\n')
    (tmp_path / "validation.jsonl").write_text('{"text": "Three ."}\n')
    corpus = load_corpus(dataset_name=str(tmp_path))
    assert corpus["train"]["text"] == ["One .", "Two ."]
    assert corpus["validation"]["text"] == ["Three ."]


def test_sentences_are_cut_at_their_ends():
    text = "One is here. Two, e.g. this one, is not! Three?"
    assert split_sentences(text) == ["One is here.", "Two, e.g. this one, is not!", "Three?"]


def test_reading_keeps_one_document_in_memory_at_a_time(write):
    path = write("a.txt", "One .\n\nTwo .\n\nThree .\n")
    assert next(iterate_documents(path)) == {"text": "One ."}
