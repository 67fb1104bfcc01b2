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
"""The two papers' optimizers, gradient clipping and parameter groups.

LV-BERT (arXiv 2106.11740) trains with Adam without bias correction and decoupled weight decay, as
BERT does; ELC-BERT (arXiv 2311.02265) with LAMB (arXiv 1904.00962) that corrects the bias and
scales only parameters with weight decay by the ratio of their norm to their update's. Both leave
parameters without a gradient alone, moments and weight decay included.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from ..configuration_layer_order import LayerOrderConfig
from ..layer_order import join_letters, split_words

# What can share a learning rate, by family; the first is LV-BERT's published and the usual one.
LAYERWISE_UNITS = {"lvbert": ("pair", "letter"), "elcbert": ("word", "letter")}

_EMBEDDINGS = re.compile(r"(^|\.)embeddings(_project)?\.")
_LETTER = re.compile(r"(?:^|\.)encoder\.(?:words\.(\d+)\.)?layers\.(\d+)\.")
_SELECTION = re.compile(r"(?:^|\.)encoder\.(?:layer_selections\.(\d+)|output_selection)\.")


def _check_settings(lr: float, betas: tuple[float, float], eps: float, weight_decay: float) -> None:
    if lr < 0 or eps <= 0 or weight_decay < 0:
        raise ValueError(
            f"lr {lr} and weight_decay {weight_decay} must be at least 0, eps {eps} above 0"
        )
    if not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"betas {betas} must be at least 0 and below 1")


def _split_for_speed(parameters: list[Tensor]) -> list[list[Tensor]]:
    """Returns lists to work on at once: all together on a GPU, where launches cost; else singly.

    On a CPU one parameter's tensors stay in the cache from one operation to the next.
    """
    if parameters and parameters[0].is_cuda:
        return [parameters]
    return [[parameter] for parameter in parameters]


class _MomentOptimizer(torch.optim.Optimizer, ABC):
    """Keeps both moments of every parameter; a subclass says what moves the parameters."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
    ) -> None:
        _check_settings(lr, betas, eps, weight_decay)
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Moves every parameter that has a gradient; returns the closure's result, if there is one.

        Args:
            closure: Computes loss and gradients anew.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            trained = [parameter for parameter in group["params"] if parameter.grad is not None]
            for parameters in _split_for_speed(trained):
                updates = self._compute_updates(parameters, group)
                torch._foreach_add_(parameters, updates, alpha=-group["lr"])
        return loss

    @abstractmethod
    def _compute_updates(self, parameters: list[Tensor], group: dict[str, Any]) -> list[Tensor]:
        """Returns what is subtracted from each parameter, times the learning rate."""

    def _advance(
        self, parameters: list[Tensor], group: dict[str, Any]
    ) -> tuple[list[Tensor], list[Tensor], list[float]]:
        """Returns first moments, second moments and step counts, all with this step in them."""
        for parameter in parameters:
            state = self.state[parameter]
            if not state:
                # A tensor on the CPU under torch's own name: checkpoints of any kind keep it whole.
                state["step"] = torch.tensor(0.0, dtype=torch.float32)
                state["exp_avg"] = torch.zeros_like(parameter)
                state["exp_avg_sq"] = torch.zeros_like(parameter)
            state["step"] += 1
        states = [self.state[parameter] for parameter in parameters]
        gradients = [cast(Tensor, parameter.grad) for parameter in parameters]
        first = [state["exp_avg"] for state in states]
        second = [state["exp_avg_sq"] for state in states]
        beta1, beta2 = group["betas"]
        torch._foreach_lerp_(first, gradients, 1 - beta1)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, gradients, gradients, value=1 - beta2)
        return first, second, [state["step"].item() for state in states]


