import datasets
import numpy as np
import pytest
from transformers import EvalPrediction

from modeling_lvbert.evaluation.question_answering.data import Question
from modeling_lvbert.evaluation.question_answering.scorer import AnswerScorer


def test_a_tuned_threshold_is_the_best_one_and_serves_another_scorer():
    questions = [Question(str(n), "?", "sea", ("sea",) if n < 2 else (), None) for n in range(3)]
    windows = datasets.Dataset.from_dict(
        {"question": [0, 1, 2], "offsets": [[(0, 0), (0, 3)]] * 3, "null_position": [0] * 3}
    )
    # Odds 2, 4 and 6: at 0 everything is silence.
    nulls = np.array([[2.0, 0.0], [4.0, 0.0], [6.0, 0.0]])
    prediction = EvalPrediction(predictions=(nulls, nulls * 0), label_ids=np.arange(3))
    options = {"n_best": 3, "max_length": 3, "threshold": 0.0}
    plain = AnswerScorer(questions, windows, **options)
    scores = plain(prediction)
    assert scores["f1"] == pytest.approx(100 / 3)
    assert (scores["best_f1"], scores["best_f1_thresh"]) == (100, 4)
    tuned = AnswerScorer(questions, windows, tunes=True, **options)
    assert tuned(prediction)["f1"] == 100
    assert tuned.threshold == 4
    other = AnswerScorer(questions, windows, tuned=tuned, **options)
    assert other(prediction)["f1"] == 100


def test_rows_may_come_back_in_any_order_and_twice():
    questions = [Question(str(n), "?", "red sea", ("red",), None) for n in range(2)]
    windows = datasets.Dataset.from_dict(
        {"question": [0, 1], "offsets": [[(0, 3), (4, 7)]] * 2, "null_position": [0] * 2}
    )
    logits = np.array([[0.0, 9.0], [9.0, 0.0], [0.0, 9.0]])
    scorer = AnswerScorer(questions, windows, n_best=3, max_length=1, threshold=None)
    scorer(EvalPrediction(predictions=(logits, logits), label_ids=np.array([1, 0, 1])))
    assert [answer.best for answer in scorer.answers.values()] == ["red", "sea"]
