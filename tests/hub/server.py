"""A Hub on loopback, for tests of publishing: what huggingface_hub talks to, in a thread.

Both ways of transfer are served, LFS and Xet; the client's HF_HUB_DISABLE_XET chooses. Clients read
HF_ENDPOINT and the rest when they are imported, so they are processes of their own (`client.py`).
Files are stored behind a second name of the same address, as another origin: no token may be sent
there. Not served, so not tested by anything that uses it: gated repositories, quotas, scans, LFS in
parts, copies between repositories.
"""

import re
import secrets
import socket
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tests.hub import commits, lfs, reading, xet
from tests.hub.calls import Call, Routes, answer, refusal
from tests.hub.repositories import HubError, Repositories, Repository, User

routes = Routes()
KINDS = ("models", "datasets", "spaces")
BROKEN_OFF = "uploads are broken off"


@dataclass(frozen=True)
class Logged:
    """What was asked and answered."""

    method: str
    path: str
    host: str
    token: str | None
    status: int
    known: bool


class Hub:
    """The server: its users by token, its repositories, and the log of all requests.

    Attributes:
        users: Who may do what, by token.
        log: Every request answered so far.
        failures: Tracebacks of the server's own errors: a test must find none.
        page_size: How many entries a listing holds before it goes on at another address.
    """

    def __init__(self, folder: Path, users: dict[str, User]):
        self.users = users
        self.repositories = Repositories(folder)
        self.xet = xet.XetStore(folder / "xorbs", self.repositories.objects)
        self.log: list[Logged] = []
        self.failures: list[str] = []
        self.page_size = 1000
        self._signature = secrets.token_hex(8)
        self._uploads_left: int | None = None
        self._at_break: Callable[[], object] | None = None
        # asyncio sends at once, not 40 ms later, where the protocol is named.
        self._socket = socket.socket(proto=socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.origin = f"http://127.0.0.1:{self.port}"
        self.storage_origin = f"http://localhost:{self.port}"
        config = uvicorn.Config(
            self._serve,
            interface="asgi3",
            http="h11",
            ws="none",
            lifespan="off",
            log_level="critical",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))

    def __enter__(self) -> "Hub":
        # Requests wait in the socket's queue until the server takes them.
        self._socket.listen(64)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def break_uploads(self, after: int, then: Callable[[], object] | None = None) -> None:
        """Refuses all requests of uploads but the next `after`, until `mend` is called.

        Args:
            after: Number of requests that bring content and are still served.
            then: Called at the first request that is not, to kill the client for example.
        """
        self._uploads_left = after
        self._at_break = then

    def mend(self) -> None:
        self._uploads_left = self._at_break = None

    def requests(self, pattern: str, method: str = ".*", since: int = 0) -> list[Logged]:
        """Returns the requests from number `since` on whose path holds the pattern."""
        return [
            entry
            for entry in self.log[since:]
            if re.search(pattern, entry.path) and re.fullmatch(method, entry.method)
        ]

    def repository(self, call: Call) -> Repository:
        """Returns the repository that a call names, where its user may see it."""
        kind = call.names.get("kind", "models")
        return self.repositories.get(kind, repository_name(call), call.user)

    def storage_url(self, path: str) -> str:
        """Returns an address that needs no token, for whoever was given it."""
        return f"{self.storage_origin}/storage/{path}?signature={self._signature}"

    def check_signature(self, call: Call) -> None:
        if call.query.get("signature") != self._signature:
            raise HubError(403, "no valid signature")

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            body = await request.body()
        except ClientDisconnect:
            return
        call = Call(
            request.method,
            scope["raw_path"].decode("ascii"),
            dict(request.query_params),
            dict(request.headers),
            body,
        )
        found = next(filter(None, (table.find(call) for table in TABLES)), None)
        response = self._answer(call, found)
        host = call.headers.get("host", "")
        entry = Logged(
            call.method, call.path, host, call.bearer, response.status_code, found is not None
        )
        self.log.append(entry)
        await response(scope, receive, send)

    def _answer(self, call: Call, found: Any) -> Response:
        try:
            if found is None:
                raise HubError(404, f"no route for {call.method} {call.path}")
            handler, is_upload = found
            if is_upload:
                self._count_upload()
            call.user = self._authenticate(call)
            return handler(self, call)
        except HubError as error:
            return refusal(error)
        except Exception:
            self.failures.append(f"{call.method} {call.path}\n{traceback.format_exc()}")
            return answer({"error": "the test's server failed"}, 400)

    def _count_upload(self) -> None:
        if self._uploads_left is None:
            return
        if self._uploads_left > 0:
            self._uploads_left -= 1
            return
        if self._at_break is not None:
            self._at_break()
            self._at_break = None
        raise HubError(403, BROKEN_OFF)

    def _authenticate(self, call: Call) -> User | None:
        """Returns who calls, None for nobody. Storage has tokens of its own."""
        if call.bearer is None or call.path.startswith(("/v1/", "/v2/", "/storage/")):
            return None
        if call.bearer not in self.users:
            raise HubError(401, "Invalid credentials in Authorization header")
        return self.users[call.bearer]


