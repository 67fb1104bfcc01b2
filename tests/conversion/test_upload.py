from hashlib import sha256
from types import SimpleNamespace

import pytest
from huggingface_hub import HfApi, constants
from huggingface_hub.errors import (
    HfHubHTTPError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from conversion import upload
from conversion.upload import Destination

from .published_runs import TOKENS


class FakeHub:
    """A Hub of one user, `ada`, in memory: commits are numbered by what they hold."""

    def __init__(self):
        self.repos = {}
        self.commits = []
        self.tags = {}
        self.role = "write"
        self.calls = []

    def whoami(self):
        auth = {"accessToken": {"role": self.role}}
        return {"name": "ada", "orgs": [{"name": "team"}], "auth": auth}

    def repo_exists(self, repo_id):
        return repo_id in self.repos

    def model_info(self, repo_id):
        return SimpleNamespace(private=self.repos[repo_id]["private"])

    def create_repo(self, repo_id, *, private, exist_ok):
        self.repos[repo_id] = {"private": bool(private), "branches": {"main": "start"}}

    def list_repo_refs(self, repo_id):
        branches = self.repos[repo_id]["branches"].items()
        return SimpleNamespace(
            branches=[SimpleNamespace(name=name, target_commit=oid) for name, oid in branches],
            tags=[SimpleNamespace(name=n, target_commit=oid) for n, oid in self.tags.items()],
        )

    def create_branch(self, repo_id, *, branch, revision="main", exist_ok):
        branches = self.repos[repo_id]["branches"]
        branches.setdefault(branch, branches.get(revision, revision))

    def create_tag(self, repo_id, *, tag, revision):
        assert tag not in self.tags
        self.tags[tag] = revision

    def upload_folder(self, *, repo_id, folder_path, revision, allow_patterns, commit_message,
                      create_pr=False):  # fmt: skip
        self.calls.append((revision, sorted(allow_patterns), commit_message, create_pr))
        files = sorted(path for path in folder_path.rglob("*") if path.is_file())
        content = b"".join(path.name.encode() + path.read_bytes() for path in files)
        oid = sha256(content).hexdigest()[:40]
        if create_pr and self.repos[repo_id]["branches"]["main"] != oid:
            return SimpleNamespace(oid=oid, pr_url="https://hub/ada/model/discussions/1")
        branches = self.repos[repo_id]["branches"]
        if branches[revision or "main"] != oid:
            self.commits.append((revision, commit_message))
            branches[revision] = oid
        return SimpleNamespace(oid=oid, pr_url=None)


@pytest.fixture
def hub():
    return FakeHub()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "README.md").write_text("x")
    return tmp_path / "model"


def test_a_push_makes_repository_commit_and_tag_and_again_changes_nothing(hub, folder):
    destination = Destination("ada/model", private=True, tag="v1", commit_message="First")
    for _ in range(2):
        upload.check_access(destination, hub)
        oid = upload.push(folder, destination, hub)
    assert hub.repos["ada/model"]["private"]
    assert hub.commits == [("main", "First")]
    assert hub.tags == {"v1": oid}
    assert hub.calls[0][1] == ["README.md"]


def test_a_branch_is_made_where_it_is_missing(hub, folder):
    upload.push(folder, Destination("team/model", revision="dev/a"), hub)
    assert set(hub.repos["team/model"]["branches"]) == {"main", "dev/a"}
    assert hub.commits == [("dev/a", "Publish the model")]


def test_a_pull_request_is_opened_instead_of_a_push(hub, folder):
    told = upload.push(folder, Destination("ada/model", create_pr=True), hub)
    assert told == "https://hub/ada/model/discussions/1"
    assert hub.commits == []
    assert hub.calls[0][0] is None and hub.calls[0][3] is True


def test_where_nothing_has_changed_no_pull_request_is_opened(hub, folder, caplog):
    commit = upload.push(folder, Destination("ada/model"), hub)
    with caplog.at_level("INFO"):
        assert upload.push(folder, Destination("ada/model", create_pr=True), hub) == commit
    assert "nothing had changed" in caplog.text
    assert len(hub.commits) == 1


def test_each_checkpoint_becomes_a_branch(hub, folder):
    destination = Destination("ada/model")
    oid = upload.push(folder, destination, hub)
    for _ in range(2):
        for step in (3, 6):
            (folder / "README.md").write_text(str(step))
            upload.push_checkpoint(folder, step, oid, destination, hub)
    assert set(hub.repos["ada/model"]["branches"]) == {"main", "step-3", "step-6"}
    assert [branch for branch, _ in hub.commits] == ["main", "step-3", "step-6"]


