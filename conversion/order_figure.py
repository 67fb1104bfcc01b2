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
"""Draws a layer order as a strip of coloured blocks that can be read on a telephone."""

from pathlib import Path
from typing import TYPE_CHECKING

from modeling_lvbert.layer_order import LAYER_NAMES, split_words
from modeling_lvbert.pretraining.figures import can_draw, new_figure, write_figure
from modeling_lvbert.search.report import LETTER_COLORS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILE = "figures/layer_order.png"

# 1600 pixels shown on 400 leave a quarter: 12 blocks are 30 pixels wide there, a letter 12 high.
LAYERS_A_ROW = 12
_LETTER_SIZE, _NUMBER_SIZE, _NAME_SIZE = 26, 14, 17
_ROW_HEIGHT, _REST_HEIGHT = 0.95, 0.75


def draw_order(order: str, folder: Path) -> str | None:
    """Writes the picture, and returns its name within the folder; None without matplotlib."""
    path = folder / FILE
    if not can_draw(path):
        return None
    write_figure(plot_order(order), path)
    return FILE


def plot_order(order: str) -> "Figure":
    """Returns rows of at most twelve layers with letters on and numbers under them.

    Words are parted by gaps where there are several: one word is read by the layers after it as one
    unit (ELC-BERT).

    Args:
        order: The layer order.
    """
    from matplotlib.patches import Rectangle

    blocks = _place_blocks(order)
    num_rows = 1 + blocks[-1][1]
    figure, (axes,) = new_figure(1, _REST_HEIGHT + _ROW_HEIGHT * num_rows)
    for number, (column, row, letter, ends_word) in enumerate(blocks, start=1):
        width = 0.78 if ends_word else 0.96
        axes.add_patch(Rectangle((column, row), width, 0.7, fc=LETTER_COLORS[letter]))
        center = column + width / 2
        axes.text(center, row + 0.36, letter, ha="center", va="center", fontsize=_LETTER_SIZE)
        axes.text(center, row + 0.85, str(number), ha="center", va="center", fontsize=_NUMBER_SIZE)
    axes.set_xlim(0, min(LAYERS_A_ROW, max(6, len(blocks))))
    axes.set_ylim(num_rows, 0)
    axes.set_axis_off()
    present = [letter for letter in LETTER_COLORS if letter in order]
    figure.legend(
        [Rectangle((0, 0), 1, 1, fc=LETTER_COLORS[letter]) for letter in present],
        [f"{letter}  {LAYER_NAMES[letter]}" for letter in present],
        loc="outside lower center",
        ncols=len(present),
        frameon=False,
        fontsize=_NAME_SIZE,
        handlelength=0.9,
        handletextpad=0.4,
        columnspacing=1.0,
    )
    return figure


def _place_blocks(order: str) -> list[tuple[int, int, str, bool]]:
    """Returns column, row and letter of each layer, and whether a gap follows it."""
    words = split_words(order)
    letters = [
        (letter, place == len(word)) for word in words for place, letter in enumerate(word, start=1)
    ]
    return [
        (place % LAYERS_A_ROW, place // LAYERS_A_ROW, letter, ends_word and len(words) > 1)
        for place, (letter, ends_word) in enumerate(letters)
    ]


def describe_order(order: str) -> str:
    """Returns what the picture shows, for those who do not see it."""
    return "Layers from the input up: " + ", then ".join(
        " ".join(LAYER_NAMES[letter] for letter in word) for word in split_words(order)
    )
