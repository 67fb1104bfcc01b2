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
"""A run's folder: whose it is, its checkpoints, and files that appear complete or not at all.

Everything is written into a folder of another name first and renamed when it is whole, so that a
run killed at any instant, or on a full disk, leaves its last complete checkpoint.
"""

import json
import os
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

RUN_FILE = "run.json"
STATE_FILE = "trainer_state.json"
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
# One of these holds the optimizer: of one or several whole copies, of FSDP, of DeepSpeed.
_OPTIMIZER_FILES = ("optimizer.pt", "optimizer.bin", "optimizer_0", "latest")
_WEIGHTS_FILES = ("*.safetensors", "pytorch_model*", "global_step*")
_OTHER_FILES = (("scheduler.pt",), ("rng_state*.pth",))
# Where a checkpoint or a model is written before it is whole.
UNFINISHED = ".unfinished"


def find_last_checkpoint(output_dir: str) -> str | None:
    """Returns a folder's newest checkpoint whose files are all there, None if there is none."""
    found = [
        (int(match[1]), path)
        for path in Path(output_dir).glob("checkpoint-*")
        if (match := _CHECKPOINT.fullmatch(path.name)) and _is_complete(path)
    ]
    return str(max(found)[1]) if found else None


def _is_complete(checkpoint: Path) -> bool:
    """Tells whether a run can go on from a checkpoint, also from one that others have damaged."""
    # DeepSpeed has an archive of its own.
    is_ours = not (checkpoint / "latest").exists()
    wanted = [_OPTIMIZER_FILES, _WEIGHTS_FILES, *(_OTHER_FILES if is_ours else [])]
    if not all(any(any(checkpoint.glob(name)) for name in names) for names in wanted):
        return False
    try:
        read_state(checkpoint)
    except (OSError, ValueError):
        return False
    archives = (path for pattern in ("*.pt", "*.pth", "*.bin") for path in checkpoint.glob(pattern))
    return all(_is_whole(path) for path in checkpoint.glob("*.safetensors")) and all(
        zipfile.is_zipfile(path) for path in archives
    )


def read_state(checkpoint: str | Path) -> dict[str, Any]:
    """Returns the Trainer's state in a checkpoint.

    Raises:
        ValueError: The file holds something else.
    """
    state = json.loads(Path(checkpoint, STATE_FILE).read_text(encoding="utf-8"))
    step = state.get("global_step") if isinstance(state, dict) else None
    if not isinstance(step, int) or step < 0:
        raise ValueError(f"{str(checkpoint)!r}: {STATE_FILE} tells no step")
    return dict(state)


def _is_whole(path: Path) -> bool:
    """Tells whether a file of weights is as long as its header says."""
    try:
        with path.open("rb") as file:
            header_size = int.from_bytes(file.read(8), "little")
            if header_size > path.stat().st_size:
                return False
            header = json.loads(file.read(header_size))
        ends = [
            entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"
        ]
    except (ValueError, KeyError, AttributeError, TypeError):
        return False
    return path.stat().st_size == 8 + header_size + max(ends, default=0)


def clear_unfinished(output_dir: str | Path) -> Path:
    """Returns an empty folder to write in; what an interrupted run left there is removed."""
    folder = Path(output_dir, UNFINISHED)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def publish_checkpoint(finished: Path, output_dir: str | Path) -> None:
    """Lets a checkpoint appear under its name, at once and whole.

    Args:
        finished: The checkpoint, complete, in the folder of `clear_unfinished`.
        output_dir: The run's folder; an earlier checkpoint of that name is replaced.
    """
    _write_through(finished)
    target = Path(output_dir, finished.name)
    replaced = finished.with_name("replaced")
    if target.exists():
        target.rename(replaced)
    finished.rename(target)
    shutil.rmtree(finished.parent)


def publish_files(finished: Path, target: str | Path) -> None:
    """Moves the files of a folder into another one, the weights last, and removes the first.

    Args:
        finished: Folder of complete files and folders.
        target: Where to; files of the same names are replaced.
    """
    _write_through(finished)
    files = [path for path in finished.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: path.suffix == ".safetensors"):
        place = Path(target, path.relative_to(finished))
        place.parent.mkdir(parents=True, exist_ok=True)
        path.replace(place)
    shutil.rmtree(finished)


def name_temporary(path: Path) -> Path:
    """Returns the name that a file has while it is written."""
    return path.with_name(f"{path.name}.tmp")


def write_json(path: Path, content: Any) -> None:
    """Writes a JSON file that appears at once and whole; another of that name is replaced."""
    temporary = name_temporary(path)
    temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)


def _write_through(folder: Path) -> None:
    """Makes the system write a folder's files to the disk before they get their names."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())


def claim_output_dir(output_dir: str, settings: dict[str, Any]) -> None:
    """Makes a folder this run's own, or checks that it is already.

    Args:
        output_dir: A new or empty folder, or that of an earlier start of the same run.
        settings: What makes the run what it is: model, data, tokenizer, masking; JSON values.

    Raises:
        ValueError: The folder holds other things or a run with other settings, has a damaged
            record, lies on or under a file, or cannot be written.
    """
    folder = Path(output_dir)
    record = folder / RUN_FILE
    if record.is_file():
        earlier = _read_record(record)
        changed = [
            f"{name} was {earlier.get(name)!r}, now {settings.get(name)!r}"
            for name in sorted({*earlier, *settings})
            if earlier.get(name) != settings.get(name)
        ]
        if changed:
            raise ValueError(
                f"output_dir {output_dir!r} holds another run ({'; '.join(changed)}): "
                "take a new folder"
            )
        return
    lowest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not lowest.is_dir():
        raise ValueError(f"output_dir {output_dir!r}: {str(lowest)!r} is a file, no folder")
    temporary = name_temporary(record)
    if folder.is_dir() and any(path != temporary for path in folder.iterdir()):
        raise ValueError(
            f"output_dir {output_dir!r} is not empty and holds no run of this program: "
            "take a new folder"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(record, dict(sorted(settings.items())))
    except OSError as error:
        raise ValueError(f"output_dir {output_dir!r} cannot be written: {error}") from None


def _read_record(record: Path) -> dict[str, Any]:
    try:
        earlier = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{str(record)!r} cannot be read ({error}): take a new folder") from None
    if not isinstance(earlier, dict):
        raise ValueError(f"{str(record)!r} is no record of a run: take a new folder")
    return earlier
