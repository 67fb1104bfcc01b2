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
"""Reads what a run's folder tells of it: options, data, length, scores, and the commands for them.

Read are `run.json` (pre-training, search), `fine_tuning.json`, `recipe.json`, `trainer_state.json`,
the Trainer's `*_results.json` and the results of run_blimp.py; never a pickle. Paths of this
machine become the names of their files.
"""

import json
import ntpath
import os
import posixpath
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .publishing_plan import read_json

PRE_TRAINING, FINE_TUNING = "run.json", "fine_tuning.json"
# What a model with that head is fine-tuned with.
_FINE_TUNERS = {
    "ForSequenceClassification": "run_glue",
    "ForTokenClassification": "run_tagging",
    "ForQuestionAnswering": "run_qa",
}
_DATA_OPTIONS = (
    "dataset_name",
    "dataset_config_name",
    "task_name",
    "train_file",
    "validation_file",
    "test_file",
)
# Facts about the data, no options.
_FACTS = ("corpus_bytes",)
# Of the Trainer's metrics: how long it took, and what is no score.
_NO_SCORES = (
    "runtime",
    "_per_second",
    "samples",
    "epoch",
    "num_masked_tokens",
    "model_preparation_time",
    "constant_predictions",
)
_BLIMP_KEYS = {"overall", "by_field", "by_term", "by_paradigm", "settings"}
EMBEDDED_TEXT = "the documentation and source text that come with Python"


@dataclass(frozen=True)
class Score:
    """One number that was measured.

    Attributes:
        metric: Its name, without `eval_`.
        value: The number.
        data: What it was measured on.
        data_id: Data set's name on the Hub, or "local".
    """

    metric: str
    value: float
    data: str
    data_id: str = "local"


