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
"""What each layer of a trained model is worth: the model without it, and with two exchanged.

Every letter of the order is left out in turn, and every two neighbours are exchanged, with their
weights and without any further training; the change of loss and accuracy on held-out text, with the
same masks each time, is the layer's importance. LV-BERT's layer goes with its norm. In ELC-BERT a
word of one letter that is left out still stands where it did, with the output 0, so that what later
words read keeps its place.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from ..layer_order import split_words
from ..modeling_elcbert import ELCBertForMaskedLM
from ..modeling_heads import IGNORED_LABEL
from ..modeling_lvbert import LVBertForMaskedLM
from ..pretraining.figures import new_figure
from ..pretraining.trainer import sum_masked
from .fitness import COUNT, HITS, LOSS, Estimate, Score, estimate_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MaskedModel = LVBertForMaskedLM | ELCBertForMaskedLM
Groups = list[list[nn.Module]]

# From the colours of Okabe and Ito, which all kinds of colour vision tell apart.
_WORSE_COLOR, _BETTER_COLOR = "#0072B2", "#D55E00"


class SilentLayer(nn.Module):
    """Stands for a word of one letter that is left out: its output is 0."""

    def forward(self, hidden_states: Tensor, **kwargs: Any) -> Tensor:
        """Returns zeros, (batch, seq, hidden)."""
        return torch.zeros_like(hidden_states)


@dataclass(frozen=True)
class LayerChange:
    """What a change of the order does.

    Attributes:
        places: The layer that is left out, or the two that are exchanged; 1 is nearest the input.
        letters: Their letters.
        loss: By how much the loss rises, nats per masked token.
        accuracy: By how much the share of masked tokens that are predicted rises.
    """

    places: tuple[int, ...]
    letters: str
    loss: Estimate
    accuracy: Estimate

    def to_metrics(self) -> dict[str, Any]:
        """Returns places, letters, both changes and their paired standard errors."""
        return {
            "places": list(self.places),
            "letters": self.letters,
            "loss_change": self.loss.value,
            "loss_change_standard_error": self.loss.standard_error,
            "accuracy_change": self.accuracy.value,
            "accuracy_change_standard_error": self.accuracy.standard_error,
        }


@dataclass(frozen=True)
class LayerImportance:
    """The unchanged model's score, and what each change does to it."""

    baseline: Score
    left_out: list[LayerChange]
    exchanged: list[LayerChange]


def _list_owners(model: MaskedModel) -> list[Any]:
    """Returns the modules whose attribute `layers` holds the layers: the encoder, or its words."""
    encoder: Any = model.base_model.encoder
    return list(encoder.words) if isinstance(model, ELCBertForMaskedLM) else [encoder]


@contextlib.contextmanager
def rearrange(model: MaskedModel, groups: Groups) -> Iterator[None]:
    """Gives a model other layers for a while.

    Args:
        model: The model.
        groups: LV-BERT's layers in one list, ELC-BERT's in a list for each word.
    """
    owners = _list_owners(model)
    before = [owner.layers for owner in owners]
    try:
        for owner, group in zip(owners, groups, strict=True):
            owner.layers = nn.ModuleList(group)
        yield
    finally:
        for owner, layers in zip(owners, before, strict=True):
            owner.layers = layers


def list_layers(model: MaskedModel) -> Groups:
    """Returns a model's layers as `rearrange` takes them."""
    return [list(owner.layers) for owner in _list_owners(model)]


def leave_out(groups: Groups, place: int, *, keeps_words: bool) -> Groups:
    """Returns the layers without one of them.

    Args:
        groups: The layers.
        place: Number of the layer among all, from 0.
        keeps_words: Whether a word that loses its only layer gives 0.
    """
    gone = [layer for group in groups for layer in group][place]
    kept = [[layer for layer in group if layer is not gone] for group in groups]
    return [group or [SilentLayer()] if keeps_words else group for group in kept]


def exchange(groups: Groups, place: int) -> Groups:
    """Returns the layers with one of them and the next exchanged; words keep their lengths."""
    flat = [layer for group in groups for layer in group]
    flat[place], flat[place + 1] = flat[place + 1], flat[place]
    moved = iter(flat)
    return [[next(moved) for _ in group] for group in groups]


@torch.inference_mode()
def score_rows(model: MaskedModel, batches: Sequence[dict[str, Tensor]]) -> np.ndarray:
    """Returns loss, hits and number of the masked tokens of each row, (rows, 3).

    Args:
        model: The model, in evaluation mode.
        batches: Masked batches on its device, those of the collator.
    """
    parts = []
    for batch in batches:
        labels = batch["labels"]
        hidden = model.base_model(
            batch["input_ids"], attention_mask=batch["attention_mask"]
        ).last_hidden_state
        logits = model.compute_logits(hidden[labels != IGNORED_LABEL])
        parts.append(sum_masked(logits, labels).double().cpu().numpy())
    return np.concatenate(parts)


def _to_score(sums: np.ndarray) -> Score:
    return Score(
        estimate_mean(sums[:, HITS], sums[:, COUNT]), estimate_mean(sums[:, LOSS], sums[:, COUNT])
    )


def measure_importance(model: MaskedModel, batches: Sequence[dict[str, Tensor]]) -> LayerImportance:
    """Returns what each layer, and the order of each two neighbours, is worth.

    Args:
        model: The model; in evaluation mode from here on, otherwise unchanged.
        batches: Masked batches on its device, those of the collator.
    """
    model.eval()
    groups, letters = list_layers(model), "".join(split_words(model.config.layer_order))
    baseline = _to_score(score_rows(model, batches))

    def compare(places: tuple[int, ...], changed: Groups) -> LayerChange:
        with rearrange(model, changed):
            score = _to_score(score_rows(model, batches))
        return LayerChange(
            tuple(place + 1 for place in places),
            "".join(letters[place] for place in places),
            score.loss.minus(baseline.loss),
            score.accuracy.minus(baseline.accuracy),
        )

    keeps_words = isinstance(model, ELCBertForMaskedLM)
    return LayerImportance(
        baseline,
        [
            compare((place,), leave_out(groups, place, keeps_words=keeps_words))
            for place in range(len(letters))
        ],
        [compare((place, place + 1), exchange(groups, place)) for place in range(len(letters) - 1)],
    )


def plot_importance(importance: LayerImportance) -> "Figure":
    """Returns the rise of the loss by layer left out and pair exchanged, with standard errors."""
    panels = {"Loss without a layer": importance.left_out}
    if importance.exchanged:
        panels["Loss with two neighbours exchanged"] = importance.exchanged
    figure, all_axes = new_figure(len(panels), 0.6 + 2.7 * len(panels))
    for axes, (title, changes) in zip(all_axes, panels.items(), strict=True):
        middles = [float(np.mean(change.places)) for change in changes]
        heights = [change.loss.value for change in changes]
        errors = [change.loss.standard_error for change in changes]
        colors = [_WORSE_COLOR if height > 0 else _BETTER_COLOR for height in heights]
        axes.bar(middles, heights, width=0.7, yerr=errors, color=colors, ecolor="0.3", capsize=2)
        axes.axhline(0, color="0.3", linewidth=0.8)
        axes.set_title(title)
        axes.set_ylabel("rise, nats per masked token")
        axes.grid(color="0.9", axis="y")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    names = [f"{change.letters}\n{change.places[0]}" for change in importance.left_out]
    all_axes[-1].set_xticks(range(1, len(names) + 1), names)
    all_axes[-1].set_xlabel("layer (1: nearest the input)")
    return figure
