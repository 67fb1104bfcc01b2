import json

import pytest

from modeling_lvbert.evaluation.tagging.data import Columns, Sentence, parse_conll, read_sentences

SENTENCES = [
    Sentence(("Anna", "Berg", "built", "it", "."), ("B-PER", "I-PER", "O", "O", "O")),
    Sentence(("In", "Oslo"), ("O", "B-LOC")),
]


def write(path, text):
    path.write_text(text, encoding="utf-8", newline="")
    return str(path)


def read(path, text, *, has_tags=True, **columns):
    return read_sentences("train_file", write(path, text), Columns(**columns), has_tags=has_tags)


def conll(separator=" ", between=("NNP", "I-NP"), end="\n"):
    lines = []
    for sentence in SENTENCES:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            lines.append(separator.join([word, *between, tag]))
        lines.append("")
    return end.join(lines)


@pytest.mark.parametrize(
    "text",
    [
        conll(),
        conll(between=()),
        conll("\t", ()),
        conll("   "),
        conll(" \t "),
        conll(end="\r\n"),
        "\ufeff" + conll(),
        "\n\n" + conll() + "\n\n\n",
        "-DOCSTART- -X- -X- O\n\n" + conll(),
        "-DOCSTART- -X- O O\n" + conll().replace("\n\n", "\n-DOCSTART- -X- O O\n \n", 1),
        "# id = 1\n" + conll("\t").replace("\n\n", "\n\n# text = x\n", 1),
        conll().rstrip(),
    ],
)
def test_conll_files_of_all_kinds_give_the_same_sentences(tmp_path, text):
    assert read(tmp_path / "data.conll", text) == SENTENCES


def test_tables_give_the_same_sentences(tmp_path):
    rows = [{"id": n, "tokens": s.words, "ner_tags": s.tags} for n, s in enumerate(SENTENCES)]
    texts = {
        "lines.jsonl": "\n".join(json.dumps(row) for row in rows),
        "list.json": json.dumps(rows),
        "cells.csv": "tokens,ner_tags\n"
        + "".join(f"{' '.join(s.words)},{' '.join(s.tags)}\n" for s in SENTENCES),
        "lists.csv": "tokens,ner_tags\n"
        + "".join(
            ",".join(
                '"' + json.dumps(cells).replace('"', '""') + '"' for cells in (s.words, s.tags)
            )
            + "\n"
            for s in SENTENCES
        ),
    }
    for name, text in texts.items():
        assert read(tmp_path / name, text) == SENTENCES, name


def test_words_are_not_parted_at_what_unicode_calls_blanks_or_line_ends():
    odd = ["\u00a0", "a\u2028b", "\x85", "\x0c", "\x1c", "#", "日本", "👩\u200d🚀"]
    text = "".join(f"{word} O\n" for word in odd)
    (sentence,) = parse_conll("file", text, None, has_tags=True)
    assert list(sentence.words) == odd
    (sentence,) = parse_conll("file", text.replace(" ", "\t"), None, has_tags=True)
    assert list(sentence.words) == odd


def test_with_tabs_words_may_have_blanks():
    (sentence,) = parse_conll("file", "New York\tB-LOC\n, \tO\n", None, has_tags=True)
    assert sentence == Sentence(("New York", ","), ("B-LOC", "O"))


def test_another_column_may_be_the_tag_s(tmp_path):
    assert read(tmp_path / "a.txt", conll(), number=2)[1].tags == ("NNP", "NNP")
    rows = json.dumps([{"text": ["a"], "words": ["b"], "pos_tags": [3], "x": ["y"]}])
    assert read(tmp_path / "a.json", rows, task_name="pos") == [Sentence(("b",), ("3",))]
    found = read(tmp_path / "a.json", rows, words="text", tags="x")
    assert found == [Sentence(("a",), ("y",))]


def test_test_data_may_have_no_tags(tmp_path):
    words = [Sentence(sentence.words, None) for sentence in SENTENCES]
    text = "\n\n".join("\n".join(sentence.words) for sentence in SENTENCES)
    assert read(tmp_path / "a.conll", text, has_tags=False) == words
    assert read(tmp_path / "a.conll", conll(), has_tags=False) == SENTENCES
    rows = json.dumps([{"tokens": sentence.words} for sentence in SENTENCES])
    assert read(tmp_path / "a.json", rows, has_tags=False) == words


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.conll", "", "no words"),
        ("a.conll", "-DOCSTART- O\n\n", "no words"),
        ("a.conll", "Anna\nBerg\n", "line 1 has 1 columns: at least 2 are needed"),
        ("a.conll", "Anna N O\nBerg O\n", "line 2 has 2 columns, the first has 3: .*label_column"),
        ("a.conll", "Anna\tO\nBerg\t\n", "line 2 has|no tag"),
        ("a.json", '[{"tokens": ["a", "b"], "ner_tags": ["O"]}]', "row 1 has 2 words but 1 tags"),
        ("a.json", '[{"tokens": ["a"], "ner_tags": [""]}]', "row 1 has an empty tag"),
        ("a.json", '[{"tokens": ["a"]}]', "no column ner_tags; columns: .'tokens'. .label_column"),
        ("a.json", '[{"text": ["a"]}]', "no column tokens or words; columns: .'text'."),
        ("a.json", '[{"tokens": "a b", "ner_tags": ["O"]}]', "row 1 must have a list of texts"),
        ("a.json", '[{"tokens": [null], "ner_tags": ["O"]}]', "row 1 must have a list of texts"),
        ("a.json", '[{"tokens": ["\\ud83d"], "ner_tags": ["O"]}]', "row 1 has half a character"),
        ("a.csv", "tokens,ner_tags\n\"['a' 'b']\",O O\n", "a list must be in JSON's form"),
    ],
)
def test_damaged_files_are_refused(tmp_path, name, text, message):
    with pytest.raises(ValueError, match=f"train_file .*{name}'.*({message})"):
        read(tmp_path / name, text)


def test_missing_files_are_refused(tmp_path):
    for name in ("gone.conll", "gone.json"):
        with pytest.raises(ValueError, match="no such file"):
            read_sentences("train_file", str(tmp_path / name), Columns(), has_tags=True)
    with pytest.raises(ValueError, match="is a folder"):
        read_sentences("train_file", str(tmp_path), Columns(), has_tags=True)
    (tmp_path / "a.conll").write_bytes(b"\xff\xfe O")
    with pytest.raises(ValueError, match="cannot be read"):
        read_sentences("train_file", str(tmp_path / "a.conll"), Columns(), has_tags=True)
