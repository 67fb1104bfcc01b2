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
"""Several runs of a fine-tuning with different seeds, and what they say together.

Small tasks vary with the seed, and some runs collapse: the papers report the median of several. A
trial is finished when its record is there; the others go on from their last whole checkpoint.
"""

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..whole_files import write_json

RECORD = "trial.json"
SUMMARY = "all_results.json"
_LEFT_OUT = ("_runtime", "_per_second", "_samples", "_model_preparation_time")

logger = logging.getLogger(__name__)


def find_checkpoint(folder: Path) -> str | None:
    """Returns the last checkpoint of a run that was written to its end, None if there is none."""
    found = {
        int(match[1]): path
        for path in folder.glob("checkpoint-*")
        if (match := re.fullmatch(r"checkpoint-(\d+)", path.name))
    }
    for step in sorted(found, reverse=True):
        # The state is what the Trainer writes last.
        if _read(found[step] / "trainer_state.json") is not None:
            return str(found[step])
    return None


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def run_trials(
    output_dir: Path,
    seeds: list[int],
    main_metric: str,
    run: Callable[[int, Path], dict[str, float]],
    *,
    writes: bool,
) -> dict[str, Any]:
    """Runs every trial that is not finished, and sums up all of them.

    Args:
        output_dir: Has a folder `seed-N` for each trial.
        seeds: One for each trial.
        main_metric: The metric that says which model is the median and which is best.
        run: Trains with a seed in a folder and returns the metrics.
        writes: Whether this process writes the records: the first of several does.

    Returns:
        The summary, as it stands in `all_results.json`.
    """
    trials = []
    for number, seed in enumerate(seeds, start=1):
        folder = output_dir / f"seed-{seed}"
        record = _read(folder / RECORD)
        if record is None:
            logger.info("trial %s of %s: seed %s", number, len(seeds), seed)
            metrics = run(seed, folder)
            record = {
                "seed": seed,
                "folder": folder.name,
                "degenerate": bool(metrics["eval_constant_predictions"]),
                "metrics": metrics,
            }
            if writes:
                write_json(folder / RECORD, record)
        else:
            logger.info("trial %s of %s: seed %s is finished", number, len(seeds), seed)
        trials.append(record)
    summary = summarize_trials(trials, main_metric)
    if writes:
        write_json(output_dir / SUMMARY, summary)
    _tell(summary)
    return summary


def summarize_trials(trials: list[dict[str, Any]], main_metric: str) -> dict[str, Any]:
    """Returns median, mean, sample standard deviation and best of the trials' metrics.

    Args:
        trials: Their records.
        main_metric: Name of a metric. The median trial is the one with the median, of an even
            number the lower of the two; the first of several with the same value.
    """
    names = [
        name
        for name in trials[0]["metrics"]
        if name.startswith("eval_") and not name.endswith(_LEFT_OUT)
    ]
    # A loss that was no number is null in a record.
    table = np.array(
        [[_to_number(trial["metrics"].get(name)) for name in names] for trial in trials]
    )
    spread = np.std(table, axis=0, ddof=1) if len(trials) > 1 else np.zeros(len(names))
    order = np.argsort(table[:, names.index(main_metric)], kind="stable")
    middle = table[order[(len(trials) - 1) // 2], names.index(main_metric)]
    is_median = table[:, names.index(main_metric)] == middle
    is_best = table[:, names.index(main_metric)] == table[order[-1], names.index(main_metric)]
    best = trials[int(np.argmax(is_best))]
    return {
        "metric": main_metric,
        "num_trials": len(trials),
        "median": dict(zip(names, np.median(table, axis=0).tolist(), strict=True)),
        "mean": dict(zip(names, np.mean(table, axis=0).tolist(), strict=True)),
        "standard_deviation": dict(zip(names, spread.tolist(), strict=True)),
        "best": {name: best["metrics"].get(name) for name in names},
        "median_trial": trials[int(np.argmax(is_median))]["folder"],
        "best_trial": best["folder"],
        "degenerate_trials": [trial["folder"] for trial in trials if trial["degenerate"]],
        "trials": trials,
    }


def _to_number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _tell(summary: dict[str, Any]) -> None:
    metric = summary["metric"]
    logger.info(
        "%s of %s trials: median %.4f (%s), mean %.4f, standard deviation %.4f, best %.4f (%s)",
        metric,
        summary["num_trials"],
        summary["median"][metric],
        summary["median_trial"],
        summary["mean"][metric],
        summary["standard_deviation"][metric],
        summary["best"][metric],
        summary["best_trial"],
    )
    if summary["degenerate_trials"]:
        logger.warning(
            "%s of %s trials always gave the same answer: %s",
            len(summary["degenerate_trials"]),
            summary["num_trials"],
            ", ".join(summary["degenerate_trials"]),
        )
