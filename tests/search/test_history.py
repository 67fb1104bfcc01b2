import json

import pytest

from modeling_lvbert.search.history import History


def test_entries_are_kept_in_the_order_of_scoring(tmp_path):
    history = History(tmp_path / "history.jsonl", "abc")
    history.add([{"order": "sf", "x": 1}, {"order": "ds", "x": 2}])
    history.add([{"order": "fd", "x": 3}])
    again = History(tmp_path / "history.jsonl", "abc")
    assert list(again.entries) == ["sf", "ds", "fd"]
    assert again["ds"] == {"order": "ds", "x": 2, "supernet": "abc"}
    assert "fd" in again
    assert "ff" not in again
    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["x"] for line in lines] == [1, 2, 3]


def test_scores_of_other_weights_are_dropped(tmp_path):
    path = tmp_path / "history.jsonl"
    History(path, "abc").add([{"order": "sf", "x": 1}, {"order": "ds", "x": 2}])
    trained_on = History(path, "def")
    assert len(trained_on) == 0
    trained_on.add([{"order": "sf", "x": 3}])
    assert [entry["x"] for entry in History(path, "def").entries.values()] == [3]


@pytest.mark.parametrize("cut", range(1, 42))
def test_a_line_that_a_kill_cut_off_is_written_again(tmp_path, cut):
    path = tmp_path / "history.jsonl"
    History(path, "abc").add([{"order": "sf", "x": 1}])
    whole = path.read_bytes()
    line = b'{"order": "ds", "x": 2, "supernet": "abc"}\n'
    path.write_bytes(whole + line[:cut])
    history = History(path, "abc")
    if cut < len(line):
        assert list(history.entries) == ["sf"]
        history.add([{"order": "fd", "x": 3}])
        assert list(History(path, "abc").entries) == ["sf", "fd"]
    else:
        assert list(history.entries) == ["sf", "ds"]


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text('{"order": "sf", "supernet": "abc"}\nnonsense\n{"order": "ds"}\n')
    with pytest.raises(ValueError, match="line 2 is damaged"):
        History(path, "abc")


def test_only_the_writer_writes(tmp_path):
    history = History(tmp_path / "history.jsonl", "abc")
    history.add([{"order": "sf"}], is_writer=False)
    assert "sf" in history
    assert not history.path.exists()
