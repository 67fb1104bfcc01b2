import pytest
from hypothesis import given
from hypothesis import strategies as st

from modeling_lvbert.evaluation.question_answering.metric import (
    compute_exact,
    compute_f1,
    compute_f1_or_silence,
    find_best_threshold,
    normalize_answer,
    score_question,
    summarize_scores,
)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Cat's\tdog, a (small) one!", "cats dog small one"),
        ("An apple a day", "apple day"),
        ("theatre another", "theatre another"),
        ("the-cat", "thecat"),
        ("U.S. $5.50", "us 550"),
        ("Émile – “so”", "émile – “so”"),
        ("a the an", ""),
        ("\u00a0Zürich\n", "zürich"),
    ],
)
def test_normal_form_has_no_case_punctuation_articles_or_extra_blanks(text, normal):
    assert normalize_answer(text) == normal


@pytest.mark.parametrize(
    ("prediction", "gold", "exact", "f1"),
    [
        ("the old harbour", "Old Harbour.", 1, 1),
        ("old harbour of Ellen", "the harbour", 0, 2 * 1 * (1 / 4) / (1 + 1 / 4)),
        ("red red sea", "red sea sea", 0, 2 / 3),
        ("boat", "bird", 0, 0),
        ("", "bird", 0, 0),
    ],
)
def test_exact_match_and_f1_by_hand(prediction, gold, exact, f1):
    assert compute_exact(prediction, gold) == exact
    assert compute_f1(prediction, gold) == pytest.approx(f1)
    assert compute_f1_or_silence(prediction, gold) == pytest.approx(f1)


def test_two_answers_without_words_agree_in_squad_2_alone():
    assert (compute_exact("the", "A"), compute_f1("the", "A")) == (1, 0)
    assert compute_f1_or_silence("the", "A") == 1


def test_of_several_golds_the_nearest_counts_for_each_measure():
    golds = ["harbour", "the harbour of Port Ellen", "Ellen"]
    exact, f1 = score_question("harbour of Port", golds, False)
    assert exact == 0
    assert f1 == pytest.approx(2 * 3 / (3 + 4))


def test_silence_is_right_where_no_gold_has_words():
    assert score_question("", (), True) == (1, 1)
    assert score_question("", ("the", ""), True) == (1, 1)
    assert score_question("sea", (), True) == (0, 0)
    assert score_question("", ("sea", ""), True) == (0, 0)
    with pytest.raises(ValueError, match="no right answer"):
        score_question("", (), False)


def test_summaries_have_the_official_names_and_parts():
    scores = {"a": (1.0, 1.0), "b": (0.0, 0.5), "c": (1.0, 1.0), "d": (0.0, 0.0)}
    answerable = {"a": True, "b": True, "c": False, "d": False}
    assert summarize_scores(scores, answerable, False) == {"exact_match": 50, "f1": 62.5}
    summary = summarize_scores(scores, answerable, True)
    assert list(summary) == [
        f"{part}{name}" for part in ("", "HasAns_", "NoAns_") for name in ("exact", "f1", "total")
    ]
    assert (summary["HasAns_f1"], summary["NoAns_f1"], summary["total"]) == (75, 50, 4)
    only = summarize_scores({"a": (1.0, 1.0)}, {"a": True}, True)
    assert not any(name.startswith("NoAns") for name in only)


def apply_threshold(threshold, scores, predictions, null_odds, answerable):
    """The score where everything above a threshold is silence, in percent."""
    total = 0.0
    for name in scores:
        if null_odds[name] > threshold:
            total += not answerable[name]
        else:
            total += scores[name] if answerable[name] else not predictions[name]
    return 100 * total / len(scores)


QUESTION = st.tuples(st.booleans(), st.floats(0, 1), st.floats(-9, 9), st.booleans())


@given(st.lists(QUESTION, min_size=1, max_size=8, unique_by=lambda question: question[2]))
def test_no_threshold_is_better_than_the_best(questions):
    names = [str(number) for number in range(len(questions))]
    answerable = dict(zip(names, (q[0] for q in questions), strict=True))
    scores = dict(zip(names, (q[1] for q in questions), strict=True))
    null_odds = dict(zip(names, (q[2] for q in questions), strict=True))
    predictions = dict(zip(names, ("sea" if q[3] else "" for q in questions), strict=True))
    rest = (scores, predictions, null_odds, answerable)
    best, threshold = find_best_threshold(*rest)
    reached = [apply_threshold(odds, *rest) for odds in (-100, *null_odds.values())]
    assert best == pytest.approx(max(reached))
    never_to_answer = 100 * sum(not has for has in answerable.values()) / len(names)
    if best > never_to_answer:
        assert apply_threshold(threshold, *rest) == pytest.approx(best)
    else:
        assert threshold == 0.0
