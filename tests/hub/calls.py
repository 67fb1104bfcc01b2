"""Requests as the server's routes see them, the table of routes, and JSON answers."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

from starlette.responses import Response

from tests.hub.repositories import HubError, User


@dataclass
class Call:
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    user: User | None = None
    names: dict[str, str] = field(default_factory=dict)

    @property
    def bearer(self) -> str | None:
        """The token sent, None where there is none."""
        header = self.headers.get("authorization")
        return header.removeprefix("Bearer ") if header is not None else None

    @property
    def origin(self) -> str:
        """Where the client believes the server to be."""
        return f"http://{self.headers['host']}"

    def json(self) -> Any:
        return json.loads(self.body) if self.body else {}

    def form(self) -> dict[str, list[str]]:
        return parse_qs(self.body.decode())


Handler = Callable[[Any, Call], Response]
# Methods, pattern, handler, and whether the route takes part in an upload.
Route = tuple[set[str], re.Pattern[str], Handler, bool]


class Routes:
    """Handlers by method and path; what lies between slashes is unquoted after the match.

    Revisions hold quoted slashes (`feature%2Fx`), which a router of unquoted paths would split.
    """

    def __init__(self) -> None:
        self.routes: list[Route] = []

    def add(self, methods: str, pattern: str, upload: bool = False) -> Callable[[Handler], Handler]:
        """Returns a decorator. In the pattern `{name}` is one part, `{name*}` all that follows."""
        expression = re.sub(r"\{(\w+)\*\}", r"(?P<\1>.+)", re.sub(r"\.", r"\\.", pattern))
        expression = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", expression)

        def register(handler: Handler) -> Handler:
            self.routes.append((set(methods.split()), re.compile(expression), handler, upload))
            return handler

        return register

    def find(self, call: Call) -> tuple[Handler, bool] | None:
        """Returns the handler of a call, having set the call's names. HEAD goes where GET does."""
        method = "GET" if call.method == "HEAD" else call.method
        for methods, pattern, handler, upload in self.routes:
            match = pattern.fullmatch(call.path)
            if match is not None and method in methods:
                call.names = {name: unquote(value) for name, value in match.groupdict().items()}
                return handler, upload
        return None


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Returns a JSON answer."""
    return Response(json.dumps(value), status, headers, media_type="application/json")


def refusal(error: HubError) -> Response:
    """Returns the answer that makes the client raise the exception meant for this error."""
    message = str(error).encode("ascii", "replace").decode().strip()
    headers = {"X-Error-Message": message}
    if error.code is not None:
        headers["X-Error-Code"] = error.code
    if error.commit:
        headers["X-Repo-Commit"] = error.commit
    return answer({"error": message}, error.status, headers)
