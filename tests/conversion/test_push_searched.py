"""The command line of publishing, up to the point where the network begins."""

import subprocess
import sys

import pytest
import torch

from conversion import push_searched, release_folder, reload_check, upload

from .published_runs import TOKENS, make_search, save_model, train
from .test_upload import FakeHub

LOADED = """
import sys
from conversion import command_line, push_searched
sys.argv = ["x", "--help"]
try:
    command_line.run(push_searched.main)
except SystemExit:
    print([name for name in ("torch", "matplotlib", "datasets") if name in sys.modules])
"""


@pytest.fixture
def search(tmp_path):
    make_search(tmp_path / "search")
    return tmp_path / "search"


@pytest.fixture
def hub(monkeypatch):
    fake = FakeHub()
    monkeypatch.setattr(upload, "HfApi", lambda: fake)
    return fake


@pytest.fixture
def reloaded(monkeypatch):
    """Stands in for the fresh process, which has tests of its own; tells what it was to open."""
    opened = []

    def check(folders, tokenizer):
        opened.extend(folders)
        return reload_check.Reloaded(0.0, 2)

    monkeypatch.setattr(reload_check, "check_reload", check)
    return opened


def names(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_help_is_quick():
    result = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip().endswith("[]")
    assert "--dry_run" in result.stdout


def test_a_dry_run_writes_the_folder_and_talks_to_nobody(
    search, tmp_path, convert, reloaded, monkeypatch
):
    monkeypatch.setattr(upload, "HfApi", None)
    (search / ".env").write_text("KEY=1")
    out = tmp_path / "out"
    code, told, errors = convert(
        push_searched, search_dir=search, repo_id="ada/model", dry_run=out, language="en"
    )
    assert code == 0, errors
    assert f"written, and nothing was sent: {out}" in told
    assert "not sent, names of secrets: .env" in errors
    assert {"README.md", "config.json", "model.safetensors", "history.jsonl"} <= names(out)
    assert all(release_folder.is_allowed(name) for name in names(out))
    assert "language: en" in (out / "README.md").read_text()
    code, _, errors = convert(push_searched, search_dir=search, repo_id="ada/model", dry_run=out)
    assert code == 1
    assert "is not empty" in errors


def test_a_push_sends_what_was_checked_and_twice_makes_one_commit(search, hub, convert, reloaded):
    flags = {"search_dir": search, "repo_id": "ada/model", "tag": "v1"}
    for _ in range(2):
        code, told, errors = convert(push_searched, **flags)
        assert code == 0, errors
    assert "nothing had changed" in told
    order = "dsfsd"
    assert hub.commits == [("main", f"Publish the layer order {order}")]
    assert list(hub.tags) == ["v1"]
    assert "optimizer.pt" not in hub.calls[0][1]
    assert not any(path.exists() for path in reloaded)


def test_checkpoints_are_sent_without_their_optimizer(tmp_path, hub, convert, reloaded):
    folder = tmp_path / "run"
    save_model(folder)
    train(folder)
    for step in (3, 6):
        save_model(folder / f"checkpoint-{step}")
        torch.save({}, folder / f"checkpoint-{step}" / "optimizer.pt")
    code, _, errors = convert(
        push_searched, search_dir=folder, repo_id="ada/model", checkpoints=True
    )
    assert code == 0, errors
    assert [call[0] for call in hub.calls] == ["main", "step-3", "step-6"]
    assert all(release_folder.is_allowed(name) for call in hub.calls for name in call[1])
    assert "checkpoint-3/optimizer.pt" in errors
    assert len(reloaded) == 3


def test_nothing_is_sent_that_computes_something_else(search, hub, convert, monkeypatch):
    def refuse(folders, tokenizer):
        raise ValueError("the folder computes something else than its source")

    monkeypatch.setattr(reload_check, "check_reload", refuse)
    code, _, errors = convert(push_searched, search_dir=search, repo_id="ada/model")
    assert code == 1
    assert errors.strip().splitlines()[-1].startswith("error: the folder computes something else")
    assert hub.calls == [] and hub.repos == {}


@pytest.mark.parametrize("leak", [TOKENS["Hugging Face token"], "/home/ada/corpus.txt"])
@pytest.mark.parametrize("name", ["history.jsonl", "search_result.json"])
def test_a_leak_in_a_listed_file_stops_the_push(search, hub, convert, reloaded, leak, name):
    path = search / name
    if name == "history.jsonl":
        path.write_text(path.read_text() + f'{{"note": "{leak}"}}\n')
    else:
        path.write_text(
            path.read_text().replace('"settings": {', f'"settings": {{"note": "{leak}",')
        )
    code, told, errors = convert(push_searched, search_dir=search, repo_id="ada/model")
    assert code == 1
    assert f"{name}, line" in errors
    assert leak not in told + errors
    assert hub.calls == [] and hub.repos == {} and reloaded == []


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"repo_id": "model"}, "USER/NAME is needed"),
        ({"repo_id": "a/b", "license": "a b"}, "license 'a b'"),
        ({"repo_id": "a/b", "create_pr": True, "checkpoints": True}, "create_pr with checkpoints"),
        ({"repo_id": "a/b", "create_pr": True, "revision": "dev"}, "pull requests go to"),
        ({"repo_id": "a/b", "model_dir": "/nowhere"}, "holds no config.json"),
        ({"repo_id": "a/b", "search_dir": "/nowhere"}, "there is no such folder"),
    ],
)
def test_what_cannot_work_is_refused_at_once(search, convert, flags, message, monkeypatch):
    monkeypatch.setattr(upload, "HfApi", None)
    code, _, errors = convert(push_searched, **{"search_dir": search, **flags})
    assert code == 1
    assert message in errors
    assert "Traceback" not in errors


def test_an_interrupted_push_says_how_to_go_on(search, hub, convert, reloaded, monkeypatch):
    def interrupt(**flags):
        raise KeyboardInterrupt

    monkeypatch.setattr(hub, "upload_folder", interrupt)
    code, _, errors = convert(push_searched, search_dir=search, repo_id="ada/model")
    assert code == 1
    assert "interrupted: the same command goes on" in errors
