"""Reading of minimal pairs, and what their verdicts are summed up to."""

import json
import random

import pytest

from modeling_lvbert.evaluation.minimal_pairs.pairs import (
    MinimalPair,
    Tally,
    judge,
    read_pairs,
    summarize,
    tally,
)
from modeling_lvbert.evaluation.minimal_pairs.table import format_table, read_published


def write(folder, name, *rows):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)
    )
    return path


def row(good="A cat sleeps.", bad="A cat sleep.", **more):
    return {"sentence_good": good, "sentence_bad": bad, **more}


def test_pairs_have_the_names_that_their_lines_give(tmp_path):
    named = {"UID": "anaphor", "field": "syntax/semantics", "linguistics_term": "binding"}
    write(tmp_path, "any.jsonl", row(**named), row("B", "C", **{**named, "field": "morphology"}))
    first, second = read_pairs(tmp_path)
    assert first.good == "A cat sleeps."
    assert first.bad == "A cat sleep."
    assert (first.paradigm, first.field, first.term) == ("anaphor", "syntax_semantics", "binding")
    assert (second.good, second.bad, second.field) == ("B", "C", "morphology")
    assert first.place == f"{tmp_path / 'any.jsonl'}, line 1"


def test_files_without_names_are_paradigms_of_their_own(tmp_path):
    text = row("What did you get?\nI got a chair.", "What did you get?\nI got\u2028a teacher.")
    write(tmp_path, "sub/turn_taking.jsonl", "\ufeff" + json.dumps(text, ensure_ascii=False), "")
    write(tmp_path, "other.jsonl", json.dumps(row()) + "\r", row(field=None))
    write(tmp_path, ".hidden.jsonl", "no pair")
    write(tmp_path, "readme.txt", "no pair")
    pairs = read_pairs(tmp_path)
    assert [pair.paradigm for pair in pairs] == ["other", "other", "turn_taking"]
    assert pairs[2].good == text["sentence_good"]
    assert pairs[2].bad == text["sentence_bad"]
    assert {(pair.field, pair.term) for pair in pairs} == {(None, None)}


@pytest.mark.parametrize(
    ("bad_row", "reason"),
    [
        ("{", "no JSON"),
        ([], "a JSON object is needed, got list"),
        ({"sentence_good": "A."}, "sentence_bad must be a sentence, got None"),
        (row(good=" \n"), "sentence_good must be a sentence, got ' "),
        (row(bad=3), "sentence_bad must be a sentence, got 3"),
        (row(UID=5), "UID must be a string, got 5"),
    ],
)
def test_a_line_that_is_no_pair_is_refused_by_its_place(tmp_path, bad_row, reason):
    path = write(tmp_path, "pairs.jsonl", row(), "", bad_row)
    with pytest.raises(ValueError, match="line 3") as caught:
        read_pairs(tmp_path)
    assert str(caught.value).startswith(f"{path}, line 3: {reason}")


def test_folders_without_pairs_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"a folder of \.jsonl files is needed"):
        read_pairs(tmp_path / "absent")
    with pytest.raises(ValueError, match=r"no \.jsonl file"):
        read_pairs(tmp_path)
    write(tmp_path, "empty.jsonl", "")
    with pytest.raises(ValueError, match="has no pairs"):
        read_pairs(tmp_path)


def test_a_paradigm_in_two_files_is_refused(tmp_path):
    write(tmp_path, "a/same.jsonl", row())
    write(tmp_path, "b/same.jsonl", row())
    with pytest.raises(ValueError, match=r"paradigm 'same' is in .*a.same.* and in .*b.same"):
        read_pairs(tmp_path)


@pytest.mark.parametrize(
    ("good", "bad", "verdict"),
    [(-3.0, -4.0, 1.0), (-4.0, -3.0, 0.0), (-3.0, -3.0, 0.5), (-30.0, -30.000001, 0.5),
     (-30.0, -30.0001, 1.0), (0.0, 0.0, 0.5)],
)  # fmt: skip
def test_a_tie_is_neither(good, bad, verdict):
    assert judge(good, bad) == verdict


def pair(paradigm, field=None, term=None):
    return MinimalPair("good", "bad", paradigm, field, term)


def test_accuracies_are_means_over_paradigms():
    pairs = [pair("a", "x", "t"), pair("b", "x", "u"), pair("b", "x", "u"), pair("c"), pair("c")]
    results = summarize(pairs, [1.0, 0.0, 0.5, 1.0, 0.5])
    assert results.by_paradigm == {
        "a": Tally(1.0, 0, 1), "b": Tally(0.25, 1, 2), "c": Tally(0.75, 1, 2),
    }  # fmt: skip
    assert results.by_field == {"x": Tally(0.625, 1, 3)}
    assert results.by_term == {"t": Tally(1.0, 0, 1), "u": Tally(0.25, 1, 2)}
    assert results.overall == Tally(2 / 3, 2, 5)


