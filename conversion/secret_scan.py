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
"""Finds what must not leave the machine: access tokens, private keys and paths of this machine.

Patterns find what looks like a secret; a secret that looks like an ordinary word they cannot find.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# Formats that their issuers document. Each is longer than any word that a vocabulary holds.
TOKENS = {
    "Hugging Face token": r"\bhf_[A-Za-z0-9]{20,}",
    "API key": r"\bsk-[A-Za-z0-9_-]{20,}",
    "AWS access key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "GitHub token": r"\b(?:gh[oprsu]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})",
    "GitLab token": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "Slack token": r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    "Google API key": r"\bAIza[A-Za-z0-9_-]{35}",
    "web token": r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.",
    "private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
}
_TOKEN = re.compile("|".join(f"(?P<t{place}>{text})" for place, text in enumerate(TOKENS.values())))
# Two names at least, or one on a drive or after `file:`; what follows a word, a colon or another
# slash is a part of an address or of a relative path. JSON writes a backslash twice.
_PATH = re.compile(
    r"(?<![\w.:/~@%>-])/[\w.@+-]+(?:/[\w.@+ -]*[\w@+-])+/?"
    r"|\bfile:/+[\w.@+-]+"
    r"|(?<![\w])[A-Za-z]:(?:\\{1,2}|/)(?!/)[\w.@+-]+"
    r"|(?<![\w\\])\\{2,4}[\w.-]+\\{1,2}[\w.$-]+"
)
# Files whose words come from the training text: only this machine's own folders are paths there.
VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt")
_SUFFIXES = (".json", ".jsonl", ".md", ".py", ".txt", ".yaml", ".yml", ".csv", ".tsv")


@dataclass(frozen=True)
class Finding:
    """What was found in a file; the secret itself is not kept.

    Attributes:
        file: Path within the folder.
        line: Number of the line, the first is 1; 0 where the file has no lines.
        kind: What it looks like.
    """

    file: str
    line: int
    kind: str

    def __str__(self) -> str:
        """Returns place and kind."""
        return f"{self.file}{f', line {self.line}' if self.line else ''}: {self.kind}"


def is_text(path: Path) -> bool:
    """Returns whether a file's name says that it is text."""
    return path.suffix.lower() in _SUFFIXES or path.name.startswith((".env", "."))


def find_tokens(text: str) -> list[str]:
    """Returns the kinds of all tokens in a text, in their order."""
    kinds = list(TOKENS)
    return [kinds[int(str(match.lastgroup)[1:])] for match in _TOKEN.finditer(text)]


def find_paths(text: str) -> list[str]:
    """Returns all absolute paths in a text."""
    return [match[0] for match in _PATH.finditer(text)]


def list_own_folders(*folders: Path) -> list[str]:
    """Returns paths of this machine that no text may hold: of the home and the given folders."""
    places = {
        form
        for folder in (Path.home(), Path.cwd(), *folders)
        for form in (os.path.abspath(folder), os.path.realpath(folder))
    }
    # A single name, as in "/data", may be a word of a vocabulary.
    return sorted(place for place in places if len(Path(place).parts) > 2)


def scan_text(text: str, file: str, own_folders: Sequence[str] = ()) -> list[Finding]:
    """Returns the tokens and absolute paths in a text, by line.

    Args:
        text: The text.
        file: Its name, for the findings.
        own_folders: Result of `list_own_folders`.
    """
    has_words_of_data = file.rpartition("/")[2] in VOCABULARIES
    findings = []
    for number, line in enumerate(text.split("\n"), start=1):
        findings += [Finding(file, number, kind) for kind in find_tokens(line)]
        if has_words_of_data:
            is_leaking = any(place in line for place in own_folders)
        else:
            is_leaking = bool(find_paths(line)) or any(place in line for place in own_folders)
        if is_leaking:
            findings.append(Finding(file, number, "absolute path"))
    return findings


def scan_folder(folder: Path, own_folders: Sequence[str] = ()) -> list[Finding]:
    """Returns what is found in all files of a folder, weights excepted.

    Binary files are searched for tokens and for this machine's own folders.

    Args:
        folder: The folder.
        own_folders: Result of `list_own_folders`.
    """
    findings = []
    for path, name in list_files(folder):
        if path.suffix == ".safetensors":
            continue
        if is_text(path):
            findings += scan_text(path.read_text(encoding="utf-8"), name, own_folders)
        else:
            content = path.read_bytes().decode("latin-1")
            findings += [Finding(name, 0, kind) for kind in find_tokens(content)]
            if any(place in content for place in own_folders):
                findings.append(Finding(name, 0, "absolute path"))
    return findings


def list_files(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yields all files and links in a folder, sorted, with their path within it; follows no link.

    Args:
        folder: The folder.
    """
    for root, folders, files in os.walk(folder):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(root, name))]
        for name in sorted([*files, *links]):
            path = Path(root, name)
            yield path, path.relative_to(folder).as_posix()


def check_folder(folder: Path, *private: Path) -> None:
    """Checks that no file of a folder holds a token or an absolute path.

    Args:
        folder: What is to be published.
        private: Folders of this machine whose names must not appear.

    Raises:
        ValueError: One does; the message names file and line, and does not repeat the secret.
    """
    findings = scan_folder(folder, list_own_folders(*private))
    if findings:
        shown = "; ".join(map(str, findings[:10]))
        more = f"; and {len(findings) - 10} more" if len(findings) > 10 else ""
        raise ValueError(f"nothing was published, remove this from its source first: {shown}{more}")
