"""What can be asked of a repository: what it is, what it holds, and the files themselves."""

from typing import Any
from urllib.parse import quote

import yaml
from starlette.responses import RedirectResponse, Response

from tests.hub.calls import Call, Routes, answer
from tests.hub.commits import REPOSITORY
from tests.hub.repositories import PULL_REQUEST, Commit, HubError, Repository, StoredFile

routes = Routes()
POINTER_SIZE = 134


def card_data(text: str) -> Any:
    """Returns the metadata at the head of a model card, {} where there are none.

    Raises:
        ValueError: They are no valid YAML, or no mapping.
    """
    parts = text.split("---\n", 2)
    if not text.startswith("---\n") or len(parts) < 3:
        return {}
    try:
        metadata = yaml.safe_load(parts[1])
    except yaml.YAMLError as error:
        raise ValueError(f"invalid YAML: {error}") from error
    if not isinstance(metadata, dict):
        raise ValueError("the metadata are no mapping")
    tags = metadata.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError('"tags" must be an array of strings')
    return metadata


@routes.add("POST", "/api/validate-yaml")
def validate_card(hub: Any, call: Call) -> Response:
    try:
        metadata = card_data(call.json()["content"])
    except ValueError as error:
        return answer({"errors": [{"message": str(error)}], "warnings": []}, 400)
    warnings = [] if metadata else [{"message": "empty or missing yaml metadata in repo card"}]
    return answer({"errors": [], "warnings": warnings})


def tell_information(hub: Any, call: Call) -> Response:
    repository = hub.repository(call)
    commit = repository.commit_at(call.names.get("revision", "main"))
    card = {}
    if "README.md" in commit.files:
        path = hub.repositories.objects.path(commit.files["README.md"].sha256)
        card = card_data(path.read_text(encoding="utf-8"))
    blobs = call.query.get("blobs", "").lower() == "true"
    told = {
        "id": repository.name,
        "author": repository.namespace,
        "sha": commit.oid,
        "private": repository.private,
        "gated": False,
        "disabled": False,
        "lastModified": commit.date,
        "createdAt": commit.history()[-1].date,
        "tags": card.get("tags", []),
        "cardData": card,
        "siblings": [_sibling(path, file, blobs) for path, file in sorted(commit.files.items())],
    }
    for field in ("pipeline_tag", "library_name"):
        if field in card:
            told[field] = card[field]
    return answer(told)


def _sibling(path: str, file: StoredFile, blobs: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"rfilename": path}
    if blobs:
        told |= {"size": file.size, "blobId": file.git_oid}
        if file.is_lfs:
            lfs = {"sha256": file.sha256, "size": file.size, "pointerSize": POINTER_SIZE}
            told["lfs"] = lfs
    return told


routes.add("GET", REPOSITORY)(tell_information)
routes.add("GET", REPOSITORY + "/revision/{revision}")(tell_information)


def _entry(hub: Any, path: str, file: StoredFile) -> dict[str, Any]:
    told: dict[str, Any] = {
        "type": "file",
        "path": path,
        "oid": file.git_oid,
        "size": file.size,
    }
    if file.is_lfs:
        told["lfs"] = {"oid": file.sha256, "size": file.size, "pointerSize": POINTER_SIZE}
        if file.sha256 in hub.xet.hash_of:
            told["xetHash"] = hub.xet.hash_of[file.sha256]
    return told


def _entries(hub: Any, commit: Commit) -> dict[str, dict[str, Any]]:
    """Everything in a commit by its path, folders among it."""
    entries = {
        path: {"type": "directory", "path": path, "oid": commit.oid, "size": 0}
        for path in commit.folders()
    }
    return entries | {path: _entry(hub, path, file) for path, file in commit.files.items()}


