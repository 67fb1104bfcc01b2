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
"""Learning-rate schedules of the two papers, as factors of the peak rate."""

import functools
import math

import torch
from torch.optim.lr_scheduler import LambdaLR

SCHEDULES = ("linear", "polynomial", "cosine", "constant")


def compute_factor(
    step: int,
    name: str,
    num_training_steps: int,
    num_warmup_steps: float = 0,
    power: float = 1.0,
    min_factor: float = 0.1,
) -> float:
    """Returns the share of the peak rate that a step has; step 0 has 0 where there is a warm-up.

    Args:
        step: Steps done before.
        name: `linear` and `polynomial` fall to 0 from the first step on, not from the end of the
            warm-up on, and stay there (LV-BERT's code); `cosine` falls from the end of the warm-up
            to `min_factor` and rises again after the last step (ELC-BERT's code); `constant` stays.
        num_training_steps: Steps of the whole run.
        num_warmup_steps: Steps of linear warm-up, whole or not.
        power: Exponent of `polynomial`.
        min_factor: Lowest factor of `cosine`.
    """
    warmup = min(1.0, step / num_warmup_steps) if num_warmup_steps > 0 else 1.0
    if name == "constant":
        return warmup
    if name == "cosine":
        if step < num_warmup_steps:
            return warmup
        length = max(1, num_training_steps - num_warmup_steps)
        progress = (step - num_warmup_steps) / length
        return min_factor + (1 - min_factor) * 0.5 * (1 + math.cos(math.pi * progress))
    remaining = 1 - min(step, num_training_steps) / num_training_steps
    return warmup * remaining ** (power if name == "polynomial" else 1.0)


def build_schedule(
    optimizer: torch.optim.Optimizer,
    name: str,
    num_training_steps: int,
    num_warmup_steps: float = 0,
    power: float = 1.0,
    min_factor: float = 0.1,
) -> LambdaLR:
    """Returns a scheduler that every optimizer step is to be followed by a step of.

    Args:
        optimizer: Its groups' rates are the peak.
        name: One of `SCHEDULES`, see `compute_factor`.
        num_training_steps: Steps of the whole run.
        num_warmup_steps: Steps of linear warm-up, whole or not.
        power: Exponent of `polynomial`.
        min_factor: Lowest factor of `cosine`.

    Raises:
        ValueError: There is no such schedule, or a number is outside of its range.
    """
    if name not in SCHEDULES:
        raise ValueError(f"schedule {name!r}: must be one of {', '.join(SCHEDULES)}")
    if num_training_steps < 1 or not 0 <= num_warmup_steps <= num_training_steps:
        raise ValueError(
            f"num_warmup_steps {num_warmup_steps} must be from 0 to num_training_steps "
            f"{num_training_steps}, and that at least 1"
        )
    if power <= 0 or not 0 <= min_factor <= 1:
        raise ValueError(f"power {power} must be above 0, min_factor {min_factor} from 0 to 1")
    factor = functools.partial(
        compute_factor,
        name=name,
        num_training_steps=num_training_steps,
        num_warmup_steps=num_warmup_steps,
        power=power,
        min_factor=min_factor,
    )
    return LambdaLR(optimizer, factor)
