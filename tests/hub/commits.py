"""The two calls of every upload, preupload and commit, and the opening of pull requests."""

import base64
import fnmatch
import json
from typing import Any

from starlette.responses import Response

from tests.hub.calls import Call, Routes, answer
from tests.hub.repositories import PULL_REQUEST, HubError, Objects, Repository, StoredFile

routes = Routes()
REPOSITORY = "/api/{kind}/{namespace}/{name}"
LFS_PATTERNS = ("*.safetensors", "*.bin", "*.pt", "*.onnx", "*.png", "*.npz", "*.h5")
LARGEST_REGULAR = 10 * 2**20
LARGEST_PREUPLOAD = 256


def upload_mode(path: str, size: int, sample: bytes) -> str:
    named = any(fnmatch.fnmatch(path, pattern) for pattern in LFS_PATTERNS)
    return "lfs" if named or size > LARGEST_REGULAR or b"\0" in sample else "regular"


@routes.add("POST", REPOSITORY + "/preupload/{revision}")
def preupload(hub: Any, call: Call) -> Response:
    """Says how each file is to be sent, and what lies at its place now.

    Without the second, the client commits the same content again.
    """
    repository = hub.repository(call)
    repository.check_write(call.user, proposal=_is_proposal(call))
    present = repository.commit_at(call.names["revision"]).files
    wanted = call.json()["files"]
    if len(wanted) > LARGEST_PREUPLOAD:
        raise HubError(400, f"{len(wanted)} files at once")
    files = []
    for file in wanted:
        mode = upload_mode(file["path"], file["size"], base64.b64decode(file["sample"]))
        told = {"path": file["path"], "uploadMode": mode, "shouldIgnore": False}
        if file["path"] in present:
            now = present[file["path"]]
            told["oid"] = now.sha256 if now.is_lfs else now.git_oid
        files.append(told)
    return answer({"files": files})


@routes.add("POST", REPOSITORY + "/commit/{revision}", upload=True)
def commit(hub: Any, call: Call) -> Response:
    repository = hub.repository(call)
    proposal = _is_proposal(call)
    repository.check_write(call.user, proposal)
    branch = call.names["revision"]
    lines = [json.loads(line) for line in call.body.splitlines() if line.strip()]
    header = next(line["value"] for line in lines if line["key"] == "header")
    # Checked before anything changes: a refused commit leaves nothing behind.
    parent = repository.commit_at(branch)
    _check_parent(header.get("parentCommit"), parent.oid)
    operations = [line for line in lines if line["key"] != "header"]
    files = apply(operations, parent.files, hub.repositories.objects)
    if call.query.get("create_pr") == "1":
        branch = repository.add_pull_request(header["summary"], call.user.name, branch)
    if branch not in repository.branches:
        raise HubError(404, f"no branch {branch!r}", "RevisionNotFound")
    new = repository.add_commit(
        branch, files, call.user.name, header["summary"], header.get("description", "")
    )
    told = {
        "success": True,
        "commitOid": new.oid,
        "commitUrl": f"{page(call, repository)}/commit/{new.oid}",
    }
    if call.query.get("create_pr") == "1":
        number = branch.removeprefix(PULL_REQUEST)
        told["pullRequestUrl"] = f"{page(call, repository)}/discussions/{number}"
    return answer(told)


def page(call: Call, repository: Repository) -> str:
    """Returns the address at which people see the repository."""
    prefix = "" if repository.kind == "models" else f"{repository.kind}/"
    return f"{call.origin}/{prefix}{repository.name}"


def _is_proposal(call: Call) -> bool:
    return call.query.get("create_pr") == "1" or call.names["revision"].startswith(PULL_REQUEST)


def _check_parent(stated: str | None, actual: str) -> None:
    if stated is not None and (len(stated) < 7 or not actual.startswith(stated)):
        raise HubError(412, f"the parent is {actual}, not {stated}: the branch has moved")


def apply(
    operations: list[dict[str, Any]], files: dict[str, StoredFile], objects: Objects
) -> dict[str, StoredFile]:
    """Returns the files after a commit's operations."""
    after = dict(files)
    for operation in operations:
        value = operation["value"]
        path = value["path"]
        if operation["key"] == "file":
            after[path] = objects.regular_file(base64.b64decode(value["content"]))
        elif operation["key"] == "lfsFile":
            after[path] = objects.lfs_file(value["oid"])
            if value.get("size") not in (None, after[path].size):
                raise HubError(400, f"{path!r} has {after[path].size} bytes, not {value['size']}")
        elif operation["key"] == "deletedFile":
            if after.pop(path, None) is None:
                raise HubError(404, f"no file {path!r} to delete", "EntryNotFound")
        elif operation["key"] == "deletedFolder":
            inside = path.rstrip("/") + "/"
            after = {name: file for name, file in after.items() if not name.startswith(inside)}
        else:
            raise HubError(400, f"unknown operation {operation['key']!r}")
    return after


@routes.add("POST", REPOSITORY + "/discussions")
def open_pull_request(hub: Any, call: Call) -> Response:
    repository = hub.repository(call)
    repository.check_write(call.user, proposal=True)
    if not call.json().get("pullRequest"):
        raise HubError(400, "only pull requests can be opened here")
    branch = repository.add_pull_request(call.json()["title"], call.user.name)
    return answer({"num": int(branch.removeprefix(PULL_REQUEST))})


@routes.add("GET", REPOSITORY + "/discussions/{number}")
def tell_pull_request(hub: Any, call: Call) -> Response:
    repository = hub.repository(call)
    found = [r for r in repository.pull_requests if str(r.number) == call.names["number"]]
    if not found:
        raise HubError(404, "no such discussion")
    request = found[0]
    return answer(
        {
            "title": request.title,
            "num": request.number,
            "author": {"name": request.author},
            "createdAt": repository.commit_at(f"{PULL_REQUEST}{request.number}").date,
            "status": "draft",
            "repo": {"name": repository.name, "type": repository.kind.removesuffix("s")},
            "isPullRequest": True,
            "events": [],
            "filesWithConflicts": [],
            "changes": {"base": "refs/heads/main"},
        }
    )
