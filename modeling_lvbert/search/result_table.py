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
"""A search's result as text: the best order beside the baselines, scored in the same way."""

from collections.abc import Mapping
from typing import Any

_COLUMNS = (
    "Order",
    "",
    "Accuracy",
    "Loss",
    "Best's gain in {}",
    "Parameters without heads",
    "FLOPs",
)
_HEADING = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}"


def format_result(result: Mapping[str, Any]) -> str:
    """Returns the table of a result, as Markdown, and a line on how the search ended.

    Gains and their standard errors are paired: of the same rows.

    Args:
        result: Content of `search_result.json`, with `rank_check` where there was one.
    """
    fitness = result["settings"]["fitness"]
    best = {"order": result["best_order"], **result["fitness"]}
    best |= {name: result[name] for name in ("parameters", "flops")}
    lines = [_HEADING.format(fitness), _format_row("best", best, fitness)]
    lines += [_format_row(name, entry, fitness) for name, entry in result["baselines"].items()]
    lines.append("")
    lines.append(
        f"{result['evaluated']} orders were scored on {result['scored_rows']} rows; "
        f"{result['ended']}."
    )
    if check := result.get("rank_check"):
        lines += [_format_check(name, check[name]) for name in _CHECKED if name in check]
    return "\n".join(lines)


_CHECKED = {"all": "all orders", "with_convolution": "orders that contain a convolution"}


def _format_row(name: str, entry: Mapping[str, Any], fitness: str) -> str:
    gain, key = "", f"best_{fitness}_minus_this"
    if key in entry:
        # A lower loss is a gain.
        value = entry[key] if fitness == "accuracy" else -entry[key]
        gain = f"{value:+.4f} ± {entry[f'{key}_paired_standard_error']:.4f}"
    accuracy = f"{entry['accuracy']:.4f} ± {entry['accuracy_standard_error']:.4f}"
    loss = f"{entry['loss']:.4f} ± {entry['loss_standard_error']:.4f}"
    return (
        f"| {name.replace('_', ' ')} | `{entry['order']}` | {accuracy} | {loss} | {gain} | "
        f"{entry['parameters']:,} | {entry['flops']:,} |"
    )


def _format_check(name: str, check: Mapping[str, Any]) -> str:
    parts = [
        f"{key} {check[key]['tau']:.2f} ({check[key]['low']:.2f} to {check[key]['high']:.2f})"
        for key in ("accuracy", "loss")
    ]
    return (
        f"Kendall's tau of {check['orders']} orders trained from scratch, {_CHECKED[name]}, with "
        f"its 95% interval: {', '.join(parts)}."
    )
