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
"""Whose folder `output_dir` is: nothing that was there before a run is ever overwritten by it."""

import json
from pathlib import Path
from typing import Any

from .whole_files import get_temporary_path, write_text

RUN_FILE = "fine_tuning.json"


def check_output_dir(
    output_dir: str, model: str, settings: dict[str, Any], *, trains: bool
) -> None:
    """Checks that a run may write into a folder, and writes nothing.

    A run may write into a new or empty folder, into that of an earlier start of the same run and,
    if it only scores, into that of the run that made its model.

    Args:
        output_dir: The folder.
        model: Folder or Hub name of the model that the run begins with.
        settings: What makes the run what it is; JSON values.
        trains: Whether the run saves a model.

    Raises:
        ValueError: The folder lies on or under a file, is the model's own, or holds other
            things.
    """
    folder, source = Path(output_dir).resolve(), Path(model).resolve()
    lowest = next(path for path in (folder, *folder.parents) if path.exists())
    if not lowest.is_dir():
        raise ValueError(f"output_dir {output_dir!r}: {str(lowest)!r} is a file, no folder")
    record = folder / RUN_FILE
    if source.is_dir():
        made_here = folder in (source, *source.parents) and record.is_file()
        if made_here and not trains:
            return
        if source == folder:
            raise ValueError(
                f"output_dir {output_dir!r} is the folder of model_name_or_path {model!r}, which "
                "is not overwritten: take a new folder"
            )
    if record.is_file():
        _compare(output_dir, _read(record), settings)
    elif folder.is_dir() and any(path != get_temporary_path(record) for path in folder.iterdir()):
        raise ValueError(
            f"output_dir {output_dir!r} is not empty and holds no run of this program: "
            "take a new folder"
        )


def _read(record: Path) -> dict[str, Any]:
    try:
        earlier = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{str(record)!r} cannot be read: {error}; take a new folder") from None
    if not isinstance(earlier, dict):
        raise ValueError(f"{str(record)!r} is no record of a run: take a new folder")
    return earlier


def _compare(output_dir: str, earlier: dict[str, Any], settings: dict[str, Any]) -> None:
    changed = [
        f"{name} was {earlier.get(name)!r}, now {settings.get(name)!r}"
        for name in sorted({*earlier, *settings})
        if earlier.get(name) != settings.get(name)
    ]
    if changed:
        raise ValueError(
            f"output_dir {output_dir!r} holds another run ({'; '.join(changed)}): take a new folder"
        )


def claim_output_dir(output_dir: str, settings: dict[str, Any]) -> None:
    """Makes a folder that `check_output_dir` let pass this run's own.

    Args:
        output_dir: The folder; made if it is not there.
        settings: What makes the run what it is; JSON values.

    Raises:
        ValueError: The folder cannot be written.
    """
    record = Path(output_dir, RUN_FILE)
    if record.is_file():
        return
    try:
        write_text(record, json.dumps(settings, indent=2, sort_keys=True) + "\n")
    except OSError as error:
        raise ValueError(f"output_dir {output_dir!r} cannot be written: {error}") from None
