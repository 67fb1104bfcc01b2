import importlib

from modeling_lvbert.pretraining.code_hash import hash_code


def test_the_hash_is_that_of_the_sources(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    (tmp_path / "hashed_one.py").write_text("x = 1\n")
    (tmp_path / "hashed_two.py").write_text("y = 1\n")
    importlib.invalidate_caches()
    first = hash_code("hashed_one", "hashed_two")
    assert first == hash_code("hashed_two", "hashed_one") != hash_code("hashed_one")
    (tmp_path / "hashed_two.py").write_text("y = 2  # longer\n")
    assert hash_code("hashed_one", "hashed_two") != first