def test_a_tag_of_another_commit_stays(hub, folder):
    upload.push(folder, Destination("ada/model", tag="v1"), hub)
    (folder / "README.md").write_text("y")
    upload.push(folder, Destination("ada/model"), hub)
    with pytest.raises(ValueError, match="tag 'v1' names the commit"):
        upload.check_access(Destination("ada/model", tag="v1"), hub)
    with pytest.raises(ValueError, match="pushed, but the tag 'v1' names another"):
        upload.push(folder, Destination("ada/model", tag="v1"), hub)


def test_a_public_repository_takes_nothing_private(hub):
    hub.create_repo("ada/model", private=False, exist_ok=True)
    with pytest.raises(ValueError, match="everybody can see it"):
        upload.check_access(Destination("ada/model", private=True), hub)
    upload.check_access(Destination("ada/model"), hub)


def test_a_token_that_may_only_read_is_noticed_before_work(hub):
    hub.role = "read"
    with pytest.raises(ValueError, match="may only read"):
        upload.check_access(Destination("ada/model"), hub)


def test_a_repository_is_made_only_where_the_user_may(hub):
    upload.check_access(Destination("team/new"), hub)
    with pytest.raises(ValueError, match="you are 'ada' and can make repositories for ada, team"):
        upload.check_access(Destination("other/new"), hub)


@pytest.mark.parametrize(
    "repo_id",
    ["model", "a/b/c", "https://huggingface.co/a/b", "-a/b", "a b/c", "", "a/..", "a/b.git"],
)
def test_malformed_names_are_refused(repo_id):
    with pytest.raises(ValueError, match="USER/NAME is needed"):
        Destination(repo_id)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"revision": "a b"}, "revision 'a b': no name"),
        ({"revision": "../x"}, "no name for a branch"),
        ({"revision": "a" * 40}, "a commit takes no push"),
        ({"tag": "v 1"}, "tag 'v 1': no name"),
        ({"tag": ""}, "no name for a branch or tag"),
        ({"create_pr": True, "revision": "dev"}, "pull requests go to 'main' alone"),
        ({"create_pr": True, "tag": "v1"}, "tag what was merged"),
        ({"commit_message": " "}, "commit_message: empty"),
        ({"commit_message": TOKENS["API key"]}, "looks like an access token"),
    ],
)
def test_contradictions_are_refused_before_any_work(options, message):
    with pytest.raises(ValueError, match=message) as error:
        Destination("ada/model", **options)
    assert TOKENS["API key"] not in str(error.value)


def http_error(kind, status, message="told"):
    response = SimpleNamespace(status_code=status, headers={}, request=None)
    error = kind.__new__(kind)
    error.response, error.server_message, error.args = response, message, (message,)
    return error


TOKEN = TOKENS["Hugging Face token"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (LocalTokenNotFoundError("x"), "not logged in: run `hf auth login`"),
        (OfflineModeIsEnabled("x"), "HF_HUB_OFFLINE is set"),
        (http_error(HfHubHTTPError, 401), "does not know the token: log in again"),
        (http_error(HfHubHTTPError, 403), "may not write there"),
        (http_error(RepositoryNotFoundError, 404), "no such repository or branch"),
        (http_error(RepositoryNotFoundError, 401), "no such repository or branch"),
        (http_error(RevisionNotFoundError, 404), "no such repository or branch"),
        (http_error(HfHubHTTPError, 429), "later"),
        (http_error(HfHubHTTPError, 503), "the Hub failed"),
        (http_error(HfHubHTTPError, 400, f"bad\n{TOKEN}"), "bad \\*\\*\\*"),
        (ConnectionError(f"Network\nerror {TOKEN}"), "the same command goes on"),
        (TimeoutError("slow"), "the same command goes on"),
    ],
)
def test_every_failure_is_one_line_without_the_token(error, message, monkeypatch):
    monkeypatch.setattr(upload, "get_token", lambda: TOKEN)
    with pytest.raises(ValueError, match=message) as told, upload.one_line_errors("ada/model"):
        raise error
    assert "\n" not in str(told.value)
    assert TOKEN not in str(told.value)


def test_a_file_that_cannot_be_read_is_no_fault_of_the_network(tmp_path):
    with pytest.raises(FileNotFoundError), upload.one_line_errors("ada/model"):
        (tmp_path / "nothing").read_bytes()


def test_an_unknown_visitor_is_told_to_log_in(monkeypatch):
    monkeypatch.setattr(upload, "get_token", lambda: None)
    error = http_error(RepositoryNotFoundError, 401)
    with pytest.raises(ValueError, match="log in again"), upload.one_line_errors("ada/model"):
        raise error


def test_the_real_client_refuses_while_offline(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match="HF_HUB_OFFLINE is set"):
        upload.check_access(Destination("ada/model"), HfApi(token=TOKEN))