class Lamb(_MomentOptimizer):
    """LAMB (arXiv 1904.00962) as ELC-BERT's and LTG-BERT's code has it.

    u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay * w, and w moves by
    -lr * r * u. The trust ratio r is |w| / |u| in groups with weight decay, without bounds, and 1
    in groups without or where a norm is 0. t counts a parameter's own gradients.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        betas: tuple[float, float] = (0.9, 0.98),
        eps: float = 1e-6,
        weight_decay: float = 0.1,
    ) -> None:
        """Builds the optimizer; the defaults are ELC-BERT's.

        Args:
            params: Parameters or groups.
            lr: Learning rate.
            betas: Decay of both moments, per step.
            eps: Added to the root of the second moment.
            weight_decay: Share of the parameter that is added to its update.

        Raises:
            ValueError: A number is outside of its range.
        """
        super().__init__(params, lr, betas, eps, weight_decay)

    def _compute_updates(self, parameters: list[Tensor], group: dict[str, Any]) -> list[Tensor]:
        first, second, steps = self._advance(parameters, group)
        beta1, beta2 = group["betas"]
        updates = list(torch._foreach_div(first, [1 - beta1**step for step in steps]))
        roots = torch._foreach_div(second, [1 - beta2**step for step in steps])
        torch._foreach_sqrt_(roots)
        torch._foreach_add_(roots, group["eps"])
        torch._foreach_div_(updates, roots)
        if group["weight_decay"] > 0:
            torch._foreach_add_(updates, parameters, alpha=group["weight_decay"])
            norms = zip(torch._foreach_norm(parameters), torch._foreach_norm(updates), strict=True)
            for update, (weight_norm, update_norm) in zip(updates, norms, strict=True):
                defined = (weight_norm > 0) & (update_norm > 0)
                update.mul_(torch.where(defined, weight_norm / update_norm, 1.0))
        return updates


class UncorrectedAdamW(_MomentOptimizer):
    """AdamW without bias correction, as BERT's, ELECTRA's and LV-BERT's TensorFlow code has it.

    w moves by -lr * (m / (sqrt(v) + eps) + weight_decay * w).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 5e-4,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
    ) -> None:
        """Builds the optimizer; the defaults are LV-BERT-small's.

        Args:
            params: Parameters or groups.
            lr: Learning rate.
            betas: Decay of both moments, per step.
            eps: Added to the root of the second moment.
            weight_decay: Share of the parameter that is added to its update.

        Raises:
            ValueError: A number is outside of its range.
        """
        super().__init__(params, lr, betas, eps, weight_decay)

    def _compute_updates(self, parameters: list[Tensor], group: dict[str, Any]) -> list[Tensor]:
        first, second, _ = self._advance(parameters, group)
        roots = torch._foreach_sqrt(second)
        torch._foreach_add_(roots, group["eps"])
        updates = list(torch._foreach_div(first, roots))
        if group["weight_decay"] > 0:
            torch._foreach_add_(updates, parameters, alpha=group["weight_decay"])
        return updates


OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "lamb": Lamb,
    "uncorrected_adamw": UncorrectedAdamW,
    "adamw": torch.optim.AdamW,
}


def build_optimizer(
    name: str,
    groups: list[dict[str, Any]],
    learning_rate: float,
    betas: tuple[float, float],
    epsilon: float,
) -> torch.optim.Optimizer:
    """Returns an optimizer over groups.

    Args:
        name: A key of `OPTIMIZERS`.
        groups: Result of `build_parameter_groups`.
        learning_rate: Peak rate of groups without their own.
        betas: Decay of both moments, per step.
        epsilon: Added to the root of the second moment.

    Raises:
        ValueError: There is no such optimizer, or a number is outside of its range.
    """
    if name not in OPTIMIZERS:
        raise ValueError(f"optimizer {name!r}: must be one of {', '.join(OPTIMIZERS)}")
    make = cast(Callable[..., torch.optim.Optimizer], OPTIMIZERS[name])
    return make(groups, lr=learning_rate, betas=betas, eps=epsilon)


