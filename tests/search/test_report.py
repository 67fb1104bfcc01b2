import logging
import struct
import sys

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from modeling_lvbert.search.report import (
    draw_order_strip,
    draw_search_figures,
    plot_fitness,
    plot_fitness_against_parameters,
    plot_letters,
    plot_order_strip,
)

FIGURES = {
    "fitness_against_parameters.png": (1600, 880),
    "fitness_by_generation.png": (1600, 880),
    "layer_orders.png": (1600, 404),
    "letters_by_depth.png": (1600, 1120),
}
ORDERS = {"searched": "ds f", "interleaved": "sf s"}


def make_entry(order, generation, accuracy, loss, parameters=1_000_000, parents=()):
    return {
        "order": order,
        "generation": generation,
        "operation": "mutation" if parents else "random",
        "parents": list(parents),
        "metrics": {"accuracy": accuracy, "loss": loss},
        "parameters": parameters,
        "flops": 5,
    }


HISTORY = [
    make_entry("dsf", 0, 0.20, 5.0),
    make_entry("fsf", 0, 0.30, 4.0, 2_000_000),
    make_entry("ssf", 0, 0.25, 4.5, 3_000_000),
    make_entry("sdf", 1, 0.10, 6.0, 500_000, ["dsf"]),
    make_entry("ddf", 1, 0.24, 3.0, 4_000_000, ["dsf", "fsf"]),
]


def read_png_size(path):
    header = path.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", header[16:])


def read_lines(axes):
    return {
        line.get_label(): list(zip(line.get_xdata(), line.get_ydata(), strict=True))
        for line in axes.get_lines()
    }


def read_points(collection):
    return [tuple(point) for point in np.asarray(collection.get_offsets()).tolist()]


