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
"""An exponential moving average of a model's weights, for evaluation and for the saved model."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


class WeightAverage:
    """The average of a model's parameters over the optimizer steps.

    After update n (from 1) the average has moved towards the weights by 1 - d, d the smaller one of
    `decay` and (1 + n) / (10 + n), so that it forgets the initial values also in a short run. The
    average is held in at least float32: in bfloat16 steps of a thousandth would be lost.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        """Starts the average at the model's weights.

        Args:
            model: Its parameters are followed, tied ones once, as they are now: shard or move it
                before. Buffers are not averaged.
            decay: Share of the average that one step keeps, at least 0 and below 1.

        Raises:
            ValueError: The decay is outside of its range.
        """
        if not 0 <= decay < 1:
            raise ValueError(f"decay {decay} of the weight average must be from 0 to below 1")
        self.decay = decay
        self.num_updates = 0
        self._model = model
        self._average = {
            name: parameter.detach().to(
                torch.promote_types(parameter.dtype, torch.float32), copy=True
            )
            for name, parameter in model.named_parameters()
        }

    @torch.no_grad()
    def update(self) -> None:
        """Takes the present weights in; to be called after every optimizer step."""
        self.num_updates += 1
        decay = min(self.decay, (1 + self.num_updates) / (10 + self.num_updates))
        weights = [
            parameter.to(self._average[name].dtype)
            for name, parameter in self._model.named_parameters()
        ]
        torch._foreach_lerp_(list(self._average.values()), weights, 1 - decay)

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Gives the model the average within a `with` block, then its own weights back, unchanged.

        A model that is saved within the block is the averaged one.
        """
        weights = {
            name: parameter.detach().clone() for name, parameter in self._model.named_parameters()
        }
        self._fill(self._average)
        try:
            yield
        finally:
            self._fill(weights)

    @torch.no_grad()
    def _fill(self, values: dict[str, torch.Tensor]) -> None:
        for name, parameter in self._model.named_parameters():
            parameter.copy_(values[name])

    def state_dict(self) -> dict[str, Any]:
        """Returns all that `load_state_dict` needs to go on; the tensors are not copies."""
        return {"num_updates": self.num_updates, "average": dict(self._average)}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a saved state.

        Args:
            state: What `state_dict` returned for a model of the same shape.

        Raises:
            ValueError: Names or shapes are not the model's.
        """
        average = state["average"]
        different = sorted(set(average) ^ set(self._average)) or [
            name for name, mean in self._average.items() if average[name].shape != mean.shape
        ]
        if different:
            raise ValueError(f"the saved weight average is another model's: {different}")
        self.num_updates = state["num_updates"]
        for name, mean in self._average.items():
            mean.copy_(average[name])
