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
"""Decides what of a run is published: the files on a list, and nothing else.

A run's folder is a search's, a training run's or a converter's. Weights, configuration and
tokenizer are read and written anew, the code comes from this package; of all else only the names in
`RECORDS` and `FIGURES` are taken. What stays behind and looks as if it mattered is named in
warnings.
"""

import json
import logging
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .secret_scan import VOCABULARIES, find_paths, find_tokens, is_text, list_files

logger = logging.getLogger(__name__)

RESULT_FILE = "search_result.json"
# Copied as they are, from the search's folder.
RECORDS = (RESULT_FILE, "history.jsonl", "rank_check.json", "latency.json")
FIGURES = (
    "fitness_by_generation.png",
    "letters_by_depth.png",
    "fitness_against_parameters.png",
    "layer_orders.png",
    "layer_weights.png",
    "learning_curves.png",
)
# What may be in a published folder, as patterns of the Hub's client.
ALLOWED = (
    "README.md",
    "config.json",
    "model*.safetensors",
    "model.safetensors.index.json",
    "tokenizer*.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "configuration_*.py",
    "modeling_*.py",
    "layer_order.py",
    *RECORDS,
)
HALVES_FOLDER = "generator"

_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_PICKLES = (".bin", ".ckpt", ".dill", ".joblib", ".npy", ".npz", ".pickle", ".pkl", ".pt", ".pth")
_SECRET_NAMES = re.compile(
    r"(?i)\.env(\..*)?|.*\.(pem|key|p12|pfx|keystore|kdbx)|id_(rsa|dsa|ecdsa|ed25519)(\.pub)?"
    r"|\.netrc|\.npmrc|\.pypirc|\.git-credentials|(token|credentials?|secrets?)(\..*)?"
)
# Of larger files only the first part is searched: logs and caches of data may be huge.
_MOST_BYTES = 1 << 20
_MOST_SHOWN = 8


@dataclass(frozen=True)
class PublishingPlan:
    """Where everything comes from.

    Attributes:
        model_dir: Folder of the weights, the configuration and the tokenizer.
        search_dir: The search's folder, None without a search.
        record_dirs: Folders whose records describe how the weights were made, the nearest first.
        figures: Pictures to copy, by name.
        records: Records of the search to copy, by name.
        checkpoints: Folders of intermediate weights, by optimizer step.
        is_inherited: Whether the weights are the supernet's, cut out, and were not trained alone.
    """

    model_dir: Path
    search_dir: Path | None
    record_dirs: tuple[Path, ...]
    figures: dict[str, Path] = field(default_factory=dict)
    records: dict[str, Path] = field(default_factory=dict)
    checkpoints: dict[int, Path] = field(default_factory=dict)
    is_inherited: bool = False


def make_plan(
    run: Path, model_dir: Path | None = None, checkpoints: bool = False
) -> PublishingPlan:
    """Returns what of a run is published.

    Args:
        run: A search's folder, or that of a trained, fine-tuned or converted model.
        model_dir: Folder of other weights of the same order, trained after the search; None takes
            the search's own, in `best`.
        checkpoints: Whether intermediate checkpoints are published too.

    Raises:
        ValueError: There is no such folder, there is nothing to publish in it, or the weights are
            of another order than the search's best.
    """
    if not run.is_dir():
        raise ValueError(f"search_dir {str(run)!r}: there is no such folder")
    is_search = (run / RESULT_FILE).is_file()
    if model_dir is not None and not is_search:
        raise ValueError(
            f"model_dir {str(model_dir)!r}: search_dir {str(run)!r} holds no {RESULT_FILE}; give "
            "the model's folder as search_dir alone"
        )
    weights = model_dir or (run / "best" if is_search else run)
    _check_model_folder(weights)
    search_dir = run if is_search else None
    if search_dir is not None:
        _check_order(search_dir, weights)
    is_inherited = is_search and model_dir is None
    sources = [run / "supernet"] if is_inherited else [weights]
    figure_dirs = [weights, *([run] if is_search else [])]
    plan = PublishingPlan(
        model_dir=weights,
        search_dir=search_dir,
        record_dirs=tuple(sources),
        figures=_find_inside(figure_dirs, [f"figures/{name}" for name in FIGURES]),
        records=_find_inside([run], list(RECORDS)) if is_search else {},
        checkpoints=_find_checkpoints(weights) if checkpoints else {},
        is_inherited=is_inherited,
    )
    if checkpoints and not plan.checkpoints:
        raise ValueError(f"checkpoints: there is no checkpoint-N in {str(weights)!r}")
    return plan