def read_legend(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def color_of_letters(figure):
    """The colour that the legend gives each letter."""
    (legend,) = figure.legends
    patches = legend.get_patches()
    names = [text.get_text()[0] for text in legend.get_texts()]
    return {name: to_hex(patch.get_facecolor()) for name, patch in zip(names, patches, strict=True)}


@pytest.mark.parametrize(
    ("fitness", "best", "median"),
    [
        ("accuracy", [(0, 0.30), (1, 0.30)], [(0, 0.25), (1, 0.17)]),
        ("loss", [(0, 4.0), (1, 3.0)], [(0, 4.5), (1, 4.5)]),
    ],
)
def test_fitness_is_drawn_with_the_best_so_far_and_the_median(fitness, best, median):
    figure = plot_fitness(HISTORY, fitness)
    (axes,) = figure.axes
    lines = read_lines(axes)
    assert lines["best so far"] == best
    for drawn, expected in zip(lines["median"], median, strict=True):
        assert drawn == pytest.approx(expected)
    drawn, bred = axes.collections
    assert read_points(drawn) == [(0, entry["metrics"][fitness]) for entry in HISTORY[:3]]
    assert read_points(bred) == [(1, entry["metrics"][fitness]) for entry in HISTORY[3:]]
    assert axes.get_ylabel() == {"accuracy": "accuracy", "loss": "loss, nats per token"}[fitness]
    assert "mutation or crossover" in read_legend(figure)
    assert "5 orders" in axes.get_title()


@pytest.mark.parametrize(("fitness", "sign"), [("loss", 1), ("accuracy", -1)])
def test_a_few_bad_orders_do_not_press_the_others_together(fitness, sign):
    values = [5.0 + 0.001 * number for number in range(100)] + [9.0, 20.0]
    entries = [
        make_entry(f"{number:07b}".replace("0", "s").replace("1", "f"), 0, -value, value)
        for number, value in enumerate(values)
    ]
    (axes,) = plot_fitness(entries, fitness).axes
    low, high = sorted(sign * end for end in axes.get_ylim())
    assert low < 5.0 < 5.099 < high < 5.3
    assert "102 orders, 2 of them outside" in axes.get_title()
    (axes,) = plot_fitness(entries[:100], fitness).axes
    assert axes.get_title().endswith("100 orders")


def test_generations_are_whole_numbers():
    (axes,) = plot_fitness(HISTORY[:1]).axes
    ticks = [tick for tick in axes.get_xticks() if -0.5 <= tick <= 0.5]
    assert ticks == [0]


@pytest.mark.parametrize(("fitness", "best"), [("accuracy", "fsf"), ("loss", "ddf")])
def test_letters_of_the_best_tenth_are_compared_with_all(fitness, best):
    figure = plot_letters(HISTORY, fitness)
    upper, lower = figure.axes
    colors = color_of_letters(figure)
    letter_of = {color: letter for letter, color in colors.items()}
    assert set(colors) == set("sfd")
    for axes, orders in ((upper, [best]), (lower, [entry["order"] for entry in HISTORY])):
        shares = {}
        for bar in axes.patches:
            letter = letter_of[to_hex(bar.get_facecolor())]
            depth = round(bar.get_x() + bar.get_width() / 2)
            shares[letter, depth] = bar.get_height()
        for depth in (1, 2, 3):
            column = [order[depth - 1] for order in orders]
            for letter in "sfd":
                expected = column.count(letter) / len(orders)
                assert shares[letter, depth] == pytest.approx(expected)
        tops = [bar.get_y() + bar.get_height() for bar in axes.patches]
        assert max(tops) == pytest.approx(1)
    assert "best 1 orders" in upper.get_title()
    assert "all 5 orders" in lower.get_title()


def test_the_best_tenth_is_rounded():
    orders = [f"{first}{second}{third}" for first in "sfd" for second in "sfd" for third in "sfd"]
    history = [make_entry(order, 0, index / 100, 1.0) for index, order in enumerate(orders)]
    upper, _ = plot_letters(history).axes
    assert "best 3 orders" in upper.get_title()
    # The last three begin with "dd".
    assert [bar.get_height() for bar in upper.patches[-3:]][:2] == [1.0, 1.0]


def test_blanks_do_not_count_as_layers():
    history = [make_entry("s f", 0, 0.1, 1.0), make_entry("f s", 0, 0.2, 1.0)]
    upper, lower = plot_letters(history).axes
    assert len(upper.patches) == len(lower.patches) == 6


@pytest.mark.parametrize(
    ("fitness", "front"),
    [
        ("accuracy", [(2.0, 0.30), (1.0, 0.20), (0.5, 0.10)]),
        ("loss", [(4.0, 3.0), (2.0, 4.0), (1.0, 5.0), (0.5, 6.0)]),
    ],
)
def test_fitness_against_parameters_marks_what_none_beats(fitness, front):
    axes, bar = plot_fitness_against_parameters(HISTORY, fitness).axes
    (line,) = read_lines(axes).values()
    assert line == front
    (points,) = axes.collections
    assert read_points(points) == [
        (entry["parameters"] / 1e6, entry["metrics"][fitness]) for entry in HISTORY
    ]
    assert points.get_array().tolist() == [0, 0, 0, 1, 1]
    assert "millions" in axes.get_xlabel()
    assert bar.get_ylabel() == "generation"


def test_a_strip_shows_each_layer_in_its_colour_and_words_apart():
    figure = plot_order_strip(ORDERS)
    (axes,) = figure.axes
    colors = color_of_letters(figure)
    cells = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    letters = [text.get_text() for text in axes.texts]
    assert letters == ["d", "s", "f", "s", "f", "s"]
    assert [to_hex(cell.get_facecolor()) for cell in cells] == [colors[key] for key in letters]
    gaps = [
        after.get_x() - before.get_x() - before.get_width()
        for before, after in zip(cells, cells[1:], strict=False)
    ]
    within, between = gaps[0], gaps[1]
    assert between > 3 * within > 0
    assert [cell.get_y() for cell in cells[:3]] == [cells[0].get_y()] * 3
    assert cells[3].get_y() > cells[0].get_y()
    # The first row is at the top.
    assert axes.get_ylim()[0] > axes.get_ylim()[1]
    assert [label.get_text() for label in axes.get_yticklabels()] == list(ORDERS)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "3"]


def test_more_layers_than_have_room_for_letters_are_drawn_without():
    (axes,) = plot_order_strip({"deep": "sfd" * 40}).axes
    assert len(axes.patches) == 120
    assert len(axes.texts) == 0


def test_a_search_s_pictures_are_png_files_of_a_fixed_width(tmp_path):
    draw_search_figures(HISTORY, ORDERS, tmp_path / "figures", "loss")
    sizes = {path.name: read_png_size(path) for path in (tmp_path / "figures").iterdir()}
    assert sizes == FIGURES


def test_one_order_is_enough_for_pictures(tmp_path):
    draw_search_figures(HISTORY[:1], {"searched": "dsf"}, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FIGURES)


def test_an_empty_history_draws_nothing(tmp_path):
    draw_search_figures([], ORDERS, tmp_path)
    draw_order_strip({}, tmp_path / "strip.png")
    assert list(tmp_path.iterdir()) == []


def test_where_matplotlib_is_missing_a_line_says_what_is_left_out(tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with caplog.at_level(logging.WARNING):
        draw_search_figures(HISTORY, ORDERS, tmp_path)
        draw_order_strip(ORDERS, tmp_path / "strip.png")
    assert list(tmp_path.iterdir()) == []
    assert [message.split(" is left out")[0] for message in caplog.messages] == [
        "figures",
        "strip.png",
    ]
