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
"""Pictures of a pre-training run: ELC-BERT's layer weights and the learning curves.

The first is the figure of ELC-BERT's paper (arXiv 2311.02265), one row for each layer that reads.
Matplotlib is needed to draw, and is not a requirement of the package: without it a run goes on
without pictures.
"""

import importlib.util
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor
from transformers import Trainer

from ..layer_order import split_words
from .layer_weights import read_layer_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)

FIGURES_FOLDER = "figures"

# 8 inches: at 800 pixels of width the text has its size in points as on paper.
_WIDTH = 8.0
_DPI = 200
# More columns leave no room for numbers in the cells.
_MOST_NUMBERED = 25
# From the colours of Okabe and Ito, which all kinds of colour vision tell apart.
_BLUE, _ORANGE, _GREEN, _GREY = "#0072B2", "#D55E00", "#009E73", "#555555"

# What is drawn together: title, unit, and for each curve its key in the log history, name, colour.
_TRAINED, _VALIDATED = "training", "validation"
_Curve = tuple[str, str, str]
_LOSS_UNIT = "nats per predicted token"
_PANELS: dict[str, tuple[str, tuple[_Curve, ...]]] = {
    "Loss": (
        _LOSS_UNIT,
        (("loss", _TRAINED, _BLUE), ("eval_loss", _VALIDATED, _ORANGE)),
    ),
}
_ELECTRA_PANELS: dict[str, tuple[str, tuple[_Curve, ...]]] = {
    "Generator loss": (
        _LOSS_UNIT,
        (
            ("generator_loss", _TRAINED, _BLUE),
            ("eval_generator_loss", _VALIDATED, _ORANGE),
        ),
    ),
    "Discriminator loss": (
        "nats per token",
        (
            ("discriminator_loss", _TRAINED, _BLUE),
            ("eval_discriminator_loss", _VALIDATED, _ORANGE),
        ),
    ),
    "Replaced-token detection": (
        "share",
        (
            ("detection_accuracy", "accuracy, training", _BLUE),
            ("eval_detection_accuracy", "accuracy, validation", _ORANGE),
            ("eval_detection_auc", "area under the curve, validation", _GREEN),
        ),
    ),
}


def draw_run_figures(
    trainer: Trainer, output_dir: str, unigram_entropy: float | None = None
) -> None:
    """Draws `layer_weights.png`, where the model selects layers, and `learning_curves.png`.

    All processes must call this; the main one draws.

    Args:
        trainer: Its model and its log history are drawn.
        output_dir: The run's folder; the pictures go to `figures` in it.
        unigram_entropy: See `plot_learning_curves`.
    """
    model = trainer.accelerator.unwrap_model(trainer.model)
    weights = read_layer_weights(model)
    if not trainer.is_world_process_zero():
        return
    folder = Path(output_dir, FIGURES_FOLDER)
    if weights:
        words = split_words(model.config.layer_order)
        names = [f"{number}  {word}" for number, word in enumerate(words, start=1)]
        draw_layer_weights(list(weights.values()), folder / "layer_weights.png", [*names, "mix"])
    draw_learning_curves(trainer.state.log_history, folder / "learning_curves.png", unigram_entropy)


def draw_layer_weights(
    weights: Sequence[Tensor], path: str | Path, names: Sequence[str] | None = None
) -> None:
    """Writes `plot_layer_weights` as a PNG of 1600 pixels width, where matplotlib is installed."""
    if can_draw(path):
        write_figure(plot_layer_weights(weights, names), Path(path))


def draw_learning_curves(
    log_history: Sequence[dict[str, Any]], path: str | Path, unigram_entropy: float | None = None
) -> None:
    """Writes `plot_learning_curves` as a PNG of 1600 pixels width, where matplotlib is installed.

    Nothing is written for a history without losses.
    """
    if _choose_panels(log_history) and can_draw(path):
        write_figure(plot_learning_curves(log_history, unigram_entropy), Path(path))


