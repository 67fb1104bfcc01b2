"""The code of different versions of this package, side by side in one process."""

import json
import shutil

import pytest

from tests.families import build
from tests.hub.client import Client
from tests.hub.conftest import TOKENS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def versions(running_hub, tmp_path_factory):
    """Pushes equal weights with different code: one repository at two commits, and another one."""
    tmp_path = tmp_path_factory.mktemp("versions")
    original = tmp_path / "original"
    build("LVBert", "ForMaskedLM").save_pretrained(original)
    tasks = []
    for repo, version, tag in (("a", "1", "old"), ("a", "2", "new"), ("b", "3", "only")):
        folder = tmp_path / version
        shutil.copytree(original, folder)
        for file, line in (
            ("modeling_lvbert.py", f"LVBertForMaskedLM.code_version = {version!r}"),
            ("layer_order.py", f"CODE_VERSION = {version!r}"),
        ):
            with (folder / file).open("a", encoding="utf-8") as code:
                code.write(f"\n\n{line}\n")
        tasks.append({"repo": f"owner/versions-{repo}", "folder": str(folder), "tag": tag})
    client = Client(running_hub, tmp_path / "machine", "xet", TOKENS["owner"])
    client.run("upload", json.dumps(tasks))


def test_every_model_keeps_the_code_that_it_came_with(versions, new_client):
    a, b = "owner/versions-a", "owner/versions-b"
    tasks = [
        {"repo": a, "version": "2"},
        {"repo": b, "version": "3"},
        {"repo": a, "version": "1", "revision": "old"},
        {"repo": a, "version": "1", "code_revision": "old"},
        {"repo": a, "version": "2", "revision": "main"},
        {"repo": b, "version": "3", "revision": "only"},
    ]
    sums = new_client(None).run("versions", json.dumps(tasks))
    assert len(set(sums)) == 1


def test_beside_the_installed_package(versions, new_client):
    tasks = [{"repo": f"owner/versions-{name}", "version": None} for name in "ab"]
    sums = new_client(None).run("versions", json.dumps(tasks), package=True)
    assert len(set(sums)) == 1
