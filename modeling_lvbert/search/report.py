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
"""Pictures of a search, from its history: what was scored, what won, and how they differ.

An entry of the history has an `order`, its `generation` and `parents`, `metrics` with accuracy and
loss, and its `parameters`. As with the pictures of pre-training, nothing is drawn where matplotlib
is missing.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..layer_order import LAYER_NAMES, join_letters, split_words
from ..pretraining.figures import can_draw, new_figure, write_figure
from .evolution import pareto_front, select
from .fitness import find_fitness

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Entries = Sequence[Mapping[str, Any]]

# From the colours of Okabe and Ito, which all kinds of colour vision tell apart; black letters have
# a contrast of at least 5 to 1 on each.
LETTER_COLORS = {"s": "#56B4E9", "f": "#E69F00", "d": "#009E73"}
_BEST_COLOR, _MEDIAN_COLOR, _BRED_COLOR, _DRAWN_COLOR = "#D55E00", "#0072B2", "#56B4E9", "0.7"
_UNITS = {"accuracy": "accuracy", "loss": "loss, nats per token"}
# Share of the orders whose letters are compared with those of all.
_BEST_SHARE = 0.1
# This share of the orders, the best ones, is spread over at least half of the picture's height.
_SHOWN_SHARE, _SHOWN_SPREADS = 0.9, 2.0
# More layers leave no room for letters in the cells.
_MOST_LETTERED = 60


def draw_search_figures(
    history: Entries, orders: Mapping[str, str], folder: str | Path, fitness: str = "accuracy"
) -> None:
    """Draws all pictures of a search into a folder; nothing for an empty history.

    Args:
        history: All scored orders.
        orders: Orders to show layer by layer, by name.
        folder: Where the pictures go.
        fitness: The metric that orders are compared by, "accuracy" or "loss".
    """
    if history and can_draw("figures"):
        folder = Path(folder)
        write_figure(plot_fitness(history, fitness), folder / "fitness_by_generation.png")
        write_figure(plot_letters(history, fitness), folder / "letters_by_depth.png")
        parameters = plot_fitness_against_parameters(history, fitness)
        write_figure(parameters, folder / "fitness_against_parameters.png")
        draw_order_strip(orders, folder / "layer_orders.png")


def draw_order_strip(orders: Mapping[str, str], path: str | Path) -> None:
    """Writes `plot_order_strip` as a PNG of 1600 pixels width, where matplotlib is installed."""
    if orders and can_draw(path):
        write_figure(plot_order_strip(orders), Path(path))


def plot_fitness(history: Entries, fitness: str = "accuracy") -> "Figure":
    """Returns the fitness of all orders by generation, the median, and the best one so far.

    Args:
        history: At least one entry.
        fitness: "accuracy" or "loss"; the lowest loss is the best.
    """
    from matplotlib.ticker import MaxNLocator

    choose = min if fitness == "loss" else max
    by_generation: dict[int, list[float]] = {}
    for entry in history:
        by_generation.setdefault(entry["generation"], []).append(entry["metrics"][fitness])
    numbers = sorted(by_generation)
    best = [choose(by_generation[numbers[0]])]
    for number in numbers[1:]:
        best.append(choose(best[-1], *by_generation[number]))
    medians = [statistics.median(by_generation[number]) for number in numbers]
    figure, (axes,) = new_figure(1, 4.4)
    for is_bred, color, name in (
        (False, _DRAWN_COLOR, "random or given order"),
        (True, _BRED_COLOR, "mutation or crossover"),
    ):
        entries = [entry for entry in history if bool(entry["parents"]) == is_bred]
        axes.scatter(
            [entry["generation"] for entry in entries],
            [entry["metrics"][fitness] for entry in entries],
            color=color,
            s=9,
            label=name,
        )
    axes.plot(numbers, medians, "o-", color=_MEDIAN_COLOR, markersize=4, label="median")
    axes.plot(numbers, best, "o-", color=_BEST_COLOR, markersize=4, label="best so far")
    outside = _focus(axes, [entry["metrics"][fitness] for entry in history], fitness)
    note = f", {outside} of them outside" if outside else ""
    axes.set_title(f"Fitness by generation: {len(history)} orders{note}")
    axes.set_xlabel("generation")
    axes.set_ylabel(_UNITS[fitness])
    axes.set_xlim(numbers[0] - 0.5, numbers[-1] + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    _finish(axes)
    _add_legend(figure, *axes.get_legend_handles_labels())
    return figure


def _focus(axes: "Axes", values: Sequence[float], fitness: str) -> int:
    """Leaves out the worst orders where they would press the others together; tells how many."""
    sign = 1 if fitness == "loss" else -1
    faults = sorted(sign * value for value in values)
    spread = faults[int(_SHOWN_SHARE * (len(faults) - 1))] - faults[0]
    limit = faults[0] + _SHOWN_SPREADS * spread
    if spread <= 0 or faults[-1] <= limit:
        return 0
    ends = sorted((sign * (faults[0] - 0.1 * spread), sign * limit))
    axes.set_ylim(*ends)
    return sum(fault > limit for fault in faults)


def plot_letters(history: Entries, fitness: str = "accuracy") -> "Figure":
    """Returns how often each letter stands at each depth, among the best tenth and among all.

    Args:
        history: At least one entry; all orders have equally many letters.
        fitness: "accuracy" or "loss", what the best are chosen by.
    """
    scores = _rank_values(history, fitness)
    best = select(scores, max(1, round(_BEST_SHARE * len(scores))))
    figure, panels = new_figure(2, 5.6)
    titles = (f"Letters of the best {len(best)} orders", f"Letters of all {len(scores)} orders")
    for axes, orders, title in zip(panels, (best, list(scores)), titles, strict=True):
        _stack_letters(axes, orders)
        axes.set_title(title)
        axes.set_ylabel("share of orders")
        axes.set_ylim(0, 1)
        axes.spines[["top", "right"]].set_visible(False)
    panels[-1].set_xlabel("layer (1: nearest the input)")
    _add_legend(figure, *panels[0].get_legend_handles_labels())
    return figure


def _stack_letters(axes: "Axes", orders: Iterable[str]) -> None:
    columns = list(zip(*map(join_letters, orders), strict=True))
    positions = range(1, len(columns) + 1)
    bottoms = [0.0] * len(columns)
    counts = [Counter(column) for column in columns]
    for letter, color in LETTER_COLORS.items():
        shares = [count[letter] / count.total() for count in counts]
        axes.bar(positions, shares, width=0.9, bottom=bottoms, color=color, label=_name(letter))
        bottoms = [bottom + share for bottom, share in zip(bottoms, shares, strict=True)]
    axes.set_xticks(positions if len(columns) <= _MOST_LETTERED // 2 else positions[::2])


def plot_fitness_against_parameters(history: Entries, fitness: str = "accuracy") -> "Figure":
    """Returns the fitness of all orders against their parameters, and the orders that none beats.

    None is at least as good with no more parameters, and better or smaller.

    Args:
        history: At least one entry.
        fitness: "accuracy" or "loss".
    """
    from matplotlib.ticker import MaxNLocator

    entries = {entry["order"]: entry for entry in history}
    sign = -1 if fitness == "loss" else 1
    objectives = {
        order: (sign * entry["metrics"][fitness], -entry["parameters"])
        for order, entry in entries.items()
    }
    front = pareto_front(objectives)
    figure, (axes,) = new_figure(1, 4.4)
    points = axes.scatter(
        [entry["parameters"] / 1e6 for entry in entries.values()],
        [entry["metrics"][fitness] for entry in entries.values()],
        c=[entry["generation"] for entry in entries.values()],
        cmap="viridis_r",
        s=12,
    )
    axes.plot(
        [entries[order]["parameters"] / 1e6 for order in front],
        [entries[order]["metrics"][fitness] for order in front],
        "o--",
        color=_BEST_COLOR,
        markerfacecolor="none",
        label="no other is as good and as small",
    )
    axes.set_title("Fitness against size")
    axes.set_xlabel("parameters without heads, millions")
    axes.set_ylabel(_UNITS[fitness])
    _finish(axes)
    _add_legend(figure, *axes.get_legend_handles_labels())
    figure.colorbar(points, label="generation", ticks=MaxNLocator(integer=True, min_n_ticks=1))
    return figure


def plot_order_strip(orders: Mapping[str, str]) -> "Figure":
    """Returns one row of coloured layers for each order, with gaps between words.

    Args:
        orders: At least one layer order, by name.
    """
    from matplotlib.patches import Rectangle

    figure, (axes,) = new_figure(1, 1.3 + 0.36 * len(orders))
    longest = max(len(join_letters(order)) for order in orders.values())
    for row, order in enumerate(orders.values()):
        column = 0
        for word in split_words(order):
            for index, letter in enumerate(word, start=1):
                # A wider gap parts two words.
                is_parted = index == len(word) and column + 1 < len(join_letters(order))
                width = 0.8 if is_parted else 0.96
                cell = Rectangle((column, row + 0.1), width, 0.8, fc=LETTER_COLORS[letter])
                axes.add_patch(cell)
                if longest <= _MOST_LETTERED:
                    center = (column + width / 2, row + 0.5)
                    axes.text(*center, letter, ha="center", va="center", fontsize=9)
                column += 1
    axes.set_xlim(0, longest)
    axes.set_ylim(len(orders), 0)
    axes.set_yticks([row + 0.5 for row in range(len(orders))], list(orders))
    step = 1 if longest <= _MOST_LETTERED // 2 else 2
    numbers = range(1, longest + 1, step)
    axes.set_xticks([number - 0.5 for number in numbers], list(map(str, numbers)))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("layer (1: nearest the input)")
    handles = [Rectangle((0, 0), 1, 1, fc=color) for color in LETTER_COLORS.values()]
    _add_legend(figure, handles, [_name(letter) for letter in LETTER_COLORS])
    return figure


def _rank_values(history: Entries, fitness: str) -> dict[str, tuple[float, float]]:
    """Returns values by order, higher is better, the other metric where the fitness ties."""
    return {entry["order"]: find_fitness(entry["metrics"], fitness) for entry in history}


def _name(letter: str) -> str:
    return f"{letter}  {LAYER_NAMES[letter]}"


def _add_legend(figure: "Figure", handles: Sequence[Any], names: Sequence[str]) -> None:
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)


def _finish(axes: "Axes") -> None:
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
