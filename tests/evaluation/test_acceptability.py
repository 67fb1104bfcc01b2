import json
import random

import pytest

from modeling_lvbert.evaluation.acceptability import (
    exchange_neighbours,
    is_suitable,
    write_task,
)

WORDS = ["red", "green", "blue", "old", "small", "wooden", "heavy", "quiet", "lost", "empty"]
SENTENCES = [f"The {a} and {b} boat is here now." for a in WORDS for b in WORDS]


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("sentence", "suitable"),
    [
        ("The old boat is here now.", True),
        ("If it's well-known, the boat is here!", True),
        ("Too short now.", False),
        ("the old boat is here now.", False),
        ("The old boat is here now", False),
        ("Call f(x) to see the old boat.", False),
        ("The " + "very " * 25 + "old boat.", False),
    ],
)
def test_only_plain_sentences_are_suitable(sentence, suitable):
    assert is_suitable(sentence) == suitable


def test_two_inner_neighbours_change_places_and_nothing_else():
    for seed in range(50):
        before = ["The", "old", "boat", "is", "here", "now."]
        after = exchange_neighbours(" ".join(before), random.Random(seed)).split()
        different = [i for i in range(6) if before[i] != after[i]]
        first, second = different
        assert second == first + 1
        assert first > 0
        assert second < 5
        assert (after[first], after[second]) == (before[second], before[first])


def test_a_sentence_of_equal_words_cannot_be_spoilt():
    with pytest.raises(ValueError, match="no two neighbouring"):
        exchange_neighbours("The boat boat boat now.", random.Random(0))


def test_both_versions_of_a_sentence_are_in_the_same_file(tmp_path):
    numbers = write_task([*SENTENCES, "Not suitable"], tmp_path, 20)
    assert numbers == {"validation": 40, "train": 160}
    words = {}
    for name, count in numbers.items():
        rows = read(tmp_path / f"{name}.jsonl")
        assert len(rows) == count
        assert sum(row["label"] == "acceptable" for row in rows) == count // 2
        words[name] = {tuple(sorted(row["sentence"].split())) for row in rows}
    good = {
        row["sentence"] for row in read(tmp_path / "train.jsonl") if row["label"] == "acceptable"
    }
    assert good <= set(SENTENCES)


def test_the_task_is_the_same_for_the_same_seed(tmp_path):
    for folder, seed, order in (("a", 1, 1), ("b", 1, -1), ("c", 2, 1)):
        write_task(SENTENCES[::order], tmp_path / folder, 20, seed)
    first, second, third = (read(tmp_path / name / "train.jsonl") for name in "abc")
    assert first == second != third


def test_too_few_sentences_are_refused(tmp_path):
    with pytest.raises(ValueError, match="2 suitable sentences"):
        write_task(SENTENCES[:2], tmp_path / "task", 2)
    assert not (tmp_path / "task").exists()