def repository_name(call: Call) -> str:
    return f"{call.names['namespace']}/{call.names['name']}"


@routes.add("GET", "/api/whoami-v2")
def tell_user(hub: Hub, call: Call) -> Response:
    if call.user is None:
        raise HubError(401, "Invalid username or password.")
    token = {"displayName": "test", "role": call.user.role}
    return answer(
        {
            "type": "user",
            "name": call.user.name,
            "fullname": call.user.name,
            "orgs": [{"name": name, "type": "org"} for name in call.user.organizations],
            "isPro": False,
            "auth": {"type": "access_token", "accessToken": token},
        }
    )


def _owned(call: Call) -> tuple[str, str, dict[str, Any]]:
    """Returns the kind and name of the repository that a call's body names, and the body."""
    if call.user is None:
        raise HubError(401, "Invalid username or password.")
    body = call.json()
    namespace = body.get("organization") or call.user.name
    if call.user.role != "write" or not call.user.belongs_to(namespace):
        raise HubError(403, f"no right to create or delete repositories of {namespace}")
    kind = f"{body.get('type') or 'model'}s"
    if kind not in KINDS:
        raise HubError(400, f"unknown type {body['type']!r}")
    return kind, f"{namespace}/{body['name']}", body


def _is_private(body: dict[str, Any]) -> bool | None:
    """Returns what a body says of visibility, None for nothing; clients before 2 have a flag."""
    if "visibility" in body:
        return body["visibility"] == "private"
    return body.get("private")


@routes.add("POST", "/api/repos/create")
def create_repository(hub: Hub, call: Call) -> Response:
    kind, name, body = _owned(call)
    prefix = "" if kind == "models" else f"{kind}/"
    address = {"url": f"{call.origin}/{prefix}{name}", "name": name}
    try:
        hub.repositories.create(
            kind, name, _is_private(body) or False, call.user.name if call.user else ""
        )
    except HubError as error:
        # The client reads the address where the repository may exist already.
        return answer({**address, "error": str(error)}, error.status)
    return answer(address)


@routes.add("DELETE", "/api/repos/delete")
def delete_repository(hub: Hub, call: Call) -> Response:
    kind, name, _ = _owned(call)
    hub.repositories.get(kind, name, call.user)
    hub.repositories.delete(kind, name)
    return answer({})


@routes.add("PUT", commits.REPOSITORY + "/settings")
def change_settings(hub: Hub, call: Call) -> Response:
    repository = hub.repository(call)
    repository.check_write(call.user)
    private = _is_private(call.json())
    if private is not None:
        repository.private = private
    return answer({"visibility": "private" if repository.private else "public"})


@routes.add("GET", commits.REPOSITORY + "/auth-check")
def check_access(hub: Hub, call: Call) -> Response:
    hub.repository(call)
    return answer({})


@routes.add("POST DELETE", commits.REPOSITORY + "/branch/{branch}")
def change_branch(hub: Hub, call: Call) -> Response:
    repository = hub.repository(call)
    repository.check_write(call.user)
    branch = call.names["branch"]
    if call.method == "POST":
        repository.add_branch(branch, call.json().get("startingPoint") or "main")
    elif branch == "main" or repository.branches.pop(branch, None) is None:
        raise HubError(404, f"no branch {branch!r} that could be deleted", "RevisionNotFound")
    return answer({})


@routes.add("POST DELETE", commits.REPOSITORY + "/tag/{revision}")
def change_tag(hub: Hub, call: Call) -> Response:
    repository = hub.repository(call)
    repository.check_write(call.user)
    revision = call.names["revision"]
    if call.method == "POST":
        repository.add_tag(call.json()["tag"], revision)
    elif repository.tags.pop(revision, None) is None:
        raise HubError(404, f"no tag {revision!r}", "RevisionNotFound")
    return answer({})


TABLES = (routes, commits.routes, lfs.routes, xet.routes, reading.routes)
