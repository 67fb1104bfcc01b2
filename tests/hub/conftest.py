"""The Hub on loopback, once for all tests, and who its users are."""

import re

import pytest

from tests.hub.client import Client
from tests.hub.repositories import User
from tests.hub.server import Hub

# Shaped like the real ones, so that whoever looks for tokens in a folder finds them.
TOKENS = {
    "owner": "hf_" + "Ownr" * 8 + "aB",
    "reader": "hf_" + "Read" * 8 + "cD",
    "other": "hf_" + "Othr" * 8 + "eF",
}
USERS = {
    TOKENS["owner"]: User("owner", organizations=("team",)),
    TOKENS["reader"]: User("owner", role="read", organizations=("team",)),
    TOKENS["other"]: User("other"),
}
# What the client asks of any Hub once, and does without.
OPTIONAL_PATH = re.compile(r"/api/\w+-harnesses")


@pytest.fixture(scope="session")
def running_hub(tmp_path_factory):
    with Hub(tmp_path_factory.mktemp("hub"), USERS) as hub:
        yield hub


@pytest.fixture
def hub(running_hub):
    """The Hub; afterwards nothing failed in it, nothing unknown was asked, no token got away."""
    first = len(running_hub.log)
    yield running_hub
    running_hub.mend()
    assert running_hub.failures == []
    check_log(running_hub, first)


def check_log(hub, since):
    entries = hub.log[since:]
    unknown = {entry.path for entry in entries if not entry.known}
    assert not [path for path in unknown if not OPTIONAL_PATH.fullmatch(path)]
    hosts = {entry.host for entry in entries}
    assert hosts <= {origin.removeprefix("http://") for origin in (hub.origin, hub.storage_origin)}
    elsewhere = [entry for entry in entries if f"http://{entry.host}" != hub.origin]
    assert not [entry for entry in elsewhere if entry.token in TOKENS.values()]


@pytest.fixture
def new_client(hub, tmp_path):
    """Makes machines with empty caches, for users by name, None for nobody."""
    machines = []

    def make(user="owner", mode="xet"):
        machines.append(tmp_path / f"machine{len(machines)}")
        return Client(hub, machines[-1], mode, TOKENS.get(user))

    return make
