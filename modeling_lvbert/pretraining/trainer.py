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
"""The Trainer for masked language modelling: order of rows, optimizer groups, evaluation, resuming.

A loss is the sum over the predicted tokens of a whole optimizer step divided by their number, on
however many devices and accumulation steps, in training (transformers' `num_items_in_batch`) as in
evaluation.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import datasets
import numpy as np
import torch
from torch import Tensor, nn
from transformers import (
    EvalPrediction,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainerCallback,
    TrainingArguments,
)

from .masking import IGNORED_LABEL, MaskingCollator, count_token_ids, find_special_ids
from .optimization import OPTIMIZERS, build_optimizer, build_parameter_groups, clip_gradients
from .resumable_trainer import ResumableTrainer
from .rows import PackedRows, TrainingData
from .schedules import SCHEDULES, build_schedule

# Parts of the names of parameters that the authors train without weight decay: LV-BERT's
# `optimization.py` (embeddings and convolution kernels do decay), ELC-BERT's training scripts.
NO_WEIGHT_DECAY = {
    "lvbert": ("bias", "layer_norm"),
    "elcbert": ("bias", "layer_norm", "embedding", "prev_layer_weights"),
}

# Seed of the masks of validation, whatever a run's own seed: losses of different runs can be
# compared.
VALIDATION_SEED = 0


def select_decay_parameters(model: nn.Module, model_type: str) -> list[str]:
    """Returns the names of the parameters that weight decay applies to, by the family's rule.

    Args:
        model: A model of the family.
        model_type: "lvbert" or "elcbert".
    """
    excluded = NO_WEIGHT_DECAY[model_type]
    return [
        name for name, _ in model.named_parameters() if not any(part in name for part in excluded)
    ]


def compute_unigram_entropy(rows: datasets.Dataset, tokenizer: PreTrainedTokenizerBase) -> float:
    """Returns the entropy of the rows' tokens without special ones, nats per token.

    A model that ignores the context cannot have a smaller loss on these rows.
    """
    counts = np.zeros(count_token_ids(tokenizer), dtype=np.int64)
    for start in range(0, len(rows), 1000):
        ids = rows[start : start + 1000]["input_ids"]
        counts += np.bincount([token for row in ids for token in row], minlength=len(counts))
    counts[find_special_ids(tokenizer)] = 0
    shares = counts[counts > 0] / max(1, counts.sum())
    return float(-(shares * np.log(shares)).sum())


def sum_masked(logits: Tensor, labels: Tensor) -> Tensor:
    """Returns loss, hits and number of the predicted tokens of each row, (batch, 3).

    Args:
        logits: Logits of the predicted tokens alone, row after row, (tokens, vocabulary).
        labels: Original ids where tokens are predicted, -100 elsewhere, (batch, seq).
    """
    predicted = labels != IGNORED_LABEL
    targets, logits = labels[predicted], logits.float()
    losses = nn.functional.cross_entropy(logits, targets, reduction="none")
    hits = (logits.argmax(dim=-1) == targets).float()
    columns = torch.stack([losses, hits, torch.ones_like(losses)], dim=1)
    return columns.new_zeros(len(labels), 3).index_add_(0, predicted.nonzero()[:, 0], columns)


@dataclass
class OptimizationSettings:
    """How the originals train, where that differs from `TrainingArguments`; None keeps theirs."""

    optimizer: str | None = field(
        default=None,
        metadata={"help": f"One of: {', '.join(OPTIMIZERS)}. Absent: what --optim says."},
    )
    schedule: str | None = field(
        default=None,
        metadata={"help": f"One of: {', '.join(SCHEDULES)}. Absent: --lr_scheduler_type."},
    )
    schedule_power: float = field(
        default=1.0, metadata={"help": "Exponent of the polynomial schedule."}
    )
    min_factor: float = field(
        default=0.1, metadata={"help": "Lowest factor of the cosine schedule."}
    )
    clipping_epsilon: float | None = field(
        default=None,
        metadata={"help": "Added to the norm when clipping: 0 in LV-BERT, 1e-6 in ELC-BERT."},
    )
    ema_decay: float | None = field(
        default=None,
        metadata={
            "help": "Average the weights over the steps, keeping that share at each; the average "
            "is evaluated, and saved at the end."
        },
    )

    def __post_init__(self) -> None:
        """Checks names and numbers.

        Raises:
            ValueError: There is no such optimizer or schedule, or a number is out of range.
        """
        for name, known in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
            value = getattr(self, name)
            if value is not None and value not in known:
                raise ValueError(f"{name} {value!r}: must be one of {', '.join(known)}")
        for name, highest in (
            ("schedule_power", math.inf),
            ("min_factor", 1.0),
            ("clipping_epsilon", math.inf),
        ):
            value = getattr(self, name)
            if value is not None and not (0 <= value <= highest and value < math.inf):
                raise ValueError(f"{name} {value}: must be a number from 0 to {highest}")
        if self.ema_decay is not None and not 0 <= self.ema_decay < 1:
            raise ValueError(f"ema_decay {self.ema_decay}: must be from 0 to below 1")

    def list_chosen(self, args: TrainingArguments) -> dict[str, Any]:
        """Returns the settings that are no defaults: a part of what a run is.

        Args:
            args: Arguments of training that go with them.

        Raises:
            ValueError: The schedule's warm-up is longer than the run.
        """
        if self.schedule is not None and 0 < args.max_steps < args.warmup_steps:
            raise ValueError(
                f"warmup_steps {args.warmup_steps}: at most max_steps {args.max_steps}"
            )
        return {
            item.name: getattr(self, item.name)
            for item in fields(self)
            if getattr(self, item.name) != item.default
        }


class MaskedLanguageModelingTrainer(ResumableTrainer):
    """Trains a model with a masked-language-modelling head on packed rows.

    Its metrics are `loss` (nats per predicted token), `perplexity`, `masked_accuracy` and
    `num_masked_tokens`, all over the tokens of the whole validation split, whatever its split into
    batches.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        args: TrainingArguments,
        training_data: TrainingData,
        validation_rows: datasets.Dataset,
        collator: MaskingCollator,
        callbacks: Iterable[TrainerCallback] = (),
        optimization: OptimizationSettings | None = None,
    ) -> None:
        """Builds the Trainer; see `ResumableTrainer`.

        Args:
            model: The model.
            args: Arguments of training.
            training_data: Rows of every stage.
            validation_rows: Result of `pack_corpus` for validation.
            collator: Masks the rows; its tokenizer is saved with the model.
            callbacks: More callbacks.
            optimization: Optimizer, schedule and clipping of the originals; those of `args` where
                a setting is absent.
        """
        self._optimization = optimization or OptimizationSettings()
        super().__init__(
            model,
            args,
            training_data,
            collator,
            callbacks,
            self._optimization.ema_decay,
            eval_dataset=PackedRows(validation_rows, VALIDATION_SEED),
            compute_metrics=self.summarize,
        )
        if self._optimization.optimizer == "lamb" and self.is_deepspeed_enabled:
            raise ValueError(
                "optimizer 'lamb': DeepSpeed joins all weights to one, and LAMB scales each by "
                "its own norm; take FSDP"
            )

    def get_decay_parameter_names(self, model: nn.Module) -> list[str]:
        """Returns what decays by the family's rule, by transformers' for other models."""
        model_type = self.accelerator.unwrap_model(model).config.model_type
        if model_type in NO_WEIGHT_DECAY:
            return select_decay_parameters(model, model_type)
        return super().get_decay_parameter_names(model)

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """Returns the chosen optimizer; decay leaves out what the originals leave out."""
        name = self._optimization.optimizer
        if name is None or self.optimizer is not None:
            return super().create_optimizer(model)
        model, args = model or self.model, self.args
        if model is None:
            raise ValueError("there is no model to train yet")
        groups = build_parameter_groups(
            model.named_parameters(),
            self.get_decay_parameter_names(model),
            args.weight_decay,
            args.learning_rate,
        )
        betas = (args.adam_beta1, args.adam_beta2)
        self.optimizer = build_optimizer(name, groups, args.learning_rate, betas, args.adam_epsilon)
        return self.optimizer

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> torch.optim.lr_scheduler.LRScheduler:
        """Returns the chosen schedule over the whole run."""
        settings = self._optimization
        optimizer = optimizer or self.optimizer
        if settings.schedule is None or self.lr_scheduler is not None or optimizer is None:
            return super().create_scheduler(num_training_steps, optimizer)
        warmup = self.args.warmup_steps
        self.lr_scheduler = build_schedule(
            optimizer,
            settings.schedule,
            num_training_steps,
            warmup * num_training_steps if warmup < 1 else warmup,
            settings.schedule_power,
            settings.min_factor,
        )
        return self.lr_scheduler

    def _clip_grad_norm(self, model: nn.Module) -> Any:
        epsilon = self._optimization.clipping_epsilon
        if epsilon is None or self.is_deepspeed_enabled:
            return super()._clip_grad_norm(model)
        self.accelerator.unscale_gradients()
        return clip_gradients(model.parameters(), self.args.max_grad_norm, epsilon)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Logs, with the speed in tokens per second beside the loss."""
        tokens = self.state.num_input_tokens_seen
        if "loss" in logs:
            logs["tokens_per_second"] = round(self._speed.measure(tokens), 1)
        if "train_runtime" in logs:
            seconds = max(logs["train_runtime"], 1e-9)
            logs["train_tokens_per_second"] = round(
                (tokens - self._speed.first_tokens) / seconds, 1
            )
        super().log(logs, start_time)

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> tuple[None, Tensor, Tensor]:
        """Returns each row's sums, not its logits: loss, hits, predicted tokens; (batch, 3)."""
        inputs = self._prepare_inputs(inputs)
        labels = inputs.pop("labels")
        with torch.no_grad(), self.compute_loss_context_manager():
            logits = model(**inputs).logits
        totals = sum_masked(logits[labels != IGNORED_LABEL], labels)
        # The Trainer calls for metrics only where there are labels.
        return None, totals, labels.new_zeros(len(labels))

    def summarize(self, prediction: EvalPrediction) -> dict[str, float]:
        """Returns the metrics of validation from the sums that `prediction_step` returned."""
        loss, hits, count = np.asarray(prediction.predictions, dtype=np.float64).sum(axis=0)
        count = max(count, 1.0)
        return {
            "loss": loss / count,
            "perplexity": float(np.exp(min(loss / count, 700.0))),
            "masked_accuracy": hits / count,
            "num_masked_tokens": count,
        }
