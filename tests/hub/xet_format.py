"""The two binary forms that hf_xet uploads: xorbs, which hold chunks, and shards, which hold files.

Lengths are little-endian. A hash is 32 bytes, written as four little-endian numbers of 64 bits.
"""

import struct
from dataclasses import dataclass

import lz4.frame

RAW, LZ4, BYTE_GROUPED_LZ4 = range(3)
CHUNK_HEADER = 8
RECORD = 48
END_OF_FILES = b"\xff" * 32
HAS_VERIFICATION = 1 << 31
HAS_METADATA = 1 << 30


@dataclass(frozen=True)
class Chunk:
    """A piece of a file: where it lies in its xorb, header included, and what it unpacks to."""

    start: int
    end: int
    content: bytes


@dataclass(frozen=True)
class Term:
    """A run of chunks of one xorb, [first, last)."""

    xorb: str
    first: int
    last: int
    length: int


@dataclass(frozen=True)
class ShardFile:
    """How a file is put together, and the SHA-256 that the client states."""

    xet_hash: str
    terms: tuple[Term, ...]
    sha256: str | None


def hash_text(value: bytes) -> str:
    return "".join(f"{number:016x}" for number in struct.unpack("<4Q", value))


def read_chunks(xorb: bytes) -> list[Chunk]:
    """Unpacks a xorb's chunks.

    Raises:
        ValueError: A version or a scheme is unknown, or a length does not fit.
    """
    chunks = []
    position = 0
    while position < len(xorb):
        version, scheme = xorb[position], xorb[position + 4]
        packed = int.from_bytes(xorb[position + 1 : position + 4], "little")
        length = int.from_bytes(xorb[position + 5 : position + 8], "little")
        end = position + CHUNK_HEADER + packed
        if version != 0 or end > len(xorb):
            raise ValueError(f"no chunk of version 0 at byte {position}")
        content = unpack(xorb[position + CHUNK_HEADER : end], scheme)
        if len(content) != length:
            raise ValueError(f"a chunk has {len(content)} bytes, not the {length} stated")
        chunks.append(Chunk(position, end, content))
        position = end
    return chunks


def unpack(payload: bytes, scheme: int) -> bytes:
    if scheme == RAW:
        return payload
    if scheme not in (LZ4, BYTE_GROUPED_LZ4):
        raise ValueError(f"unknown compression scheme {scheme}")
    content = lz4.frame.decompress(payload)
    return content if scheme == LZ4 else ungroup(content)


def ungroup(content: bytes) -> bytes:
    """Puts bytes back that were sorted by their position modulo four."""
    result = bytearray(len(content))
    start = 0
    for offset in range(4):
        count = len(range(offset, len(content), 4))
        result[offset::4] = content[start : start + count]
        start += count
    return bytes(result)


def read_shard(shard: bytes) -> list[ShardFile]:
    """Reads the files that a shard describes; what follows them is not needed here."""
    files = []
    position = RECORD
    while shard[position : position + 32] != END_OF_FILES:
        xet_hash = hash_text(shard[position : position + 32])
        flags, count = struct.unpack_from("<II", shard, position + 32)
        position += RECORD
        terms = tuple(read_term(shard, position + RECORD * index) for index in range(count))
        position += RECORD * count * (2 if flags & HAS_VERIFICATION else 1)
        sha256 = None
        if flags & HAS_METADATA:
            sha256 = hash_text(shard[position : position + 32])
            position += RECORD
        files.append(ShardFile(xet_hash, terms, sha256))
    return files


def read_term(shard: bytes, position: int) -> Term:
    _, length, first, last = struct.unpack_from("<4I", shard, position + 32)
    return Term(hash_text(shard[position : position + 32]), first, last, length)
