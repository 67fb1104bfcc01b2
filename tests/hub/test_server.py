"""The test Hub serves the real client: what huggingface_hub changes is seen here first."""

import http.client
import inspect

import pytest

from tests.hub import checks_of_files, checks_of_repositories
from tests.hub.client import MODES, Checker, Client
from tests.hub.conftest import TOKENS, check_log

CHECKS = {
    name: module.__name__
    for module in (checks_of_files, checks_of_repositories)
    for name, function in vars(module).items()
    if inspect.isfunction(function) and "tokens" in inspect.signature(function).parameters
}


@pytest.fixture(scope="module")
def checkers(running_hub, tmp_path_factory):
    """One client's process a mode, started when the first check needs it."""
    started = {}

    def get(mode):
        if mode not in started:
            client = Client(running_hub, tmp_path_factory.mktemp(mode), mode, TOKENS["owner"])
            started[mode] = Checker(client).__enter__()
        return started[mode]

    yield get
    for checker in started.values():
        checker.__exit__()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("check", CHECKS)
def test_the_real_client_is_served(check, mode, hub, checkers, tmp_path, monkeypatch):
    if check == "long_listings_come_in_pages":
        monkeypatch.setattr(hub, "page_size", 10)
    repo = f"owner/{check}-{mode}".replace("_", "-")
    checkers(mode).call(
        CHECKS[check], check, repo=repo, tokens=TOKENS, mode=mode, folder=str(tmp_path)
    )


def ask(origin, path, method="GET", token=None, body=None):
    """Returns the status of one request."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    connection = http.client.HTTPConnection(origin.removeprefix("http://"), timeout=20)
    try:
        connection.request(method, path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", f"/storage/objects/{'0' * 64}", 403),
        ("PUT", f"/storage/objects/{'0' * 64}?signature=x", 403),
        ("GET", f"/storage/xorbs/{'0' * 64}", 403),
        ("GET", f"/v1/reconstructions/{'0' * 64}", 401),
        ("POST", f"/v1/xorbs/default/{'0' * 64}", 401),
        ("POST", "/v1/shards", 401),
    ],
)
def test_storage_is_closed_to_whoever_was_not_sent_there(method, path, status, hub):
    assert ask(hub.origin, path, method) == status


@pytest.mark.parametrize("path", ["/api/whoami-v2", "/owner/none/resolve/main/a"])
def test_a_token_at_another_origin_is_noticed(path, running_hub):
    first = len(running_hub.log)
    ask(running_hub.storage_origin, path)
    check_log(running_hub, first)
    ask(running_hub.storage_origin, path, token=TOKENS["owner"])
    with pytest.raises(AssertionError):
        check_log(running_hub, first)


def test_a_request_that_the_hub_does_not_know_is_noticed(running_hub):
    first = len(running_hub.log)
    assert ask(running_hub.origin, "/api/none") == 404
    with pytest.raises(AssertionError):
        check_log(running_hub, first)
