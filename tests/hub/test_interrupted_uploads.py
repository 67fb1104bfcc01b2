"""What happens to a repository when an upload of a model's folder breaks off and is done again."""

import hashlib
import json
import zlib

import pytest
import torch

from tests.families import build
from tests.hub.client import MODES, finish, wait

pytestmark = pytest.mark.slow
CONTENT = r"/storage/objects/|/v1/xorbs/"


@pytest.fixture
def folder(tmp_path, request):
    """A saved model in several files of weights, which no other test has stored before."""
    torch.manual_seed(zlib.crc32(request.node.name.encode()))
    folder = tmp_path / "model"
    build("LVBert", "ForMaskedLM").save_pretrained(folder, max_shard_size="20KB")
    return folder


def start(client, repo, folder):
    return client.start("upload", json.dumps([{"repo": repo, "folder": str(folder)}]))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("served", "killed"), [(0, False), (1, True), (2, True), (2, False)])
def test_an_interrupted_upload_changes_nothing_and_is_resumed(
    served, killed, mode, hub, new_client, folder
):
    client, repo = new_client("owner", mode), f"owner/broken-{mode}-{served}-{killed}"
    processes = []
    hub.break_uploads(served, then=lambda: processes[0].kill() if killed else None)
    processes.append(start(client, repo, folder))
    _, errors = wait(processes[0])
    assert processes[0].returncode != 0
    assert killed or "403" in errors
    repository = hub.repositories.by_name["models", repo]
    assert list(repository.commit_at("main").files) == [".gitattributes"]
    hub.mend()
    first = len(hub.log)
    finish(start(client, repo, folder))
    files = repository.commit_at("main").files
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()} == {
        name: file.sha256 for name, file in files.items() if name != ".gitattributes"
    }
    assert len(repository.commit_at("main").history()) == 2
    if mode == "lfs":
        # What had arrived is not sent again.
        weights = [name for name in contents if name.endswith(".safetensors")]
        assert len(hub.requests(CONTENT, "PUT", since=first)) == len(weights) - served


@pytest.mark.parametrize("mode", MODES)
def test_the_same_folder_again_makes_no_commit_and_sends_nothing(mode, hub, new_client, folder):
    client, repo = new_client("owner", mode), f"owner/twice-{mode}"
    (once,) = finish(start(client, repo, folder))
    first = len(hub.log)
    assert finish(start(client, repo, folder)) == [once]
    assert not hub.requests("/commit/", "POST", since=first)
    assert not hub.requests(CONTENT, "PUT", since=first)
