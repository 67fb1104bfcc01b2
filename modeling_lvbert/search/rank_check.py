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
"""How far to trust the supernet's ranking: orders trained from scratch, and Kendall's tau.

The orders are some of the first generation, which are random, evenly spread over the ranking.
"""

import copy
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import bootstrap, kendalltau

from ..pretraining.checkpoints import write_json

logger = logging.getLogger(__name__)

CONFIDENCE = 0.95
# What a trained model's metrics are called, by objective; the first is there for ELECTRA alone.
_ACCURACIES = ("eval_detection_accuracy", "eval_masked_accuracy")


def choose_orders(ranked: Sequence[str], number: int) -> list[str]:
    """Returns that many orders of a ranking, its first and its last among them.

    Args:
        ranked: Orders, best first.
        number: How many; all where there are fewer.
    """
    if number >= len(ranked):
        return list(ranked)
    places = np.linspace(0, len(ranked) - 1, number).round().astype(int)
    return [ranked[place] for place in places]


def train_orders(
    orders: Sequence[str],
    seeds: Sequence[int],
    train: Callable[[str, int, Path], Mapping[str, float]],
    folder: Path,
    num_steps: int,
    is_main_process: bool,
) -> dict[str, list[dict[str, float]]]:
    """Trains orders from scratch; what an earlier start has trained is taken from the folder.

    Args:
        orders: Layer orders.
        seeds: Each order is trained once with each.
        train: Trains an order with a seed in a folder, and returns its metrics.
        folder: Holds a file of metrics for each training.
        num_steps: Optimizer steps of each training.
        is_main_process: Whether this process writes.

    Returns:
        Accuracy and loss of each training, by order.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results: dict[str, list[dict[str, float]]] = {order: [] for order in orders}
    for number, (order, seed) in enumerate((o, s) for o in orders for s in seeds):
        path = folder / f"{order.replace(' ', '-')}-steps-{num_steps}-seed-{seed}.json"
        if path.is_file():
            results[order].append(json.loads(path.read_text(encoding="utf-8")))
            continue
        total = len(orders) * len(seeds)
        logger.info("rank check: training %s of %s, %s, seed %s", number + 1, total, order, seed)
        metrics = train(order, seed, folder)
        accuracy = next(metrics[name] for name in _ACCURACIES if name in metrics)
        result = {"accuracy": float(accuracy), "loss": float(metrics["eval_loss"])}
        if is_main_process:
            write_json(path, result)
        results[order].append(result)
    return results


def measure_agreement(first: Sequence[float], second: Sequence[float]) -> dict[str, Any]:
    """Returns Kendall's tau of two rankings with its bootstrap interval over orders.

    Args:
        first: A value for each order.
        second: Another one.
    """

    def compute(one: np.ndarray, other: np.ndarray) -> float:
        # A resample of equal values has no ranking.
        return float(np.nan_to_num(kendalltau(one, other).statistic))

    tau = compute(np.asarray(first), np.asarray(second))
    interval = bootstrap(
        (np.asarray(first), np.asarray(second)),
        compute,
        paired=True,
        vectorized=False,
        confidence_level=CONFIDENCE,
        method="percentile",
        n_resamples=2000,
        rng=np.random.default_rng(0),
    ).confidence_interval
    return {
        "tau": tau,
        "confidence": CONFIDENCE,
        "low": float(interval.low),
        "high": float(interval.high),
    }


def summarize(
    inherited: Mapping[str, Mapping[str, float]],
    trained: Mapping[str, Sequence[Mapping[str, float]]],
) -> dict[str, Any]:
    """Returns values of both kinds for each order, and how far the rankings agree.

    The agreement is given for all orders and for those that contain a convolution: others may be
    far behind all of them at a small budget, which makes a ranking look better than it is.

    Args:
        inherited: Accuracy and loss with the supernet's weights, by order.
        trained: Accuracy and loss of each training from scratch, by order.
    """
    rows: list[dict[str, Any]] = [
        {
            "order": order,
            "inherited_accuracy": inherited[order]["accuracy"],
            "inherited_loss": inherited[order]["loss"],
            "accuracy": float(np.mean([run["accuracy"] for run in runs])),
            "loss": float(np.mean([run["loss"] for run in runs])),
            "runs": [dict(run) for run in runs],
        }
        for order, runs in trained.items()
    ]
    with_convolution = [row for row in rows if "d" in row["order"]]
    result: dict[str, Any] = {"orders": rows}
    for name, group in (("all", rows), ("with_convolution", with_convolution)):
        if len(group) >= 3:
            result[name] = {
                "orders": len(group),
                **{
                    key: measure_agreement(
                        [row[f"inherited_{key}"] for row in group], [row[key] for row in group]
                    )
                    for key in ("accuracy", "loss")
                },
            }
    return result


def make_arguments(training_args: Any, folder: Path, seed: int, num_steps: int) -> Any:
    """Returns arguments of a short training in a folder, otherwise those of the supernet's."""
    changed = copy.deepcopy(training_args)
    changed.output_dir = str(folder)
    changed.seed = seed
    changed.max_steps = num_steps
    changed.save_strategy = "no"
    changed.report_to = []
    return changed
