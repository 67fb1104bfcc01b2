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
"""The stages of a run: lengths of rows, sizes of batches and shares of masks, by optimizer step.

ELC-BERT and LTG-BERT train on rows of 128 tokens for 90 % of the steps and on rows of 512, a
quarter as many in a batch, for the rest (their training scripts). A schedule of batch sizes is a
list of stages of one length; the share of tokens to predict moves evenly over the whole run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple


class Stage(NamedTuple):
    """A part of a run.

    Attributes:
        fraction: Share of the run's optimizer steps.
        max_seq_length: Longest row, tokens.
        batch_factor: Rows of a batch, share of the run's batch size.
    """

    fraction: float
    max_seq_length: int
    batch_factor: float


class StepPlan(NamedTuple):
    """What one optimizer step trains on.

    Attributes:
        stage: Number of the stage, from 0.
        step: Number of the step within the stage, from 0.
        num_rows: Rows of each part of the step, a part being what a device takes at a time.
        mask_fraction: Share of the tokens to predict; None leaves it to the collator.
    """

    stage: int
    step: int
    num_rows: int
    mask_fraction: float | None


def parse_stages(texts: Sequence[str]) -> tuple[Stage, ...]:
    """Reads stages from "share of the steps:tokens a row:share of the batch".

    Args:
        texts: One for each stage, such as "0.9:128:1" and "0.1:512:0.25".

    Raises:
        ValueError: Another form, a number out of range, or shares that do not add up to 1.
    """
    stages = []
    for text in texts:
        try:
            fraction, length, factor = text.split(":")
            stage = Stage(float(fraction), int(length), float(factor))
        except ValueError:
            raise ValueError(
                f"stages {text!r}: must be like 0.9:128:1, share of the steps, tokens a row and "
                "share of the batch"
            ) from None
        if not (0 < stage.fraction <= 1 and 0 < stage.batch_factor <= 1):
            raise ValueError(f"stages {text!r}: both shares must be above 0 and at most 1")
        stages.append(stage)
    total = sum(stage.fraction for stage in stages)
    if abs(total - 1) > 1e-6:
        raise ValueError(
            f"stages {' '.join(texts)!r}: shares of the steps add up to {total}, not 1"
        )
    return tuple(stages)


def format_stages(stages: Sequence[Stage]) -> list[str]:
    """Returns what `parse_stages` reads."""
    return [f"{fraction:g}:{length}:{factor:g}" for fraction, length, factor in stages]


@dataclass(frozen=True)
class RunPlan:
    """What each step of a run trains on.

    Attributes:
        stages: The stages in order.
        num_steps: Optimizer steps of the whole run.
        num_rows: Rows of a part of a step in a stage of the whole batch.
        mask_fractions: Share of the tokens to predict at the first and after the last step; None
            leaves it to the collator.
    """

    stages: tuple[Stage, ...]
    num_steps: int
    num_rows: int
    mask_fractions: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        """Checks that every stage has whole batches and steps.

        Raises:
            ValueError: One has not.
        """
        for stage in self.stages:
            check_part(self.num_rows, stage)
        if self.num_steps < 1:
            raise ValueError(f"a run of {self.num_steps} steps: at least 1 is needed")
        starts = self.first_steps()
        if len(set(starts)) < len(starts) or starts[-1] >= self.num_steps:
            raise ValueError(
                f"stages {' '.join(format_stages(self.stages))!r} begin at the steps {starts} of "
                f"{self.num_steps}: the run is too short for them"
            )

    def first_steps(self) -> list[int]:
        """Returns the number of each stage's first step, from 0."""
        shares = accumulate((stage.fraction for stage in self.stages[:-1]), initial=0.0)
        return [round(share * self.num_steps) for share in shares]

    def describe(self, step: int) -> StepPlan:
        """Returns what a step trains on.

        Args:
            step: Steps done before; beyond the run's end the last stage goes on.
        """
        starts = self.first_steps()
        stage = max(number for number, start in enumerate(starts) if start <= step)
        num_rows = round(self.num_rows * self.stages[stage].batch_factor)
        fraction = None
        if self.mask_fractions is not None:
            first, last = self.mask_fractions
            fraction = first + (last - first) * min(1.0, step / self.num_steps)
        return StepPlan(stage, step - starts[stage], num_rows, fraction)


def check_part(num_rows: int, stage: Stage) -> None:
    """Checks that a device gets whole rows in a stage.

    Args:
        num_rows: Rows of a device at a time in a stage of the whole batch.
        stage: The stage.

    Raises:
        ValueError: A part of a row would be left over.
    """
    rows = num_rows * stage.batch_factor
    if abs(rows - round(rows)) > 1e-6 or round(rows) < 1:
        raise ValueError(
            f"per_device_train_batch_size {num_rows}: the stage of {stage.max_seq_length} tokens a "
            f"row takes {stage.batch_factor:g} of it, {rows:g} rows; a whole number is needed"
        )