def plot_layer_weights(weights: Sequence[Tensor], names: Sequence[str] | None = None) -> "Figure":
    """Returns a triangular map of the weights: rows read, columns are read, 0 the embeddings.

    Args:
        weights: The n-th tensor has the n weights of the n-th layer, which sum to one.
        names: Names of at least that many rows; their numbers if None.
    """
    from matplotlib.colors import PowerNorm

    size = len(weights)
    table = np.full((size, size), np.nan)
    for row, values in enumerate(weights):
        table[row, : row + 1] = values.float().numpy()
    figure, (axes,) = new_figure(1, 6.6)
    # Equal weights of twelve layers are about 0.08: the root spreads what is small.
    norm = PowerNorm(gamma=0.5, vmin=0, vmax=1)
    image = axes.imshow(np.ma.masked_invalid(table), cmap="viridis", norm=norm, aspect="auto")
    if size <= _MOST_NUMBERED:
        _write_numbers(axes, table, norm)
    axes.set_title("What each layer reads: weights of the outputs below it")
    axes.set_xlabel("output that is read (0: embeddings)")
    axes.set_ylabel("layer that reads")
    axes.set_xticks(range(size))
    axes.set_yticks(range(size), list(names or map(str, range(1, size + 1)))[:size])
    axes.spines[["top", "right"]].set_visible(False)
    figure.colorbar(image, label="weight", ticks=[0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1])
    return figure


def _write_numbers(axes: "Axes", table: np.ndarray, norm: Any) -> None:
    size = min(10.0, 130 / len(table))
    for (row, column), value in np.ndenumerate(table):
        if not np.isnan(value):
            color = "black" if norm(value) > 0.45 else "white"
            axes.text(
                column, row, f"{value:.2f}", ha="center", va="center", color=color, fontsize=size
            )


def plot_learning_curves(
    log_history: Sequence[dict[str, Any]], unigram_entropy: float | None = None
) -> "Figure":
    """Returns training and validation loss against steps; for ELECTRA both losses and detection.

    Args:
        log_history: The Trainer's.
        unigram_entropy: Nats per token, drawn as a dashed line into the loss of masked tokens: what
            a model reaches that ignores the context.
    """
    panels = _choose_panels(log_history)
    figure, all_axes = new_figure(len(panels), 4.0 if len(panels) == 1 else 2.7 * len(panels))
    for axes, (title, (unit, curves)) in zip(all_axes, panels.items(), strict=True):
        for key, name, color in curves:
            steps, values = _read_curve(log_history, key)
            # A few points of validation would be lost as a bare line.
            marker = "o" if key.startswith("eval_") else ""
            if steps:
                axes.plot(steps, values, color=color, label=name, marker=marker, markersize=4)
        if unigram_entropy is not None and unit == _LOSS_UNIT:
            label = f"unigram entropy, {unigram_entropy:.2f}"
            axes.axhline(unigram_entropy, color=_GREY, linestyle="--", label=label)
        axes.set_title(title)
        axes.set_ylabel(unit)
        axes.grid(color="0.9")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    if all_axes:
        all_axes[-1].set_xlabel("optimizer step")
    return figure


def _choose_panels(
    log_history: Sequence[dict[str, Any]],
) -> dict[str, tuple[str, tuple[_Curve, ...]]]:
    """Returns the panels of the objective that have something to show."""
    keys = {key for entry in log_history for key in entry}
    electra = keys & {"generator_loss", "eval_generator_loss"}
    panels = _ELECTRA_PANELS if electra else _PANELS
    return {
        title: (unit, curves)
        for title, (unit, curves) in panels.items()
        if keys.intersection(key for key, _, _ in curves)
    }


def _read_curve(log_history: Iterable[dict[str, Any]], key: str) -> tuple[list[int], list[float]]:
    """Returns steps and values; the last value where a step was logged more than once."""
    points = {entry["step"]: entry[key] for entry in log_history if key in entry}
    return list(points), list(points.values())


def new_figure(num_panels: int, height: float) -> tuple["Figure", list["Axes"]]:
    """Returns a figure of 1600 pixels width with panels that share their horizontal axis.

    Args:
        num_panels: Panels one above the other; one if 0.
        height: Height of the figure in inches, of 200 pixels each.
    """
    from matplotlib.figure import Figure

    # Without pyplot there is nothing global, and the file's name chooses the way to draw.
    figure = Figure(figsize=(_WIDTH, height), dpi=_DPI, layout="constrained")
    all_axes = figure.subplots(max(1, num_panels), 1, sharex=True, squeeze=False)
    return figure, list(all_axes[:, 0])


def can_draw(path: str | Path) -> bool:
    """Returns whether matplotlib is installed; where it is not, a warning names the picture."""
    if importlib.util.find_spec("matplotlib") is not None:
        return True
    logger.warning(
        "%s is left out: it needs matplotlib (pip install 'lvbert[examples]')", Path(path).name
    )
    return False


def write_figure(figure: "Figure", path: Path) -> None:
    """Writes a figure as PNG, whole or not at all; makes the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    figure.savefig(temporary, format="png", metadata={"Software": None})
    temporary.rename(path)
