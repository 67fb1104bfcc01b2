import json

import pytest

from modeling_lvbert.search.history import History


def test_entries_are_kept_in_the_order_of_scoring(tmp_path):
    history = History(tmp_path / "history.jsonl")
    history.add([{"order": "sf", "x": 1}, {"order": "ds", "x": 2}])
    history.add([{"order": "fd", "x": 3}])
    again = History(tmp_path / "history.jsonl")
    assert list(again.entries) == ["sf", "ds", "fd"]
    assert again["ds"] == {"order": "ds", "x": 2}
    assert "fd" in again
    assert "ff" not in again
    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["x"] for line in lines] == [1, 2, 3]


@pytest.mark.parametrize("cut", range(1, 25))
def test_a_line_that_a_kill_cut_off_is_written_again(tmp_path, cut):
    path = tmp_path / "history.jsonl"
    History(path).add([{"order": "sf", "x": 1}])
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"order": "ds", "x": 2}\n'[:cut])
    history = History(path)
    if cut < 24:
        assert list(history.entries) == ["sf"]
        history.add([{"order": "fd", "x": 3}])
        assert list(History(path).entries) == ["sf", "fd"]
    else:
        assert list(history.entries) == ["sf", "ds"]


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text('{"order": "sf"}\nnonsense\n{"order": "ds"}\n')
    with pytest.raises(ValueError, match="line 2 is damaged"):
        History(path)


def test_only_the_writer_writes(tmp_path):
    history = History(tmp_path / "history.jsonl")
    history.add([{"order": "sf"}], is_writer=False)
    assert "sf" in history
    assert not history.path.exists()