def test_two_paradigms_of_three_pairs_have_the_mean_of_both():
    pairs = [pair("a")] * 3 + [pair("b")] * 3
    results = summarize(pairs, [1.0, 1.0, 0.0, 0.0, 0.0, 1.0])
    assert results.by_paradigm["a"].accuracy == pytest.approx(2 / 3)
    assert results.overall == Tally(pytest.approx(0.5), 0, 6)


def test_the_order_of_pairs_does_not_matter():
    rng = random.Random(0)
    pairs = [pair(rng.choice("abc"), rng.choice(["x", None])) for _ in range(50)]
    verdicts = [rng.choice([0.0, 0.5, 1.0]) for _ in pairs]
    order = rng.sample(range(50), 50)
    moved = summarize([pairs[n] for n in order], [verdicts[n] for n in order])
    assert moved == summarize(pairs, verdicts)


def test_only_ties_are_exactly_one_half():
    assert tally([pair(name) for name in "aabcc"], [0.5] * 5) == Tally(0.5, 5, 5)


MODELS = [
    {"UID": "a", "linguistics_term": "t", "lstm": 0.8, "gpt2": 0.9},
    {"UID": "b", "linguistics_term": "t", "lstm": 0.4, "gpt2": 0.5},
    {"UID": "overall", "linguistics_term": "t", "lstm": 0.1, "gpt2": 0.1},
]
HUMANS = '"Condition","accepted","total_mean","count"\n"a",5,0.94,100\n'


def test_published_figures_stand_beside_those_of_the_same_paradigms(tmp_path):
    models = str(write(tmp_path, "models.jsonl", *MODELS))
    (tmp_path / "humans.csv").write_text(HUMANS)
    published = read_published(models, str(tmp_path / "humans.csv"))
    pairs = [pair("a", "x", "t"), pair("b", "y", "t")]
    results = summarize(pairs, [1.0, 0.5])
    lines = [line.split() for line in format_table(results, pairs, published).splitlines()]
    assert lines[0] == ["pairs", "ties", "model", "lstm", "gpt2", "human"]
    assert lines[1:-2] == [
        ["overall", "2", "1", "75.0", "60.0", "70.0", "-"],
        ["field"],
        ["x", "1", "0", "100.0", "80.0", "90.0", "94.0"],
        ["y", "1", "1", "50.0", "40.0", "50.0", "-"],
        ["term"],
        ["t", "2", "1", "75.0", "60.0", "70.0", "-"],
    ]
    plain = format_table(results, pairs, read_published(None, None))
    assert plain.splitlines()[1].split() == ["overall", "2", "1", "75.0"]
    assert "published" not in plain


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", '{"lstm": 0.5}', '{"UID": "a", "x": "y"}'])
def test_other_files_are_no_published_figures(tmp_path, text):
    path = str(write(tmp_path, "models.jsonl", text))
    with pytest.raises(ValueError, match="published_models_summary .* is not BLiMP's"):
        read_published(path, None)
    with pytest.raises(ValueError, match="published_human_summary .* is not BLiMP's"):
        read_published(None, path)
    with pytest.raises(ValueError, match="published_human_summary .* is not BLiMP's"):
        read_published(None, str(tmp_path))


@pytest.mark.slow
def test_blimp_as_it_is_published(shared_data, tmp_path):
    import tarfile

    folder = shared_data / "blimp"
    with tarfile.open(folder / "blimp_67x100.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    pairs = read_pairs(tmp_path)
    results = summarize(pairs, [1.0] * len(pairs))
    assert results.overall == Tally(1.0, 0, 6700)
    assert len(results.by_paradigm) == 67
    assert len(results.by_field) == 4
    assert len(results.by_term) == 13
    published = read_published(
        str(folder / "published_models_summary.jsonl"),
        str(folder / "published_human_validation_summary.csv"),
    )
    assert set(results.by_paradigm) <= set(published["gpt2"])
    # The paper's table 3.
    overall = format_table(results, pairs, published).splitlines()[1].split()
    assert overall == ["overall", "6700", "0", "100.0", "61.2", "69.8", "69.6", "83.0", "88.6"]
    supplement = read_pairs(folder / "babylm_supplement")
    assert len(supplement) == 64 + 165 + 280
    assert summarize(supplement, [0.0] * len(supplement)).by_field == {}
