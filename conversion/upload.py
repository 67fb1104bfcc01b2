# Copyright 2026 The lvbert authors.
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
"""Sends a checked folder to the Hub: repository, branch, commit or pull request, tag.

The client's own rules make a push that was broken off go on when it is started again, and one of
unchanged files make no commit. The token stays with the client, and is taken out of messages.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi, constants, get_token
from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import validate_repo_id

from .secret_scan import find_tokens, list_files

logger = logging.getLogger(__name__)

MAIN = "main"
_REFERENCE = re.compile(r"(?!.*(\.\.|//|@\{|/\.|\.lock$))[A-Za-z0-9][\w./-]*(?<![./])")
_HASH = re.compile(r"[0-9a-f]{7,40}")
_REASONS = {
    400: "the Hub does not take it",
    401: "the Hub does not know the token: log in again with `hf auth login`, or set HF_TOKEN",
    403: "the token may not write there: take one with the right to write, for an organisation one "
    "that it admits",
    404: "there is no such repository or branch, or the token may not see it",
    409: "something of that name is there already",
    412: "somebody else pushed at the same time: start again",
    429: "the Hub asks for a pause: start again later",
}


@dataclass(frozen=True)
class Destination:
    """Where a folder goes.

    Attributes:
        repo_id: USER/NAME or ORGANISATION/NAME.
        revision: Branch; None for the main one. It is made where it is missing.
        private: Whether nobody else may see a repository that is made, or must not see one that is
            there.
        create_pr: Whether a pull request is opened instead of a push.
        tag: Name for the commit, None for none.
        commit_message: First line of the commit.
    """

    repo_id: str
    revision: str | None = None
    private: bool = False
    create_pr: bool = False
    tag: str | None = None
    commit_message: str = "Publish the model"

    def __post_init__(self) -> None:
        """Checks what needs no network.

        Raises:
            ValueError: A name cannot be one, or two options contradict each other.
        """
        _check_repo_id(self.repo_id)
        for name in ("revision", "tag"):
            value = getattr(self, name)
            if value is not None and not _REFERENCE.fullmatch(value):
                raise ValueError(f"{name} {value!r}: no name for a branch or tag")
        if self.revision is not None and _HASH.fullmatch(self.revision):
            raise ValueError(f"revision {self.revision!r}: a commit takes no push, give a branch")
        if self.create_pr and self.revision not in (None, MAIN):
            raise ValueError(
                f"create_pr with revision {self.revision!r}: pull requests go to {MAIN!r} alone"
            )
        if self.create_pr and self.tag is not None:
            raise ValueError(f"create_pr with tag {self.tag!r}: tag what was merged")
        if not self.commit_message.strip() or find_tokens(self.commit_message):
            raise ValueError("commit_message: empty, or looks like an access token")

    @property
    def branch(self) -> str:
        """The branch."""
        return self.revision or MAIN


def _check_repo_id(repo_id: str) -> None:
    try:
        validate_repo_id(repo_id)
        is_complete = repo_id.count("/") == 1
    except HFValidationError:
        is_complete = False
    if not is_complete:
        raise ValueError(
            f"repo_id {repo_id!r}: USER/NAME is needed, of letters, digits, '-', '_' and '.', as "
            "in ada/lvbert-small"
        )


@contextmanager
def one_line_errors(repo_id: str) -> Iterator[None]:
    """Turns what the client raises into one line that says what to do.

    Args:
        repo_id: Repository that is talked about.

    Raises:
        ValueError: Anything went wrong.
    """
    try:
        yield
    except LocalTokenNotFoundError:
        raise ValueError("not logged in: run `hf auth login`, or set HF_TOKEN") from None
    except OfflineModeIsEnabled:
        raise ValueError(
            "HF_HUB_OFFLINE is set: unset it to push, or give --dry_run OUT to write the folder"
        ) from None
    except HfHubHTTPError as error:
        raise ValueError(f"{repo_id}: {_explain(error)}") from None
    # The client's transport and the uploader's own library raise these.
    except (HTTPError, OSError, RuntimeError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            # A file of this machine.
            raise
        raise ValueError(
            f"{repo_id}: the connection to {constants.ENDPOINT} failed ({_hide_token(error)}); the "
            "same command goes on with what is not there yet"
        ) from None


def _explain(error: HfHubHTTPError) -> str:
    status = error.response.status_code
    if isinstance(error, RevisionNotFoundError | RepositoryNotFoundError):
        # Whoever is not known is told 401 for what is missing.
        is_unknown = status == 401 and get_token() is None
        reason = _REASONS[401 if is_unknown else 404]
    else:
        reason = _REASONS.get(status, "the Hub failed: start the same command again later")
    return f"{reason} (status {status}: {_hide_token(error.server_message or 'no message')})"


def _hide_token(error: object) -> str:
    text = " ".join(str(error).split())
    token = get_token()
    return text.replace(token, "***") if token else text


def check_access(destination: Destination, api: HfApi) -> None:
    """Checks, before work starts, who is logged in and what is in the repository.

    Raises:
        ValueError: Nobody is logged in, the repository is public and must not be, or the tag names
            another commit.
    """
    with one_line_errors(destination.repo_id):
        user = api.whoami()
        names = [user["name"], *(group["name"] for group in user.get("orgs", []))]
        exists = api.repo_exists(destination.repo_id)
        public = exists and api.model_info(destination.repo_id).private is False
        heads, tags = _list_refs(destination.repo_id, api) if exists else ({}, {})
    role = user.get("auth", {}).get("accessToken", {}).get("role")
    if role == "read":
        raise ValueError("the token may only read: log in with one that may write")
    owner = destination.repo_id.partition("/")[0]
    if not exists and owner not in names:
        raise ValueError(
            f"repo_id {destination.repo_id!r}: you are {names[0]!r} and can make repositories for "
            f"{', '.join(names)}"
        )
    if destination.private and public:
        raise ValueError(
            f"private: {destination.repo_id} exists and everybody can see it; make it private in "
            "its settings, or leave the option out"
        )
    tagged = tags.get(destination.tag or "")
    if tagged is not None and tagged != heads.get(destination.branch):
        raise ValueError(
            f"tag {destination.tag!r} names the commit {tagged[:12]} of {destination.repo_id} "
            "already: tags stay where they are, take another name"
        )


def _list_refs(repo_id: str, api: HfApi) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the commits of all branches and of all tags."""
    refs = api.list_repo_refs(repo_id)
    return (
        {branch.name: branch.target_commit for branch in refs.branches},
        {tag.name: tag.target_commit for tag in refs.tags},
    )


