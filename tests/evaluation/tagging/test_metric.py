import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modeling_lvbert.evaluation.tagging.metric import (
    is_entity_scheme,
    list_metrics,
    score_entities,
    score_words,
)

TAGS = ["O", "B-PER", "I-PER", "E-PER", "S-PER", "B-LOC", "I-LOC", "B-a-b"]


@pytest.fixture(scope="module")
def seqeval():
    return pytest.importorskip("seqeval.metrics")


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(TAGS)), min_size=1, max_size=6),
        min_size=1,
        max_size=4,
    )
)
def test_scores_are_seqeval_s(seqeval, pairs):
    gold = [[right for right, _ in sentence] for sentence in pairs]
    predicted = [[given for _, given in sentence] for sentence in pairs]
    scores = score_entities(gold, predicted, False)
    for name in ("precision", "recall", "f1"):
        theirs = getattr(seqeval, f"{name}_score")(gold, predicted, zero_division=0)
        assert scores[name] == pytest.approx(theirs)
    assert scores["accuracy"] == pytest.approx(seqeval.accuracy_score(gold, predicted))
    by_type = score_entities(gold, predicted, True)
    assert [by_type[f"overall_{name}"] for name in scores] == list(scores.values())


@pytest.mark.parametrize(
    "tags",
    [
        ["I-PER", "I-PER", "O", "I-LOC", "B-LOC"],
        ["B-PER", "I-PER", "O", "B-LOC", "B-LOC"],
        ["B-PER", "E-PER", "O", "S-LOC", "S-LOC"],
    ],
    ids=["IOB1", "IOB2", "BIOES"],
)
def test_every_scheme_has_the_same_entities(seqeval, tags):
    # One of two persons is right, one place too short, one missing.
    other = ["B-PER", "I-PER", "O", "O", "B-LOC"]
    scores = score_entities([tags], [other], True)
    assert scores["PER_f1"] == 1
    assert (scores["LOC_precision"], scores["LOC_recall"], scores["LOC_number"]) == (1, 0.5, 2)
    assert scores["overall_precision"] == 1
    assert scores["overall_recall"] == pytest.approx(2 / 3)


def test_no_entities_score_nothing(seqeval):
    scores = score_entities([["O", "O"], []], [["O", "O"], []], False)
    assert scores == {"precision": 0, "recall": 0, "f1": 0, "accuracy": 1}


def test_words_without_entities_have_accuracy():
    assert score_words([["N", "V"], [], ["N"]], [["N", "N"], [], ["N"]]) == pytest.approx(2 / 3)
    assert list_metrics(False, False) == ["accuracy"]


def test_the_kind_of_tags_is_seen():
    assert is_entity_scheme(["O", "B-PER", "I-PER"])
    assert is_entity_scheme(["S-PER", "E-PER"])
    assert not is_entity_scheme(["NOUN", "VERB", "O"])
    with pytest.raises(ValueError, match="'L-PER', 'U-PER'. are none of IOB or BIOES"):
        is_entity_scheme(["O", "B-PER", "I-PER", "L-PER", "U-PER"])


def test_without_seqeval_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "seqeval.metrics", None)
    with pytest.raises(ImportError, match=r"need seqeval .*pip install 'lvbert\[evaluation\]'"):
        score_entities([["B-PER"]], [["O"]], False)
