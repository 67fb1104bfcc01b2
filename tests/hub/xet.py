"""Xet transfer: chunks are uploaded in xorbs, a shard says which chunks make up which file."""

import hashlib
import re
import time
from pathlib import Path
from typing import Any

from starlette.responses import FileResponse, Response

from tests.hub.calls import Call, Routes, answer
from tests.hub.repositories import HubError, Objects
from tests.hub.xet_format import Chunk, ShardFile, Term, read_chunks, read_shard

routes = Routes()
TOKEN_SECONDS = 3600
# What clients try first and may do without: grants, deduplication across repositories, newer forms.
NOT_OFFERED = (
    "/v1/xorb-grants/default/{hash}",
    "/v1/chunks/default/{hash}",
    "/v2/shards",
    "/v2/reconstructions/{hash}",
)


class XetStore:
    """Xorbs in a folder, and how the files known so far are put together from them."""

    def __init__(self, folder: Path, objects: Objects):
        self.folder = folder
        self.objects = objects
        self.chunks: dict[str, list[Chunk]] = {}
        self.files: dict[str, ShardFile] = {}
        self.hash_of: dict[str, str] = {}
        self.rights: dict[str, str] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def add_xorb(self, name: str, content: bytes) -> bool:
        if re.fullmatch("[0-9a-f]{64}", name) is None:
            raise HubError(400, f"{name!r} is no hash")
        known = name in self.chunks
        self.chunks[name] = read_chunks(content)
        (self.folder / name).write_bytes(content)
        return not known

    def add_shard(self, content: bytes) -> None:
        for file in read_shard(content):
            whole = b"".join(self.content(term) for term in file.terms)
            sha256 = hashlib.sha256(whole).hexdigest()
            if file.sha256 not in (None, sha256):
                raise ValueError(f"a file has the SHA-256 {sha256}, not the {file.sha256} stated")
            self.objects.add(whole)
            self.files[file.xet_hash] = file
            self.hash_of[sha256] = file.xet_hash

    def content(self, term: Term) -> bytes:
        if term.xorb not in self.chunks:
            raise ValueError(f"the xorb {term.xorb} was not uploaded")
        chunks = self.chunks[term.xorb][term.first : term.last]
        content = b"".join(chunk.content for chunk in chunks)
        if len(content) != term.length:
            raise ValueError(f"a term has {len(content)} bytes, not the {term.length} stated")
        return content

    def fetch_ranges(self, terms: list[Term]) -> dict[str, list[tuple[int, int]]]:
        """Returns the chunks to fetch of each xorb, as ranges that do not overlap.

        hf_xet panics where ranges of a xorb overlap.
        """
        ranges: dict[str, list[tuple[int, int]]] = {}
        for term in sorted(terms, key=lambda term: (term.xorb, term.first)):
            merged = ranges.setdefault(term.xorb, [])
            if merged and term.first <= merged[-1][1]:
                first, last = merged.pop()
                merged.append((first, max(last, term.last)))
            else:
                merged.append((term.first, term.last))
        return ranges


def _check(hub: Any, call: Call, wanted: str) -> None:
    """Refuses a call whose access token was not handed out for this kind of transfer."""
    right = hub.xet.rights.get(call.bearer)
    if right is None or (wanted == "write" and right != "write"):
        raise HubError(401, f"no access token to {wanted}")


@routes.add("GET", "/api/{kind}/{namespace}/{name}/xet-{right}-token/{revision}")
def give_token(hub: Any, call: Call) -> Response:
    repository = hub.repository(call)
    right = call.names["right"]
    # A pull request has no revision yet.
    proposal = call.query.get("create_pr") == "1"
    if right == "write":
        repository.check_write(call.user, proposal)
    if not proposal:
        repository.commit_at(call.names["revision"])
    token = f"xet-{right}-{len(hub.xet.rights)}"
    hub.xet.rights[token] = right
    expiry = int(time.time()) + TOKEN_SECONDS
    headers = {
        "X-Xet-Cas-Url": hub.storage_origin,
        "X-Xet-Token-Expiration": str(expiry),
        "X-Xet-Access-Token": token,
    }
    content = {"casUrl": hub.storage_origin, "exp": expiry, "accessToken": token}
    return answer(content, headers=headers)


@routes.add("POST", "/v1/xorbs/default/{hash}", upload=True)
def take_xorb(hub: Any, call: Call) -> Response:
    _check(hub, call, "write")
    return answer({"was_inserted": hub.xet.add_xorb(call.names["hash"], call.body)})


@routes.add("POST", "/v1/shards", upload=True)
def take_shard(hub: Any, call: Call) -> Response:
    _check(hub, call, "write")
    hub.xet.add_shard(call.body)
    return answer({"result": 1})


@routes.add("POST", "/v1/telemetry")
def take_telemetry(hub: Any, call: Call) -> Response:
    return answer({})


def refuse(hub: Any, call: Call) -> Response:
    raise HubError(404, "not offered")


for not_offered in NOT_OFFERED:
    routes.add("GET POST", not_offered)(refuse)


@routes.add("GET", "/v1/reconstructions/{hash}")
def tell_reconstruction(hub: Any, call: Call) -> Response:
    _check(hub, call, "read")
    file = hub.xet.files.get(call.names["hash"])
    if file is None:
        raise HubError(404, "no such file")
    length = sum(term.length for term in file.terms)
    first, last = 0, length - 1
    if "range" in call.headers:
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", call.headers["range"])
        if match is None or int(match[1]) >= length:
            raise HubError(416, "the range lies past the end")
        first, last = int(match[1]), int(match[2] or last)
    return answer(_reconstruction(hub, file.terms, first, last))


def _reconstruction(hub: Any, all_terms: tuple[Term, ...], first: int, last: int) -> dict[str, Any]:
    """Returns the terms that overlap the bytes [first, last], and where to fetch their chunks."""
    terms, start, offset = [], 0, 0
    for term in all_terms:
        if start <= last and start + term.length > first:
            if not terms:
                offset = first - start
            terms.append(term)
        start += term.length
    fetch: dict[str, list[dict[str, Any]]] = {}
    for xorb, ranges in hub.xet.fetch_ranges(terms).items():
        chunks = hub.xet.chunks[xorb]
        fetch[xorb] = [
            {
                "range": {"start": begin, "end": end},
                "url": hub.storage_url(f"xorbs/{xorb}"),
                "url_range": {"start": chunks[begin].start, "end": chunks[end - 1].end - 1},
            }
            for begin, end in ranges
        ]
    described = [
        {
            "hash": term.xorb,
            "unpacked_length": term.length,
            "range": {"start": term.first, "end": term.last},
        }
        for term in terms
    ]
    return {"offset_into_first_range": offset, "terms": described, "fetch_info": fetch}


@routes.add("GET", "/storage/xorbs/{hash}")
def give_xorb(hub: Any, call: Call) -> Response:
    hub.check_signature(call)
    if call.names["hash"] not in hub.xet.chunks:
        raise HubError(404, "no such xorb")
    return FileResponse(hub.xet.folder / call.names["hash"])
