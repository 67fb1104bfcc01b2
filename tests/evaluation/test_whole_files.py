import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modeling_lvbert.evaluation.whole_files import get_temporary_path, write_json, write_text

VALUES = st.recursive(
    # Half characters stand for bytes of a file's name that are no UTF-8.
    st.none() | st.booleans() | st.integers() | st.text() | st.just("caf\udce9"),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    max_leaves=9,
)


@given(VALUES)
def test_json_comes_back_as_it_was(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("files") / "new" / "a.json"
    write_json(path, value)
    assert json.loads(path.read_text(encoding="utf-8")) == value
    assert list(path.parent.iterdir()) == [path]


def test_characters_stay_legible_and_numbers_that_are_none_become_null(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"q": "Zürich 😀", "x": [math.nan, {"y": -math.inf}, 1.5]})
    text = path.read_text(encoding="utf-8")
    assert "Zürich 😀" in text
    assert json.loads(text) == {"q": "Zürich 😀", "x": [None, {"y": None}, 1.5]}


def test_what_was_there_stays_until_the_new_file_is_whole(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "first\r\n")
    assert path.read_bytes() == b"first\r\n"
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert path.read_bytes() == b"first\r\n"
    write_text(path, "second")
    assert path.read_bytes() == b"second"
    assert not get_temporary_path(path).exists()
