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
"""The orders that were scored, one line each in a file that a kill cannot spoil."""

import json
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

Entry = dict[str, Any]


class History:
    """Entries by order, in the order of their scoring, kept in a file of JSON lines."""

    def __init__(self, path: str | Path, supernet: str) -> None:
        """Reads a file, if there is one; a last line that a kill cut off does not count.

        Args:
            path: The file.
            supernet: What identifies the weights that orders are scored with; entries of other
                weights are dropped.

        Raises:
            ValueError: A line before the last one is damaged.
        """
        self.path = Path(path)
        self.supernet = supernet
        self.entries: dict[str, Entry] = {}
        self._size = 0
        if self.path.is_file():
            for entry, end in _read_entries(self.path):
                if entry.get("supernet") != supernet:
                    logger.info("%s is of another supernet: orders are scored anew", self.path)
                    self.entries, self._size = {}, 0
                    return
                self.entries[entry["order"]] = entry
                self._size = end

    def __contains__(self, order: object) -> bool:
        return order in self.entries

    def __getitem__(self, order: str) -> Entry:
        return self.entries[order]

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, entries: Sequence[Entry], is_writer: bool = True) -> None:
        """Takes entries in and writes them through to the disk.

        Args:
            entries: Entries of new orders.
            is_writer: Whether this process keeps the file.
        """
        entries = [{**entry, "supernet": self.supernet} for entry in entries]
        if is_writer and entries:
            # A cut-off line is overwritten.
            with self.path.open("r+b" if self.path.is_file() else "wb") as file:
                file.truncate(self._size)
                file.seek(self._size)
                for entry in entries:
                    file.write(json.dumps(entry).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
                self._size = file.tell()
        self.entries.update({entry["order"]: entry for entry in entries})


def _read_entries(path: Path) -> Iterator[tuple[Entry, int]]:
    """Yields entries and the byte after each."""
    content = path.read_bytes()
    end = 0
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        is_last = end + len(line) == len(content)
        try:
            entry = json.loads(line)
            known = isinstance(entry, dict) and "order" in entry and line.endswith(b"\n")
        except ValueError:
            known = False
        if not known:
            if is_last:
                return
            raise ValueError(f"{str(path)!r}: line {number} is damaged; take a new folder")
        end += len(line)
        yield entry, end
