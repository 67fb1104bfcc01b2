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
"""Trains a supernet: each optimizer step is one path's, or the mean over several paths.

Layers that are not on the step's path have no gradient, so that the optimizers leave them alone,
weight decay and moments included.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, TrainingArguments

from ..pretraining.electra_trainer import ElectraTrainer
from ..pretraining.resumable_trainer import ResumableTrainer
from ..pretraining.trainer import MaskedLanguageModelingTrainer
from .paths import draw_paths
from .supernet import find_encoder


class PathMixin(ResumableTrainer):
    """Takes a path for each step, and saves the supernet as it is."""

    def __init__(
        self,
        model: PreTrainedModel,
        args: TrainingArguments,
        *others: Any,
        path_sampling: str = "uniform",
        **kwargs: Any,
    ) -> None:
        """Builds the Trainer; see `MaskedLanguageModelingTrainer`.

        Args:
            model: The supernet.
            args: Arguments of training.
            others: The Trainer's further arguments.
            path_sampling: One of `paths.SAMPLINGS`.
            kwargs: The Trainer's further arguments.
        """
        # Layers off the path take no part in the loss.
        args.ddp_find_unused_parameters = True
        encoder = find_encoder(model)  # type: ignore[arg-type]
        self._path_settings = (path_sampling, len(encoder.positions))
        self._has_words = encoder.has_words
        self._paths = self.draw_paths(args.seed, 0)
        self._path = self._paths[0]
        super().__init__(model, args, *others, **kwargs)

    def draw_paths(self, seed: int, step: int) -> list[str]:
        """Returns a step's paths."""
        sampling, num_layers = self._path_settings
        return draw_paths(sampling, num_layers, seed, step, self._has_words)

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> Tensor:
        """Returns the mean loss of the step's paths on a part of the step."""
        self._paths = self.draw_paths(self.args.seed, self.state.global_step)
        losses = []
        for path in self._paths:
            self._path = path
            losses.append(super().training_step(model, inputs, num_items_in_batch))
        return torch.stack(losses).sum()

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """Returns the path's share of the step's loss."""
        on_path = {**inputs, "layer_order": self._path}
        result: Any = super().compute_loss(model, on_path, return_outputs, num_items_in_batch)
        if return_outputs:
            return result[0] / len(self._paths), result[1]
        return result / len(self._paths)

    def _write_model(self, folder: Path) -> None:
        ResumableTrainer._write_model(self, folder)


class SupernetTrainer(PathMixin, MaskedLanguageModelingTrainer):
    """Trains a supernet by masked language modelling."""


class ElectraSupernetTrainer(PathMixin, ElectraTrainer):
    """Trains a supernet by ELECTRA's objective."""
