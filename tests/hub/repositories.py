"""What a Hub stores: files by their hash, commits, branches, tags and pull requests. No HTTP here.

Written from a description of what huggingface_hub sends and needs; see `server.py` for the rest.
"""

import hashlib
import os
import re
import tempfile
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

PULL_REQUEST = "refs/pr/"


class HubError(Exception):
    """A refusal: the client reads the status and the code, people the message."""

    def __init__(self, status: int, message: str, code: str | None = None, commit: str = ""):
        super().__init__(message)
        self.status = status
        self.code = code
        self.commit = commit


@dataclass(frozen=True)
class User:
    """Who a token belongs to, and what it may do."""

    name: str
    role: str = "write"
    organizations: tuple[str, ...] = ()

    def belongs_to(self, namespace: str) -> bool:
        return namespace == self.name or namespace in self.organizations


@dataclass(frozen=True)
class StoredFile:
    """A file of a commit; its bytes lie in `Objects`."""

    sha256: str
    size: int
    git_oid: str
    is_lfs: bool


class Objects:
    """Bytes by their SHA-256, in a folder. A file appears there only when it is whole."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, sha256: str) -> Path:
        return self.folder / sha256

    def add(self, content: bytes) -> str:
        sha256 = hashlib.sha256(content).hexdigest()
        handle, temporary = tempfile.mkstemp(dir=self.folder)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, self.path(sha256))
        return sha256

    def __contains__(self, sha256: str) -> bool:
        return re.fullmatch("[0-9a-f]{64}", sha256) is not None and self.path(sha256).exists()

    def regular_file(self, content: bytes) -> StoredFile:
        header = f"blob {len(content)}\0".encode()
        git_oid = hashlib.sha1(header + content).hexdigest()
        return StoredFile(self.add(content), len(content), git_oid, is_lfs=False)

    def lfs_file(self, sha256: str) -> StoredFile:
        if sha256 not in self:
            raise HubError(400, f"the object {sha256} was not uploaded")
        size = self.path(sha256).stat().st_size
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n"
        git_oid = hashlib.sha1(f"blob {len(pointer)}\0{pointer}".encode()).hexdigest()
        return StoredFile(sha256, size, git_oid, is_lfs=True)


@dataclass(frozen=True)
class Commit:
    """A state of all files, with what led to it."""

    oid: str
    parent: "Commit | None"
    title: str
    message: str
    author: str
    date: str
    files: dict[str, StoredFile]

    def file(self, path: str) -> StoredFile:
        if path not in self.files:
            raise HubError(404, f"no file {path!r}", "EntryNotFound", self.oid)
        return self.files[path]

    def folders(self) -> set[str]:
        parts = [path.split("/")[:-1] for path in self.files]
        return {"/".join(names[: count + 1]) for names in parts for count in range(len(names))}

    def history(self) -> list["Commit"]:
        commits: list[Commit] = [self]
        while commits[-1].parent is not None:
            commits.append(commits[-1].parent)
        return commits


@dataclass
class PullRequest:
    """A proposed change; its commits lie on the branch `refs/pr/N`."""

    number: int
    title: str
    author: str


@dataclass
class Repository:
    """A repository of one kind ("models", "datasets" or "spaces")."""

    kind: str
    name: str
    private: bool
    branches: dict[str, Commit] = field(default_factory=dict)
    tags: dict[str, Commit] = field(default_factory=dict)
    pull_requests: list[PullRequest] = field(default_factory=list)
    commits: dict[str, Commit] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        return self.name.split("/")[0]

    def check_read(self, user: User | None) -> None:
        if self.private and (user is None or not user.belongs_to(self.namespace)):
            raise no_repository(user)

    def check_write(self, user: User | None, proposal: bool = False) -> None:
        """Refuses who may not change this repository, or not even propose a change to it."""
        self.check_read(user)
        if user is None:
            # Behind https the client reads any 401 as this; behind http it needs the code.
            raise HubError(401, "Invalid username or password.", "RepoNotFound")
        if user.role != "write":
            raise HubError(403, "this token may only read")
        if not proposal and not user.belongs_to(self.namespace):
            raise HubError(403, f"{user.name} may not write to {self.name}")

    def commit_at(self, revision: str) -> Commit:
        """Returns the commit that a branch, a tag, a pull request or (part of) a hash names."""
        if revision == "HEAD":
            revision = "main"
        for names in (self.branches, self.tags, self.commits):
            if revision in names:
                return names[revision]
        if re.fullmatch("[0-9a-f]{7,39}", revision):
            found = [commit for oid, commit in self.commits.items() if oid.startswith(revision)]
            if len(found) == 1:
                return found[0]
        raise HubError(404, f"no revision {revision!r}", "RevisionNotFound")

    def add_commit(
        self, branch: str, files: dict[str, StoredFile], author: str, title: str, message: str = ""
    ) -> Commit:
        parent = self.branches.get(branch)
        number = len(self.commits)
        # Dates a second apart, so that their order is that of the commits.
        date = datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=number)
        text = f"{self.kind}/{self.name} {number} {parent and parent.oid} {title}"
        oid = hashlib.sha1(text.encode()).hexdigest()
        written = date.strftime("%Y-%m-%dT%H:%M:%S.000Z")
        commit = Commit(oid, parent, title, message, author, written, dict(files))
        self.commits[oid] = commit
        self.branches[branch] = commit
        return commit

    def add_branch(self, branch: str, start: str) -> None:
        if branch in self.branches:
            raise HubError(409, f"the branch {branch!r} exists")
        self.branches[branch] = self.commit_at(start)

    def add_tag(self, tag: str, revision: str) -> None:
        if tag in self.tags:
            raise HubError(409, f"the tag {tag!r} exists")
        self.tags[tag] = self.commit_at(revision)

    def add_pull_request(self, title: str, author: str, base: str = "main") -> str:
        """Opens a pull request and returns the branch of its commits."""
        number = len(self.pull_requests) + 1
        self.pull_requests.append(PullRequest(number, title, author))
        self.branches[f"{PULL_REQUEST}{number}"] = self.commit_at(base)
        return f"{PULL_REQUEST}{number}"


def no_repository(user: User | None) -> HubError:
    """The same answer for what is missing and for what is private, so that nobody can tell."""
    return HubError(401 if user is None else 404, "Repository not found", "RepoNotFound")


class Repositories:
    """All repositories of a Hub, and the objects that they share."""

    def __init__(self, folder: Path):
        self.objects = Objects(folder / "objects")
        self.by_name: dict[tuple[str, str], Repository] = {}

    def get(self, kind: str, name: str, user: User | None) -> Repository:
        if (kind, name) not in self.by_name:
            raise no_repository(user)
        repository = self.by_name[kind, name]
        repository.check_read(user)
        return repository

    def create(self, kind: str, name: str, private: bool, author: str) -> Repository:
        if (kind, name) in self.by_name:
            raise HubError(409, "You already created this repository")
        repository = Repository(kind, name, private)
        attributes = self.objects.regular_file(b"*.safetensors filter=lfs diff=lfs merge=lfs -text")
        repository.add_commit("main", {".gitattributes": attributes}, author, "initial commit")
        self.by_name[kind, name] = repository
        return repository

    def delete(self, kind: str, name: str) -> None:
        del self.by_name[kind, name]