def _check_model_folder(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise ValueError(
            f"{str(folder)!r} holds no config.json: a search's folder with {RESULT_FILE} and "
            "best/, or the folder of a saved model is needed"
        )
    if not any(folder.glob("model*.safetensors")):
        raise ValueError(
            f"{str(folder)!r} holds no model.safetensors; other formats can run code when they are "
            "opened and are not published: save the model again"
        )
    if not (folder / "tokenizer.json").is_file():
        raise ValueError(f"{str(folder)!r} holds no tokenizer.json: save the tokenizer into it")
    needed = ["config.json", "tokenizer.json", "tokenizer_config.json", "model*.safetensors"]
    for pattern in needed:
        for path in [*folder.glob(pattern), *folder.glob(f"{HALVES_FOLDER}/{pattern}")]:
            if leads_outside(path, folder):
                raise ValueError(f"{str(path)!r} is a link that leads out of its folder: copy it")


def _check_order(search_dir: Path, weights: Path) -> None:
    result, config = read_json(search_dir / RESULT_FILE), read_json(weights / "config.json")
    best, family = str(result.get("best_order")), result.get("model_family")
    # Blanks have no meaning for LV-BERT.
    order = str(config.get("layer_order"))
    orders = [" ".join(text.split()) for text in (best, order)]
    if family == "lvbert":
        orders = [text.replace(" ", "") for text in orders]
    if orders[0] != orders[1] or config.get("model_type") != family:
        raise ValueError(
            f"{str(weights)!r} is a {config.get('model_type')} of the order {order!r}; the best of "
            f"the search in {str(search_dir)!r} is a {family} of the order {best!r}"
        )


def read_json(path: Path) -> dict[str, Any]:
    """Returns the object in a JSON file, an empty one where there is no file.

    Raises:
        ValueError: The file is damaged or holds something else.
    """
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{str(path)!r} cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{str(path)!r}: an object is needed, got {type(content).__name__}")
    return content


def leads_outside(path: Path, folder: Path) -> bool:
    """Returns whether a path, its links followed, lies outside a folder."""
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _find_inside(folders: list[Path], names: list[str]) -> dict[str, Path]:
    """Returns the files of these names, the first folder's where several have one."""
    found: dict[str, Path] = {}
    for folder in folders:
        for name in names:
            path = folder / name
            if path.is_file() and not leads_outside(path, folder):
                found.setdefault(name, path)
    return found


def _find_checkpoints(folder: Path) -> dict[int, Path]:
    found = {
        int(match[1]): path
        for path in folder.glob("checkpoint-*")
        if (match := _CHECKPOINT.fullmatch(path.name))
    }
    for path in found.values():
        if not (path / "config.json").is_file() or not any(path.glob("model*.safetensors")):
            raise ValueError(f"checkpoints: {str(path)!r} holds no config.json or no safetensors")
        for file in path.glob("*"):
            if leads_outside(file, folder):
                raise ValueError(f"{str(file)!r} is a link that leads out of the run: copy it")
    return dict(sorted(found.items()))


def warn_of_what_stays(plan: PublishingPlan) -> None:
    """Names in warnings what is in the run's folders, looks as if it mattered, and is not sent."""
    folders = [plan.search_dir or plan.model_dir, plan.model_dir]
    if plan.is_inherited:
        # Within the search's folder.
        folders = folders[:1]
    for folder in dict.fromkeys(folders):
        reasons: dict[str, list[str]] = {}
        for path, name in list_files(folder):
            if reason := _find_reason(path, folder):
                reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
            logger.warning(
                "not sent, %s: %s%s (in %s)", reason, ", ".join(names[:_MOST_SHOWN]), more, folder
            )


def _find_reason(path: Path, folder: Path) -> str | None:
    """Returns why a file of a run is worth a warning, None if it is not."""
    if path.is_symlink() and leads_outside(path, folder):
        return "links that lead out of the folder"
    if _SECRET_NAMES.fullmatch(path.name):
        return "names of secrets"
    if path.suffix.lower() in _PICKLES or path.suffix.lower().startswith(".distcp"):
        return "pickles, states of the optimizer and other formats than safetensors"
    if is_text(path) and path.is_file():
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8", "replace")
        if find_tokens(text):
            return "text that looks like access tokens"
        if path.name not in VOCABULARIES and find_paths(text):
            return "text with absolute paths"
    return None