def clip_gradients(
    parameters: Iterable[Tensor],
    max_norm: float,
    epsilon: float = 0.0,
    norm: Tensor | None = None,
) -> Tensor:
    """Scales all gradients by min(1, max_norm / (norm + epsilon)); returns the norm before.

    Args:
        parameters: What to clip together; those without a gradient do not count.
        max_norm: Largest norm of all gradients as one vector that stays as it is.
        epsilon: 0 as in TensorFlow (LV-BERT), 1e-6 as in torch (ELC-BERT).
        norm: The norm, where the caller knows it.

    Raises:
        ValueError: `max_norm` is not positive.
    """
    if max_norm <= 0:
        raise ValueError(f"max_norm {max_norm} must be above 0")
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return torch.tensor(0.0)
    if norm is None:
        norm = torch.nn.utils.get_total_norm(gradients)
    if isinstance(norm, DTensor):
        norm = norm.full_tensor()
    factor = (max_norm / (norm + epsilon)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.to(gradient.device))
    return norm


def compute_layerwise_factors(
    names: Iterable[str], config: LayerOrderConfig, decay: float, unit: str | None = None
) -> dict[str, float]:
    """Returns the share of the learning rate that each parameter trains with.

    With n units counted from the input the i-th (from 0) has decay^(n + 1 - i), the embeddings have
    decay^(n + 2) and a task's head has the whole rate: LV-BERT's `_get_layer_lrs`, whose units are
    pairs of letters and whose top layer hence has decay^2.

    Args:
        names: Parameter names of a model of either family.
        config: Its configuration.
        decay: Ratio of the rates of neighbouring units, above 0, at most 1.
        unit: What shares a rate, one of the family's `LAYERWISE_UNITS`; by default the first.

    Raises:
        ValueError: The decay is outside of its range or the family has no such unit.
    """
    units = LAYERWISE_UNITS[config.model_type]
    unit = units[0] if unit is None else unit
    if unit not in units:
        raise ValueError(f"unit {unit!r}: {config.model_type} has {', '.join(units)}")
    if not 0 < decay <= 1:
        raise ValueError(f"layer-wise decay {decay} must be above 0 and at most 1")
    if config.model_type == "lvbert":
        lengths = [len(join_letters(config.layer_order))]
    else:
        lengths = [len(word) for word in split_words(config.layer_order)]
    last = _count_units_before(len(lengths) - 1, lengths[-1] - 1, lengths, unit)

    def find_exponent(name: str) -> int:
        if match := _LETTER.search(name):
            return last + 2 - _count_units_before(int(match[1] or 0), int(match[2]), lengths, unit)
        if match := _SELECTION.search(name):
            index = int(match[1] or len(lengths) - 1)
            letter = 0 if match[1] else lengths[-1] - 1
            return last + 2 - _count_units_before(index, letter, lengths, unit)
        return last + 3 if _EMBEDDINGS.search(name) else 0

    return {name: decay ** find_exponent(name) for name in names}


def _count_units_before(word: int, letter: int, lengths: list[int], unit: str) -> int:
    if unit == "word":
        return word
    position = sum(lengths[:word]) + letter
    return position // 2 if unit == "pair" else position


def build_parameter_groups(
    named_parameters: Iterable[tuple[str, nn.Parameter]],
    decay_names: Collection[str],
    weight_decay: float,
    learning_rate: float,
    factors: dict[str, float] | None = None,
) -> list[dict[str, Any]]:
    """Returns groups for an optimizer: one for each learning rate with and without weight decay.

    Args:
        named_parameters: A model's; those that need no gradient are left out.
        decay_names: Names of those that weight decay applies to.
        weight_decay: Share of the parameter per unit of learning rate.
        learning_rate: Peak rate.
        factors: Result of `compute_layerwise_factors`; absent, all have the whole rate.
    """
    decayed = set(decay_names)
    groups: dict[tuple[float, bool], dict[str, Any]] = {}
    for name, parameter in named_parameters:
        if parameter.requires_grad:
            rate = learning_rate * (1.0 if factors is None else factors[name])
            decays = name in decayed
            group = groups.setdefault(
                (rate, decays),
                {"params": [], "lr": rate, "weight_decay": weight_decay if decays else 0.0},
            )
            group["params"].append(parameter)
    return list(groups.values())
