import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import EvalPrediction, PreTrainedTokenizerFast

from modeling_lvbert.evaluation.windows import (
    check_fast_tokenizer,
    choose_windows,
    sort_by_row,
    write_json,
)
from tests.evaluation.small_models import make_tokenizer


@given(st.integers(1, 30), st.integers(1, 9), st.integers(1, 9))
def test_every_unit_is_in_one_window_with_the_most_around_it(length, size, step):
    step = min(step, size)
    windows = [range(start, min(start + size, length)) for start in range(0, length, step)]
    chosen = choose_windows(windows)
    assert sorted(unit for units in chosen for unit in units) == list(range(length))

    def margin(window, unit):
        return min(unit - window.start, window.stop - 1 - unit) if unit in window else -1

    for number, units in enumerate(chosen):
        for unit in units:
            margins = [margin(window, unit) for window in windows]
            assert margins.index(max(margins)) == number


def test_rows_are_sorted_and_count_once():
    rows = np.array([2, 0, 1, 0, 2])
    values = rows * 10
    tables = np.stack([values, values + 1], axis=1)
    for predictions in (values, (values, tables)):
        first, *rest = sort_by_row(EvalPrediction(predictions=predictions, label_ids=rows))
        assert first.tolist() == [0, 10, 20]
        assert [part.tolist() for part in rest] == [[[0, 1], [10, 11], [20, 21]]] * len(rest)


def test_files_are_whole_and_keep_characters(tmp_path):
    write_json(tmp_path / "a.json", {"q": "Zürich 😀\r\n"})
    before = (tmp_path / "a.json").read_bytes()
    assert "Zürich 😀" in before.decode()
    assert json.loads(before) == {"q": "Zürich 😀\r\n"}
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"q": float("nan")})
    assert (tmp_path / "a.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_tokenizers_that_cannot_tell_places_or_pad_are_refused():
    tokenizer = make_tokenizer("lvbert")
    check_fast_tokenizer(tokenizer)
    backend = tokenizer.backend_tokenizer
    with pytest.raises(ValueError, match="has no pad_token"):
        check_fast_tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend))

    class Slow:
        is_fast = False

    with pytest.raises(ValueError, match="a slow Slow, which does not tell .*a fast one"):
        check_fast_tokenizer(Slow())
