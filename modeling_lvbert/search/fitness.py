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
"""What an order is worth with the supernet's weights: accuracy and loss on held-out rows.

Masks and replaced tokens are the same for every order, so that two orders can be compared row by
row; the standard errors say how far that goes. Orders that begin alike share the computation of
their beginning.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..modeling_heads import IGNORED_LABEL
from ..pretraining.trainer import sum_masked
from .paths import draw_paths
from .supernet import ElectraSupernet, Supernet, find_encoder

# Columns of the sums of each row: nats, hits and number of tokens.
LOSS, HITS, COUNT = 0, 1, 2
FITNESSES = ("accuracy", "loss")


def find_fitness(metrics: Mapping[str, float], name: str) -> tuple[float, float]:
    """Returns what orders are compared by, higher is better; the second value breaks ties.

    Args:
        metrics: An order's `accuracy` and `loss`.
        name: One of `FITNESSES`.
    """
    accuracy, loss = metrics["accuracy"], -metrics["loss"]
    return (accuracy, loss) if name == "accuracy" else (loss, accuracy)


@dataclass(frozen=True)
class Estimate:
    """A mean over tokens, and what each row adds to its deviation.

    Attributes:
        value: The mean.
        influences: What each row adds to the estimate's deviation from the true mean, (rows,).
    """

    value: float
    influences: np.ndarray

    @property
    def standard_error(self) -> float:
        """The standard error over rows; 0 for a single row, which has none."""
        number = len(self.influences)
        scale = number / max(1, number - 1)
        return float(np.sqrt(scale * np.square(self.influences).sum()))

    def minus(self, other: "Estimate") -> "Estimate":
        """Returns the difference to an estimate on the same rows: its error is the paired one."""
        return Estimate(self.value - other.value, self.influences - other.influences)

    def plus(self, other: "Estimate", weight: float, own_weight: float = 1.0) -> "Estimate":
        """Returns a weighted sum of two estimates on the same rows."""
        return Estimate(
            own_weight * self.value + weight * other.value,
            own_weight * self.influences + weight * other.influences,
        )


def estimate_mean(sums: np.ndarray, counts: np.ndarray) -> Estimate:
    """Returns the mean over tokens from sums over rows.

    Args:
        sums: Sum of each row, (rows,).
        counts: Tokens of each row, (rows,).
    """
    total = max(float(counts.sum()), 1.0)
    mean = float(sums.sum()) / total
    return Estimate(mean, (sums - mean * counts) / total)


@dataclass(frozen=True)
class Score:
    """An order's accuracy and loss.

    Attributes:
        accuracy: Share of the masked tokens that are predicted, for ELECTRA of the real ones that
            are told to be original or replaced.
        loss: Nats for each masked token; for ELECTRA the weighted sum of both losses.
    """

    accuracy: Estimate
    loss: Estimate

    def to_metrics(self) -> dict[str, float]:
        """Returns values and standard errors by name."""
        return {
            "accuracy": self.accuracy.value,
            "accuracy_standard_error": self.accuracy.standard_error,
            "loss": self.loss.value,
            "loss_standard_error": self.loss.standard_error,
        }


def average_scores(scores: Sequence[Score]) -> Score:
    """Returns the mean of an order's scores with several supernets, on the same rows.

    Args:
        scores: One for each supernet.
    """

    def average(estimates: Sequence[Estimate]) -> Estimate:
        return Estimate(
            float(np.mean([estimate.value for estimate in estimates])),
            np.mean([estimate.influences for estimate in estimates], axis=0),
        )

    return Score(
        average([score.accuracy for score in scores]), average([score.loss for score in scores])
    )


class Evaluator:
    """Scores orders on fixed batches."""

    def __init__(self, supernet: Supernet, batches: Iterable[dict[str, Tensor]]) -> None:
        """Fixes the batches; for ELECTRA also the replaced tokens.

        Replacements come from the supernet's generator, along another random path for each batch,
        so that they favour no order.

        Args:
            supernet: The trained supernet; in evaluation mode from here on.
            batches: Masked batches on the supernet's device, those of the collator.
        """
        self.supernet = supernet.eval()
        self.batches = list(batches)
        if isinstance(supernet, ElectraSupernet):
            self.batches = [
                self._replace(supernet, number, batch) for number, batch in enumerate(self.batches)
            ]

    @torch.no_grad()
    def _replace(
        self, supernet: ElectraSupernet, number: int, batch: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        num_layers = len(find_encoder(supernet).positions)
        (path,) = draw_paths("uniform", num_layers, 0, number)
        outputs = supernet(**batch, layer_order=path)
        return {**batch, "sampled_ids": outputs.sampled_ids, "replaced": outputs.replaced}

    def score(self, orders: Sequence[str]) -> dict[str, Score]:
        """Returns the score of each order.

        Args:
            orders: Orders of the supernet's length.
        """
        if isinstance(self.supernet, ElectraSupernet):
            config, halves = self.supernet.config, self.supernet
            masked = self._sum(orders, halves.generator, "input_ids", _sum_masked)
            detected = self._sum(orders, halves.discriminator, "sampled_ids", _sum_detected)
            return {
                order: Score(
                    estimate_mean(detected[order][:, HITS], detected[order][:, COUNT]),
                    estimate_mean(detected[order][:, LOSS], detected[order][:, COUNT]).plus(
                        estimate_mean(masked[order][:, LOSS], masked[order][:, COUNT]),
                        config.generator_weight,
                        config.discriminator_weight,
                    ),
                )
                for order in orders
            }
        sums = self._sum(orders, self.supernet, "input_ids", _sum_masked)
        return {
            order: Score(
                estimate_mean(sums[order][:, HITS], sums[order][:, COUNT]),
                estimate_mean(sums[order][:, LOSS], sums[order][:, COUNT]),
            )
            for order in orders
        }

    @torch.no_grad()
    def _sum(
        self, orders: Sequence[str], model: Any, ids: str, sum_rows: Any
    ) -> dict[str, np.ndarray]:
        """Returns the sums of each row for each order, (rows, 3)."""
        parts: dict[str, list[np.ndarray]] = {order: [] for order in orders}
        for batch in self.batches:

            def visit(order: str, hidden_states: Tensor, batch: dict[str, Tensor] = batch) -> None:
                sums = sum_rows(model, hidden_states, batch)
                parts[order].append(sums.double().cpu().numpy())

            model.base_model(
                batch[ids],
                attention_mask=batch["attention_mask"],
                token_type_ids=batch.get("token_type_ids"),
                orders=list(parts),
                visit=visit,
            )
        return {order: np.concatenate(sums) for order, sums in parts.items()}


def _sum_masked(model: Any, hidden_states: Tensor, batch: dict[str, Tensor]) -> Tensor:
    """Returns loss, hits and number of the masked tokens of each row, (batch, 3)."""
    labels = batch["labels"]
    return sum_masked(model.compute_logits(hidden_states[labels != IGNORED_LABEL]), labels)


def _sum_detected(model: Any, hidden_states: Tensor, batch: dict[str, Tensor]) -> Tensor:
    """Returns loss, hits and number of the real tokens of each row, (batch, 3)."""
    replaced = batch["replaced"]
    real = replaced != IGNORED_LABEL
    logits = model.compute_logits(hidden_states).float()
    targets = replaced.clamp(min=0).float()
    losses = nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    hits = logits.gt(0).eq(replaced.eq(1))
    columns = torch.stack([losses, hits.float(), torch.ones_like(losses)], dim=2)
    return (columns * real.unsqueeze(2)).sum(dim=1)


class EnsembleEvaluator:
    """Scores orders by their mean over several supernets."""

    def __init__(self, evaluators: Sequence[Evaluator]) -> None:
        """Takes an evaluator for each supernet, all of the same batches."""
        self.evaluators = evaluators

    def score(self, orders: Sequence[str]) -> dict[str, Score]:
        """Returns the score of each order; see `Evaluator.score`."""
        scores = [evaluator.score(orders) for evaluator in self.evaluators]
        return {order: average_scores([score[order] for score in scores]) for order in orders}
