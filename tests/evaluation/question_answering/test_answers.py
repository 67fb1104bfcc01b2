import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modeling_lvbert.evaluation.question_answering.answers import find_answers, list_spans
from modeling_lvbert.evaluation.question_answering.data import Question

CONTEXT = "red sea old boat"
OFFSETS = [(0, 0), (0, 3), (4, 7), (8, 11), (12, 16), (0, 0)]
QUESTIONS = [Question("q", "What?", CONTEXT, ("red sea",), (0, 7))]


def window(question=0, offsets=OFFSETS, null_position=0):
    return {"question": question, "offsets": offsets, "null_position": null_position}


def answer(starts, ends, windows=None, questions=QUESTIONS, **options):
    settings = {"n_best": 20, "max_length": 30, "with_negative": True, **options}
    windows = windows or [window()]
    return find_answers(
        questions, windows, np.array(starts, float), np.array(ends, float), **settings
    )


@given(st.data())
def test_spans_are_the_best_of_all_that_are_allowed(data):
    length = data.draw(st.integers(1, 7))
    logits = st.lists(st.integers(-3, 3), min_size=length, max_size=length)
    starts, ends = np.array(data.draw(logits)), np.array(data.draw(logits))
    allowed = np.array(data.draw(st.lists(st.booleans(), min_size=length, max_size=length)))
    n_best, longest = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    every = [
        (start, end)
        for start in range(length)
        for end in range(start, min(length, start + longest))
        if allowed[start] and allowed[end]
    ]
    every.sort(key=lambda span: (-(starts[span[0]] + ends[span[1]]), span))
    assert list_spans(starts, ends, allowed, n_best, longest) == every[:n_best]


def test_the_best_span_is_the_answer_as_the_context_has_it():
    (found,) = answer([[0, 1, 5, 0, 0, 99]], [[0, 0, 0, 4, 3, 99]])
    assert found.best == "sea old"
    assert found.null_odds == 0 - 9
    assert found.choose(None) == found.choose(0.0) == "sea old"
    assert found.choose(-9.0) == "sea old"
    assert found.choose(-9.5) == ""


def test_answers_have_no_more_tokens_than_allowed():
    starts, ends = [[0, 9, 0, 0, 0, 0]], [[0, 0, 0, 0, 9, 0]]
    assert answer(starts, ends)[0].best == CONTEXT
    assert answer(starts, ends, max_length=4)[0].best == CONTEXT
    assert len(answer(starts, ends, max_length=3)[0].best) < len(CONTEXT)


def test_the_n_best_are_sorted_and_their_probabilities_sum_to_one():
    (found,) = answer([[1, 3, 2, 0, 0, 0]], [[1, 0, 2, 0, 3, 0]], n_best=4)
    scores = [candidate.score for candidate in found.candidates]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 4
    assert sum(candidate.probability for candidate in found.candidates) == pytest.approx(1)
    ratio = found.candidates[0].probability / found.candidates[1].probability
    assert ratio == pytest.approx(np.exp(scores[0] - scores[1]))


def test_silence_is_among_the_candidates_only_where_it_is_allowed():
    starts, ends = [[-50, 3, 2, 1, 1, 0]], [[-50, 1, 2, 0, 3, 0]]
    (found,) = answer(starts, ends, n_best=3)
    assert [candidate.text for candidate in found.candidates][-1] == ""
    assert len(found.candidates) == 3
    (found,) = answer(starts, ends, n_best=3, with_negative=False)
    assert all(candidate.text for candidate in found.candidates)


def test_a_span_of_several_windows_counts_once_with_its_best_score():
    starts = [[0, 5, 0, 0, 0, 0], [0, 7, 0, 0, 0, 0]]
    ends = [[0, 5, 0, 0, 0, 0], [0, 7, 0, 0, 0, 0]]
    (found,) = answer(starts, ends, [window(), window()])
    texts = [candidate.text for candidate in found.candidates]
    assert texts.count("red") == 1
    assert found.candidates[0].score == 14


def test_the_window_that_is_least_sure_of_silence_decides():
    starts, ends = (
        [[8, 1, 0, 0, 0, 0], [2, 1, 0, 0, 0, 0]],
        [[8, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]],
    )
    (found,) = answer(starts, ends, [window(), window()])
    assert found.null_odds == 3 - 2


def test_windows_belong_to_their_questions_in_any_order():
    questions = [*QUESTIONS, Question("r", "What?", "boat", (), None)]
    windows = [window(1, [(0, 0), (0, 4)]), window(0, OFFSETS)]
    starts = [[0, 1, 99, 99, 99, 99], [0, 0, 1, 0, 0, 0]]
    first, second = answer(starts, starts, windows, questions)
    assert (first.best, second.best) == ("sea", "boat")


def test_a_context_without_tokens_gives_silence():
    (found,) = answer([[1, 0]], [[1, 0]], [window(0, [(0, 0), (0, 0)])], with_negative=False)
    assert (found.best, found.candidates) == ("", ())
    (found,) = answer([[1, 0]], [[1, 0]], [window(0, [(0, 0), (0, 0)])])
    assert found.choose(1e9) == ""
    assert np.isfinite(found.null_odds)
    assert [candidate.probability for candidate in found.candidates] == [1.0]


def test_a_diverged_model_is_told_and_gives_finite_numbers(caplog):
    broken = [[np.nan, np.inf, 0, -np.inf, 0, 0]]
    with caplog.at_level(logging.WARNING):
        (found,) = answer(broken, broken)
    assert "diverged" in caplog.text
    assert np.isfinite(found.null_odds)
    assert all(np.isfinite(candidate.probability) for candidate in found.candidates)