def list_tree(hub: Any, call: Call) -> Response:
    commit = hub.repository(call).commit_at(call.names["revision"])
    folder = call.names.get("path", "")
    entries = _entries(hub, commit)
    if folder and entries.get(folder, {}).get("type") != "directory":
        raise HubError(404, f"no folder {folder!r}", "EntryNotFound", commit.oid)
    inside = f"{folder}/" if folder else ""
    paths = sorted(path for path in entries if path.startswith(inside))
    if call.query.get("recursive", "").lower() != "true":
        paths = [path for path in paths if "/" not in path.removeprefix(inside)]
    start = int(call.query.get("cursor", 0))
    end = start + hub.page_size
    headers = {}
    if len(paths) > end:
        query = {**call.query, "cursor": str(end)}
        text = "&".join(f"{name}={quote(value)}" for name, value in query.items())
        headers["Link"] = f'<{call.origin}{call.path}?{text}>; rel="next"'
    return answer([entries[path] for path in paths[start:end]], headers=headers)


routes.add("GET", REPOSITORY + "/tree/{revision}")(list_tree)
routes.add("GET", REPOSITORY + "/tree/{revision}/{path*}")(list_tree)


@routes.add("POST", REPOSITORY + "/paths-info/{revision}")
def tell_paths(hub: Any, call: Call) -> Response:
    commit = hub.repository(call).commit_at(call.names["revision"])
    entries = _entries(hub, commit)
    paths = call.form().get("paths", [])
    return answer([entries[path] for path in paths if path in entries])


@routes.add("GET", REPOSITORY + "/refs")
def list_refs(hub: Any, call: Call) -> Response:
    repository: Repository = hub.repository(call)
    heads = {n: c for n, c in repository.branches.items() if not n.startswith(PULL_REQUEST)}
    proposals = {n: c for n, c in repository.branches.items() if n.startswith(PULL_REQUEST)}

    def tell(names: dict[str, Commit], prefix: str) -> list[dict[str, str]]:
        return [
            {"name": name, "ref": f"{prefix}{name}", "targetCommit": commit.oid}
            for name, commit in sorted(names.items())
        ]

    return answer(
        {
            "branches": tell(heads, "refs/heads/"),
            "tags": tell(repository.tags, "refs/tags/"),
            "pullRequests": tell(proposals, ""),
            "converts": [],
        }
    )


@routes.add("GET", REPOSITORY + "/commits/{revision}")
def list_commits(hub: Any, call: Call) -> Response:
    history = hub.repository(call).commit_at(call.names["revision"]).history()
    return answer(
        [
            {
                "id": commit.oid,
                "title": commit.title,
                "message": commit.message,
                "date": commit.date,
                "authors": [{"user": commit.author}],
            }
            for commit in history
        ]
    )


def resolve(hub: Any, call: Call) -> Response:
    """Gives a file, or the address of its object: that one lies at another origin."""
    repository = hub.repository(call)
    commit = repository.commit_at(call.names["revision"])
    file = commit.file(call.names["path"])
    headers = {"X-Repo-Commit": commit.oid}
    if not file.is_lfs:
        headers["ETag"] = f'"{file.git_oid}"'
        content = hub.repositories.objects.path(file.sha256).read_bytes()
        return Response(content, headers=headers, media_type="text/plain")
    headers["ETag"] = headers["X-Linked-Etag"] = f'"{file.sha256}"'
    headers["X-Linked-Size"] = str(file.size)
    xet_hash = hub.xet.hash_of.get(file.sha256)
    if xet_hash is not None:
        address = f"/api/{repository.kind}/{repository.name}/xet-read-token/{commit.oid}"
        headers["X-Xet-Hash"] = xet_hash
        headers["Link"] = f'<{call.origin}{address}>; rel="xet-auth"'
    return RedirectResponse(hub.storage_url(f"objects/{file.sha256}"), 302, headers)


routes.add("GET", "/{namespace}/{name}/resolve/{revision}/{path*}")(resolve)
routes.add("GET", "/{kind}/{namespace}/{name}/resolve/{revision}/{path*}")(resolve)
