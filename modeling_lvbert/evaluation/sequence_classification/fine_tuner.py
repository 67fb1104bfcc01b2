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
"""A Trainer that fine-tunes: rates by layer, a frozen encoder, pairs in both orders."""

from typing import Any

import datasets
import numpy as np
import torch
from transformers import EarlyStoppingCallback, PreTrainedModel, Trainer, TrainerCallback

from .layerwise_decay import (
    build_parameter_groups,
    compute_layerwise_factors,
    list_encoder_parameters,
)
from .options import FineTuningArguments


def compute_learning_rates(
    model: PreTrainedModel, method: FineTuningArguments, learning_rate: float
) -> dict[str, float]:
    """Returns the peak rate of each parameter.

    Args:
        model: A model with a head.
        method: Decay by layer, and the head's own rate.
        learning_rate: The rate of what has no other.

    Raises:
        ValueError: The model has no encoder with numbered layers.
    """
    factors = {name: 1.0 for name, _ in model.named_parameters()}
    if method.layerwise_lr_decay is not None:
        factors = compute_layerwise_factors(
            model, method.layerwise_lr_decay, method.layerwise_lr_decay_unit
        )
    rates = {name: learning_rate * factor for name, factor in factors.items()}
    if method.head_learning_rate is not None:
        encoder = set(list_encoder_parameters(model))
        rates.update({name: method.head_learning_rate for name in rates if name not in encoder})
    return rates


def freeze_encoder(model: PreTrainedModel) -> None:
    """Takes all but the head from the training.

    Raises:
        ValueError: The model is no encoder with a head.
    """
    list_encoder_parameters(model)
    model.base_model.requires_grad_(False)


class FineTuner(Trainer):
    """A Trainer for the options of `FineTuningArguments`.

    Its validation loss, as its metrics, is the mean over the rows: transformers' own is a mean of
    batches' means, which depends on how the rows are split.
    """

    def __init__(self, model: PreTrainedModel, method: FineTuningArguments, **options: Any) -> None:
        """Takes the model.

        Args:
            model: The model; its encoder is frozen here, if that is wanted.
            method: How to fine-tune.
            **options: Options of the Trainer.

        Raises:
            ValueError: The model has not the parts that the method speaks of.
        """
        if method.freeze_encoder:
            freeze_encoder(model)
        self._method = method
        self._learning_rates = compute_learning_rates(model, method, options["args"].learning_rate)
        callbacks: list[TrainerCallback] = []
        if method.early_stopping_patience is not None:
            callbacks.append(EarlyStoppingCallback(method.early_stopping_patience))
        super().__init__(model=model, callbacks=callbacks, **options)

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """Makes the optimizer, with groups of parameters where rates differ.

        Raises:
            ValueError: The chosen optimizer makes groups of its own.
        """
        given = () if model is None else (model,)
        has_groups = self._method.layerwise_lr_decay not in (None, 1.0)
        if self.optimizer is None and (has_groups or self._method.head_learning_rate is not None):
            model = self.model if model is None else model
            kind, options = self.get_optimizer_cls_and_kwargs(self.args, model)
            if {"params", "model", "optimizer_dict"} & set(options):
                raise ValueError(
                    f"optim {self.args.optim!r} makes groups of parameters itself: "
                    "layerwise_lr_decay and head_learning_rate need another"
                )
            groups = build_parameter_groups(
                model,
                self.get_decay_parameter_names(model),
                self.args.weight_decay,
                self._learning_rates,
            )
            self.optimizer_cls_and_kwargs = (kind, {**options, "params": groups})
        return super().create_optimizer(*given)

    def compute_loss(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns the loss; a frozen encoder gives the features that it gives in scoring."""
        if self._method.freeze_encoder:
            self.accelerator.unwrap_model(model).base_model.eval()
        return super().compute_loss(model, *args, **kwargs)

    def prediction_step(self, *args: Any, **kwargs: Any) -> tuple[None, Any, Any]:
        """Leaves the loss to `compute_scores`."""
        _, logits, labels = super().prediction_step(*args, **kwargs)
        return None, logits, labels


def select_logits(
    logits: torch.Tensor | tuple[torch.Tensor, ...], labels: torch.Tensor
) -> torch.Tensor:
    """Returns the logits alone, in single precision, before anything is gathered."""
    return (logits[0] if isinstance(logits, tuple) else logits).float()


def add_exchanged_pairs(rows: datasets.Dataset) -> datasets.Dataset:
    """Returns all rows, then all rows again with their two texts exchanged."""
    names = {"sentence1": "sentence2", "sentence2": "sentence1"}
    exchanged = rows.rename_columns(names).select_columns(rows.column_names)
    return datasets.concatenate_datasets([rows, exchanged])


def average_orders(logits: np.ndarray) -> np.ndarray:
    """Returns the mean of both orders, (rows, classes), of rows that `add_exchanged_pairs` gave."""
    half = len(logits) // 2
    return (logits[:half] + logits[half:]) / 2
