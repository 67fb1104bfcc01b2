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
"""The Trainer of ELECTRA's objective: both losses over the whole step, and what ELECTRA logs.

Names of the metrics follow the released code's: masked accuracy is the generator's best guess,
sampled accuracy that of the token that was drawn, the rest belongs to replaced-token detection.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import EvalPrediction

from .electra import ElectraOutput
from .masking import IGNORED_LABEL
from .trainer import MaskedLanguageModelingTrainer, select_decay_parameters

# Detection probabilities are counted in that many equal bins, for the area under the curve.
NUM_BINS = 200
_SUMS = (
    "generator_loss",
    "masked_correct",
    "sampled_correct",
    "masked",
    "discriminator_loss",
    "detection_correct",
    "true_positives",
    "predicted_positives",
    "positives",
    "real",
)


def sum_by_row(outputs: ElectraOutput, labels: Tensor) -> Tensor:
    """Returns what the metrics are made of, one row of sums for every row, (batch, 10).

    The columns are `_SUMS`, except that both losses are left 0; see `sum_losses_by_row`.

    Args:
        outputs: The model's outputs.
        labels: Original ids where the generator predicts, -100 elsewhere, (batch, seq).
    """
    masked = labels.ne(IGNORED_LABEL)
    real = outputs.replaced.ne(IGNORED_LABEL)
    replaced = outputs.replaced.eq(1)
    found = outputs.logits.gt(0) & real
    columns = {
        "masked_correct": outputs.generator_predictions.eq(labels) & masked,
        "sampled_correct": outputs.sampled_ids.eq(labels) & masked,
        "masked": masked,
        "detection_correct": found.eq(replaced) & real,
        "true_positives": found & replaced,
        "predicted_positives": found,
        "positives": replaced,
        "real": real,
    }
    sums = torch.zeros(len(labels), len(_SUMS), device=labels.device)
    for index, name in enumerate(_SUMS):
        if name in columns:
            sums[:, index] = columns[name].sum(dim=1)
    return sums


def sum_losses_by_row(outputs: ElectraOutput, labels: Tensor) -> Tensor:
    """Returns the sums of the generator's and the discriminator's losses in each row, (batch, 2).

    Args:
        outputs: The model's outputs.
        labels: Original ids where the generator predicts, -100 elsewhere, (batch, seq).
    """
    sums = torch.zeros(len(labels), 2, device=labels.device)
    if outputs.generator_logits is not None:
        masked = labels.ne(IGNORED_LABEL)
        losses = nn.functional.cross_entropy(
            outputs.generator_logits.float(), labels[masked], reduction="none"
        )
        sums[:, 0].index_add_(0, masked.nonzero()[:, 0], losses)
    losses = nn.functional.binary_cross_entropy_with_logits(
        outputs.logits.float(), outputs.replaced.clamp(min=0).float(), reduction="none"
    )
    sums[:, 1] = losses.masked_fill(outputs.replaced.eq(IGNORED_LABEL), 0.0).sum(dim=1)
    return sums


def count_by_probability(outputs: ElectraOutput) -> Tensor:
    """Returns how many tokens fall into each bin of detection probability, (2, batch, bins).

    The first half counts original tokens, the second replaced ones.
    """
    bins = (outputs.logits.sigmoid() * NUM_BINS).long().clamp(max=NUM_BINS - 1)
    counts = torch.zeros(2, *bins.shape[:1], NUM_BINS, device=bins.device)
    for label in (0, 1):
        counts[label].scatter_add_(1, bins, outputs.replaced.eq(label).float())
    return counts


def area_under_curve(originals: np.ndarray, replaced: np.ndarray) -> float:
    """Returns the probability that a replaced token scores above an original one; ties count half.

    Args:
        originals: Number of original tokens by bin of rising score, (bins,).
        replaced: The same for replaced tokens.
    """
    pairs = originals.sum() * replaced.sum()
    if pairs == 0:
        return float("nan")
    below = np.cumsum(originals) - originals
    return float((replaced * (below + originals / 2)).sum() / pairs)


def compute_metrics(sums: np.ndarray) -> dict[str, float]:
    """Returns the metrics from summed columns of `_SUMS`."""
    total = dict(zip(_SUMS, np.asarray(sums, dtype=np.float64), strict=True))

    def share(numerator: str, denominator: str) -> float:
        return float(total[numerator] / max(total[denominator], 1.0))

    return {
        "generator_loss": share("generator_loss", "masked"),
        "masked_accuracy": share("masked_correct", "masked"),
        "sampled_accuracy": share("sampled_correct", "masked"),
        "discriminator_loss": share("discriminator_loss", "real"),
        "detection_accuracy": share("detection_correct", "real"),
        "detection_precision": share("true_positives", "predicted_positives"),
        "detection_recall": share("true_positives", "positives"),
    }


class ElectraTrainer(MaskedLanguageModelingTrainer):
    """Trains `ElectraForPreTraining`; needs a collator that gives `sample_fractions`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Builds the Trainer; see `MaskedLanguageModelingTrainer`."""
        super().__init__(*args, **kwargs)
        self._sums = torch.zeros(len(_SUMS))

    def get_decay_parameter_names(self, model: nn.Module) -> list[str]:
        """Returns what decays by LV-BERT's rule, in both halves."""
        return select_decay_parameters(model, "lvbert")

    def _get_num_items_in_batch(
        self, batch_samples: list[dict[str, Tensor]], device: torch.device
    ) -> Tensor:
        """Returns the masked and the real tokens of the whole optimizer step, (2,)."""
        counts = torch.zeros(2, dtype=torch.long, device=device)
        for batch in batch_samples:
            counts[0] += batch["labels"].ne(IGNORED_LABEL).sum().to(device)
            counts[1] += batch["attention_mask"].sum().to(device)
        if self.args.world_size > 1:
            counts = self.accelerator.gather(counts).view(-1, 2).sum(dim=0)
        return counts

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """Returns this part's share of the step's loss, and keeps sums for the next log."""
        outputs = model(**inputs, num_items_in_batch=num_items_in_batch)
        loss = outputs.loss
        if isinstance(num_items_in_batch, Tensor):
            # Gradients are averaged over the processes, but each holds a part of one sum.
            loss = loss * self.accelerator.num_processes
            with torch.no_grad():
                self._keep_sums(outputs, inputs["labels"], num_items_in_batch)
        return (loss, outputs) if return_outputs else loss

    def _keep_sums(self, outputs: ElectraOutput, labels: Tensor, items: Tensor) -> None:
        sums = sum_by_row(outputs, labels).sum(dim=0)
        sums[_SUMS.index("generator_loss")] = outputs.generator_loss * items[0]
        sums[_SUMS.index("discriminator_loss")] = outputs.discriminator_loss * items[1]
        self._sums = self._sums.to(sums.device) + sums

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Logs, with both losses and the accuracies since the last log beside the loss."""
        if "loss" in logs:
            sums = self.accelerator.reduce(self._sums.to(self.args.device), reduction="sum")
            logs.update(
                {
                    name: round(value, 4)
                    for name, value in compute_metrics(sums.cpu().numpy()).items()
                }
            )
            self._sums = torch.zeros_like(self._sums)
        super().log(logs, start_time)

    def _write_model(self, folder: Path) -> None:
        """Writes the discriminator into the folder and the generator into `generator` in it.

        Both open under every Auto class; a checkpoint has them together.
        """
        weights = self._gather_weights()
        if self.args.should_save:
            model = self.accelerator.unwrap_model(self.model)
            for name, path in (("generator", folder / "generator"), ("discriminator", folder)):
                model.export_half(name, path, weights)
                self._tokenizer.save_pretrained(path)

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> tuple[None, Tensor, Tensor]:
        """Returns each row's sums and counts by probability, (batch, 10 + 2 · bins)."""
        inputs = self._prepare_inputs(inputs)
        labels = inputs["labels"]
        with torch.no_grad(), self.compute_loss_context_manager():
            outputs = model(**inputs)
        sums = sum_by_row(outputs, labels)
        # By row, as rows that fill up the last batch of several processes are dropped again.
        losses = [_SUMS.index("generator_loss"), _SUMS.index("discriminator_loss")]
        sums[:, losses] = sum_losses_by_row(outputs, labels)
        by_probability = count_by_probability(outputs)
        rows = torch.cat([sums, by_probability[0], by_probability[1]], dim=1)
        # The Trainer calls for metrics only where there are labels.
        return None, rows, labels.new_zeros(len(labels))

    def summarize(self, prediction: EvalPrediction) -> dict[str, float]:
        """Returns both losses, their weighted sum and ELECTRA's metrics of validation."""
        sums = np.asarray(prediction.predictions, dtype=np.float64).sum(axis=0)
        metrics = compute_metrics(sums[: len(_SUMS)])
        originals, replaced = sums[len(_SUMS) :].reshape(2, NUM_BINS)
        config = self.accelerator.unwrap_model(self.model).config
        metrics["detection_auc"] = area_under_curve(originals, replaced)
        metrics["loss"] = (
            config.generator_weight * metrics["generator_loss"]
            + config.discriminator_weight * metrics["discriminator_loss"]
        )
        return metrics