@dataclass(frozen=True)
class RunRecord:
    """What is known of a run.

    Attributes:
        kind: "pre-training", "fine-tuning" or "none".
        options: Options as they were recorded, paths shortened.
        data: Names of the training data.
        facts: Further facts by name, for people.
        recipe: Settings by name, each with value, source and note.
        scores: What was measured.
        commands: Command lines that give the scores.
    """

    kind: str = "none"
    options: dict[str, Any] = field(default_factory=dict)
    data: tuple[str, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    recipe: dict[str, dict[str, Any]] = field(default_factory=dict)
    scores: tuple[Score, ...] = ()
    commands: tuple[str, ...] = ()


def read_run(folder: Path, model_class: str, repo_id: str, script: str | None = None) -> RunRecord:
    """Returns what a folder tells of the run that filled it.

    Args:
        folder: The folder of the run.
        model_class: Name of the model's class, which tells what it was fine-tuned with.
        repo_id: Where the model will be found, for commands that score it.
        script: Name of the example that ran, where the records do not tell.

    Raises:
        ValueError: A record is damaged.
    """
    recorded, kind = read_json(folder / FINE_TUNING), "fine-tuning"
    if not recorded:
        recorded, kind = read_json(folder / PRE_TRAINING), "pre-training"
    options = {name: shorten(value) for name, value in recorded.items()}
    state = read_json(folder / "trainer_state.json")
    data = _name_data(options) if options else ()
    blimp, blimp_commands = _read_blimp(folder, repo_id)
    scores = _read_scores(folder, options, data)
    if script is None and options:
        script = "run_pretraining" if kind == "pre-training" else _find_fine_tuner(model_class)
    # A search's scores are in its own table.
    commands = (make_command(script, _list_options(options, state)),) if scores and script else ()
    settings = read_json(folder / "recipe.json").get("settings", {})
    return RunRecord(
        kind=kind if options else "none",
        options=options,
        data=data,
        facts=_collect_facts(options, state, read_json(folder / "train_results.json")),
        recipe={name: _shorten_values(setting) for name, setting in settings.items()},
        scores=(*scores, *blimp),
        commands=(*commands, *blimp_commands),
    )


def shorten(value: Any) -> Any:
    """Returns a value whose paths of this machine are reduced to their last name."""
    if isinstance(value, list):
        return [shorten(item) for item in value]
    if not isinstance(value, str):
        return value
    # "@folder" names a search.
    mark, path = ("@", value[1:]) if value.startswith("@") else ("", value)
    is_path = os.path.isabs(path) or ntpath.isabs(path) or path.startswith((".", "~"))
    if not is_path and not ("/" in path and Path(path).exists()):
        return value
    name = ntpath.basename(posixpath.basename(path.rstrip("/\\")))
    return f"{mark}{name or 'folder'}"


def _shorten_values(setting: Any) -> dict[str, Any]:
    values = setting if isinstance(setting, dict) else {"value": setting}
    return {name: shorten(value) for name, value in values.items()}


def _name_data(options: Mapping[str, Any]) -> tuple[str, ...]:
    names = [
        f"`{options[name]}` ({name})" for name in _DATA_OPTIONS if options.get(name) is not None
    ]
    return tuple(names) or (EMBEDDED_TEXT,)


def _find_fine_tuner(model_class: str) -> str | None:
    return next((script for end, script in _FINE_TUNERS.items() if model_class.endswith(end)), None)


def _collect_facts(
    options: Mapping[str, Any], state: Mapping[str, Any], trained: Mapping[str, Any]
) -> dict[str, str]:
    facts: dict[str, str] = {}
    for name in ("train_documents", "validation_documents", "corpus_bytes"):
        if isinstance(options.get(name), int):
            facts[name.replace("_", " ")] = f"{options[name]:,}"
    values = {
        "optimizer steps": state.get("global_step"),
        "rows a device and step": state.get("train_batch_size"),
        "tokens seen in training": trained.get(
            "num_input_tokens_seen", state.get("num_input_tokens_seen")
        ),
        "rows of training": trained.get("train_samples"),
    }
    facts |= {name: f"{value:,}" for name, value in values.items() if value}
    rates = [entry["learning_rate"] for entry in state.get("log_history", []) if _has_rate(entry)]
    if rates:
        facts["highest learning rate in the log"] = f"{max(rates):.3g}"
    numbers = {"mean training loss": "train_loss", "seconds of training": "train_runtime"}
    for name, key in numbers.items():
        if isinstance(trained.get(key), int | float):
            facts[name] = f"{trained[key]:,.4g}"
    return facts


def _has_rate(entry: Mapping[str, Any]) -> bool:
    return isinstance(entry.get("learning_rate"), int | float)


def _read_scores(
    folder: Path, options: Mapping[str, Any], data: tuple[str, ...]
) -> tuple[Score, ...]:
    """Returns the scores of validation, for several trials their means."""
    values = read_json(folder / "eval_results.json")
    where = options.get("validation_file") or f"validation part of {' and '.join(data)}"
    if _lacks_validation_file(options):
        where = "a validation file whose name was not recorded"
    everything = read_json(folder / "all_results.json")
    if isinstance(everything.get("mean"), dict):
        values = everything["mean"]
        where += f", mean of {everything.get('num_trials')} trials"
    where = where.replace("`", "")
    data_id = str(options.get("dataset_name") or "local")
    return tuple(
        Score(name.removeprefix("eval_"), float(value), where, data_id)
        for name, value in sorted(values.items())
        if name.startswith("eval_")
        and isinstance(value, int | float)
        and not name.endswith(_NO_SCORES)
    )


def _lacks_validation_file(options: Mapping[str, Any]) -> bool:
    """Returns whether a fine-tuning on files did not record which file it was scored on."""
    named = ("validation_file", "dataset_name", "task_name")
    return "do_train" in options and all(options.get(name) is None for name in named)


def _read_blimp(folder: Path, repo_id: str) -> tuple[list[Score], list[str]]:
    """Returns accuracies that run_blimp.py left in the folder, and its command lines."""
    scores, commands = [], []
    for path in sorted(folder.glob("*.json")):
        content = _read_other(path)
        if not content.keys() >= _BLIMP_KEYS:
            continue
        settings = {name: shorten(value) for name, value in content["settings"].items()}
        overall, data = content["overall"], settings.get("blimp_dir", "minimal pairs")
        where = f"{data}, {overall['pairs']:,} minimal pairs, {settings.get('metric')}"
        scores.append(Score("minimal_pair_accuracy", float(overall["accuracy"]), where))
        settings |= {"model_name_or_path": repo_id, "model_revision": None}
        settings |= {"output_file": path.name, "trust_remote_code": True}
        commands.append(make_command("run_blimp", settings))
    return scores, commands


def _read_other(path: Path) -> dict[str, Any]:
    """Returns the object in a JSON file that may hold anything, an empty one for all else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _list_options(options: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a run's options for its command line, with what the Trainer's state adds."""
    listed = {
        name: value
        for name, value in options.items()
        if name not in _FACTS and not name.endswith("_documents")
    }
    # Kept as stages: the same run, said in another way.
    stages = listed.get("stages")
    if listed.get("recipe") is None and isinstance(stages, list) and len(stages) == 1:
        share, length, batch = str(stages[0]).split(":")
        if (float(share), float(batch)) == (1.0, 1.0):
            listed = {**listed, "stages": None, "max_seq_length": int(length)}
    more = {"max_steps": "max_steps", "per_device_train_batch_size": "train_batch_size"}
    for option, key in more.items():
        if isinstance(state.get(key), int) and state[key] > 0:
            listed.setdefault(option, state[key])
    if "do_train" in listed:
        listed |= {"do_eval": True, "trust_remote_code": True}
    if _lacks_validation_file(options):
        listed["validation_file"] = "the-validation-file"
    return {**listed, "output_dir": "run"}


def make_command(script: str, options: Mapping[str, Any]) -> str:
    """Returns a command line of an example; options that are None are left out."""
    flags = []
    for name, value in options.items():
        if value is None:
            continue
        values = value if isinstance(value, list) else [value]
        words = [str(item).lower() if isinstance(item, bool) else str(item) for item in values]
        flags.append(" ".join([f"--{name}", *map(shlex.quote, words)]))
    lines = [f"python examples/{script}.py"]
    for flag in flags:
        if len(lines[-1]) + len(flag) > 88:
            lines.append(flag)
        else:
            lines[-1] += f" {flag}"
    return " \\\n    ".join(lines)


def make_search_command(record: RunRecord, result: Mapping[str, Any], state: Any) -> str:
    """Returns the command line of a search.

    Args:
        record: Of the supernet's training.
        result: Content of `search_result.json`.
        state: Content of the supernet's `trainer_state.json`.
    """
    options = {**_list_options(record.options, state), **result.get("settings", {})}
    # Both belong to the supernet alone.
    options |= {"layer_order": None, "seed": result.get("seed"), "output_dir": "run"}
    return make_command("run_search", options)
