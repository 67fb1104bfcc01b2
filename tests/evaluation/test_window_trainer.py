import numpy as np
from transformers import EvalPrediction

from modeling_lvbert.evaluation.window_trainer import sort_by_row


def test_rows_are_sorted_and_count_once():
    rows = np.array([2, 0, 1, 0, 2])
    values = rows * 10
    tables = np.stack([values, values + 1], axis=1)
    for predictions in (values, (values, tables)):
        first, *rest = sort_by_row(EvalPrediction(predictions=predictions, label_ids=rows))
        assert first.tolist() == [0, 10, 20]
        assert [part.tolist() for part in rest] == [[[0, 1], [10, 11], [20, 21]]] * len(rest)
