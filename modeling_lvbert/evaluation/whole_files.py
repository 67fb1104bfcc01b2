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
"""Files that appear whole: written under a temporary name, then renamed."""

import json
import math
from pathlib import Path
from typing import Any


def get_temporary_path(path: Path) -> Path:
    """Returns where a file is written before it is renamed."""
    return path.with_name(f".{path.name}.unfinished")


def write_text(path: Path, text: str) -> None:
    """Writes a text file in UTF-8, and makes its folder where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = get_temporary_path(path)
    temporary.write_text(text, encoding="utf-8", newline="\n")
    temporary.replace(path)


def write_json(path: Path, value: Any) -> None:
    """Writes a value as JSON, in which infinite numbers and those that are none become null."""
    text = json.dumps(_replace_unknown(value), indent=2, ensure_ascii=False, allow_nan=False)
    # Names of files may hold what is no UTF-8; the escape is JSON's own.
    write_text(path, text.encode("utf-8", "backslashreplace").decode("utf-8") + "\n")


def _replace_unknown(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _replace_unknown(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_replace_unknown(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