def push(folder: Path, destination: Destination, api: HfApi) -> str:
    """Sends a folder and returns the commit, for a pull request its address.

    Where all files are there already no commit is made, and no pull request: the one that has them
    is returned.

    Args:
        folder: A checked folder; all its files are sent, by name.
        destination: Where to.
        api: The client.

    Raises:
        ValueError: The Hub or the network refuses.
    """
    repo_id, branch = destination.repo_id, destination.branch
    with one_line_errors(repo_id):
        if not api.repo_exists(repo_id):
            api.create_repo(repo_id, private=destination.private or None, exist_ok=True)
        heads, _ = _list_refs(repo_id, api)
        if branch != MAIN and branch not in heads and not branch.startswith("refs/"):
            api.create_branch(repo_id, branch=branch, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            revision=None if destination.create_pr else branch,
            allow_patterns=[name for _, name in list_files(folder)],
            commit_message=destination.commit_message,
            create_pr=destination.create_pr,
        )
        if destination.create_pr and commit.pr_url is not None:
            return commit.pr_url
        if destination.tag is not None:
            _set_tag(destination.tag, commit.oid, repo_id, api)
    changed = commit.oid != heads.get(branch)
    logger.info("%s at %s: %s", repo_id, branch, commit.oid if changed else "nothing had changed")
    return commit.oid


def _set_tag(tag: str, commit: str, repo_id: str, api: HfApi) -> None:
    _, tags = _list_refs(repo_id, api)
    if tags.get(tag) == commit:
        return
    if tag in tags:
        raise ValueError(f"pushed, but the tag {tag!r} names another commit: take another name")
    api.create_tag(repo_id, tag=tag, revision=commit)


def push_checkpoint(
    folder: Path, step: int, start: str, destination: Destination, api: HfApi
) -> None:
    """Sends intermediate weights to the branch `step-N`.

    Args:
        folder: The checkpoint's folder, checked.
        step: Its optimizer step.
        start: Commit that a new branch begins with.
        destination: Where the final weights went.
        api: The client.

    Raises:
        ValueError: The Hub or the network refuses.
    """
    repo_id, branch = destination.repo_id, f"step-{step}"
    with one_line_errors(repo_id):
        api.create_branch(repo_id, branch=branch, revision=start, exist_ok=True)
        api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            revision=branch,
            allow_patterns=[name for _, name in list_files(folder)],
            commit_message=f"Weights after {step} optimizer steps",
        )
    logger.info("%s at %s: weights after %s steps", repo_id, branch, f"{step:,}")
