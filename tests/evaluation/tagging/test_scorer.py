import datasets
import numpy as np
import pytest
from transformers import EvalPrediction

from modeling_lvbert.evaluation.tagging.data import Sentence
from modeling_lvbert.evaluation.tagging.scorer import TagScorer

pytest.importorskip("seqeval")


def test_rows_may_come_back_in_any_order_and_twice():
    rows = datasets.Dataset.from_dict(
        {"sentence": [0, 0, 1], "tokens_read": [[1], [2], [1]], "words_read": [[0], [1], [0]]}
    )
    sentences = [Sentence(("a", "b"), ("B-X", "O")), Sentence(("c",), ("O",))]
    scorer = TagScorer(sentences, rows, ["O", "B-X"], by_type=False)
    best = np.array([[-9, 0, 1], [-9, 1, 1], [-9, 0, 0], [-9, 1, 1]])
    losses = np.array([4.0, 1.0, 4.0, 1.0])
    scores = scorer(EvalPrediction(predictions=(best, losses), label_ids=np.array([2, 0, 1, 0])))
    assert scorer.predicted == [["B-X", "O"], ["O"]]
    assert (scores["f1"], scores["loss"]) == (1, 3)


def test_words_with_blanks_stay_one_word_of_the_file(tmp_path):
    words = ("New\u00a0York", "a\u2028b", " ", "c d")
    scorer = TagScorer(
        [Sentence(words, None)],
        datasets.Dataset.from_dict({"sentence": [], "tokens_read": [], "words_read": []}),
        ["O"],
        by_type=False,
    )
    scorer.predicted = [["O"] * 4]
    scorer.write(tmp_path, "predict")
    assert (tmp_path / "predictions.txt").read_text() == "New_York O\na_b O\n_ O\nc_d O\n\n"
