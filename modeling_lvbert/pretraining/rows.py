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
"""What training reads: packed rows with keys for masking, and the rows of each optimizer step.

Step k of a run has the same rows whatever the split into devices and accumulation, and whether the
run was interrupted before. Each rank reads its own rows; nothing is left for accelerate to divide.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import datasets
import torch
from torch.utils.data import Dataset, IterableDataset, Sampler

from .published_packing import shorten_rows
from .stages import RunPlan, Stage
from .streaming import Position, StreamedRows

START: Position = (0, 0, 0)


class PackedRows(Dataset):
    """Packed rows that carry their own key for masking.

    Index `epoch * len(rows) + row` is row `row` in epoch `epoch`: all that masking needs travels
    with the index, so neither workers nor ranks have a state to keep.
    """

    def __init__(
        self,
        rows: datasets.Dataset,
        seed: int,
        short_sequence_probability: float = 0.0,
        max_seq_length: int = 0,
    ) -> None:
        """Wraps the rows.

        Args:
            rows: Result of `pack_corpus`.
            seed: Seed of the masks.
            short_sequence_probability: Share of the rows to shorten, see `shorten_rows`.
            max_seq_length: Longest row, tokens, where rows are shortened.

        Raises:
            ValueError: A share outside [0, 1], or rows of two segments to shorten.
        """
        if not 0 <= short_sequence_probability <= 1:
            raise ValueError(
                f"short_sequence_probability {short_sequence_probability}: must be from 0 to 1"
            )
        if short_sequence_probability and "token_type_ids" in rows.column_names:
            raise ValueError(
                f"short_sequence_probability {short_sequence_probability}: must be 0 for rows of "
                "two segments, which are shortened when they are packed"
            )
        self.rows = rows
        self.seed = seed
        self.short_sequence_probability = short_sequence_probability
        self.max_seq_length = max_seq_length

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Returns several rows in one read; torch's DataLoader calls it with a batch's indices."""
        places = [divmod(index, len(self.rows)) for index in indices]
        columns = self.rows[[row for _, row in places]]
        rows = [
            {
                "mask_key": (self.seed, epoch, row),
                **{name: values[i] for name, values in columns.items()},
            }
            for i, (epoch, row) in enumerate(places)
        ]
        return shorten_rows(rows, self.max_seq_length, self.short_sequence_probability)


class RowIndex(NamedTuple):
    """Which row to read, and how to mask it.

    Attributes:
        stage: Number of the stage whose rows it is one of.
        number: Index into the stage's `PackedRows`.
        mask_fraction: Share of its tokens to predict; None leaves it to the collator.
    """

    stage: int
    number: int
    mask_fraction: float | None


class StagedRows(Dataset):
    """The packed rows of every stage, read by `RowIndex`."""

    def __init__(self, stages: Sequence[PackedRows]) -> None:
        """Wraps the rows.

        Args:
            stages: Rows of each stage.
        """
        self.stages = stages

    def __len__(self) -> int:
        return len(self.stages[0])

    def __getitem__(self, index: RowIndex) -> dict[str, Any]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[RowIndex]) -> list[dict[str, Any]]:
        """Returns several rows of one stage in one read.

        Args:
            indices: All of one step.
        """
        rows = self.stages[indices[0].stage].__getitems__([index.number for index in indices])
        return _set_mask_fraction(rows, indices[0].mask_fraction)


def _set_mask_fraction(rows: list[dict[str, Any]], fraction: float | None) -> list[dict[str, Any]]:
    return rows if fraction is None else [{**row, "mask_fraction": fraction} for row in rows]


class StepSampler(Sampler[list[RowIndex]]):
    """The rows of one rank: a list for each part of each optimizer step.

    A stage's rows come as an endless stream of seeded permutations. A step takes the next ones,
    part after part: those of all ranks, then the next accumulation step's. So every step has a
    full batch and no row is dropped. An epoch is as many whole steps as show every row of the first
    stage at least once.
    """

    def __init__(
        self,
        plan: RunPlan,
        num_rows: Sequence[int],
        seed: int,
        num_accumulated: int = 1,
        rank: int = 0,
        num_ranks: int = 1,
    ) -> None:
        """Describes the stream.

        Args:
            plan: What each step takes.
            num_rows: Rows that each stage has.
            seed: Seed of the permutations.
            num_accumulated: Accumulation steps.
            rank: Number of this rank.
            num_ranks: Ranks that share a step.
        """
        self.plan = plan
        self.num_rows = num_rows
        self.seed = seed
        self.epoch = 0
        self.num_accumulated, self.rank, self.num_ranks = num_accumulated, rank, num_ranks
        self.steps_per_epoch = count_steps(
            num_rows[0], plan.describe(0).num_rows * num_accumulated * num_ranks
        )

    def __len__(self) -> int:
        return self.steps_per_epoch * self.num_accumulated

    def set_epoch(self, epoch: int) -> None:
        """Moves to the beginning of an epoch, counted from 0."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[RowIndex]]:
        first = self.epoch * self.steps_per_epoch
        order, place = torch.empty(0, dtype=torch.long), None
        for step in range(first, first + self.steps_per_epoch):
            stage, number, size, fraction = self.plan.describe(step)
            for accumulated in range(self.num_accumulated):
                part = (number * self.num_accumulated + accumulated) * self.num_ranks + self.rank
                indices = []
                for position in range(part * size, (part + 1) * size):
                    current_pass, offset = divmod(position, self.num_rows[stage])
                    if place != (stage, current_pass):
                        place = (stage, current_pass)
                        order = self._shuffle(stage, current_pass)
                    index = current_pass * self.num_rows[stage] + int(order[offset])
                    indices.append(RowIndex(stage, index, fraction))
                yield indices

    def _shuffle(self, stage: int, current_pass: int) -> torch.Tensor:
        seed = (self.seed << 32) + (stage << 24) + current_pass
        generator = torch.Generator().manual_seed(seed)
        return torch.randperm(self.num_rows[stage], generator=generator)


def count_steps(num_rows: int, num_rows_of_step: int) -> int:
    """Returns the steps that show every row at least once."""
    return -(-num_rows // num_rows_of_step)


class StreamedBatches(IterableDataset):
    """The rows of one rank out of streams, for a DataLoader that makes no batches itself.

    Each item is the rows of a part of a step; the last one has `stream_position`, where the next
    part of the run begins. Every rank reads the whole stream and keeps its own rows.
    """

    def __init__(
        self,
        plan: RunPlan,
        stages: Sequence[StreamedRows],
        short_sequence_probability: float = 0.0,
        num_accumulated: int = 1,
        rank: int = 0,
        num_ranks: int = 1,
    ) -> None:
        """Describes the stream.

        Args:
            plan: What each step takes.
            stages: The stream of each stage.
            short_sequence_probability: Share of the rows to shorten, see `shorten_rows`.
            num_accumulated: Accumulation steps.
            rank: Number of this rank.
            num_ranks: Ranks that share a step.
        """
        self.plan = plan
        self.stages = stages
        self.short_sequence_probability = short_sequence_probability
        self.num_accumulated, self.rank, self.num_ranks = num_accumulated, rank, num_ranks
        self.first_step = 0
        self.position = START

    def start_at(self, step: int, position: Position) -> None:
        """Moves to a step.

        Args:
            step: Steps done before.
            position: What `stream_position` was after them.
        """
        self.first_step, self.position = step, position

    def __iter__(self) -> Iterator[list[dict[str, Any]]]:
        stage = -1
        rows: Iterator[tuple[Position, dict[str, Any]]] = iter(())
        position = self.position
        for step in range(self.first_step, self.plan.num_steps):
            current, number, size, fraction = self.plan.describe(step)
            if current != stage:
                stage = current
                position = position if number else START
                rows = self.stages[stage].iterate_from(position)
            length = self.plan.stages[stage].max_seq_length
            for _ in range(self.num_accumulated):
                own: list[dict[str, Any]] = []
                for rank in range(self.num_ranks):
                    taken = [next(rows) for _ in range(size)]
                    position = taken[-1][0]
                    if rank == self.rank:
                        own = [row for _, row in taken]
                own = shorten_rows(own, length, self.short_sequence_probability)
                own = _set_mask_fraction(own, fraction)
                yield [*own[:-1], {**own[-1], "stream_position": position}]


@dataclass(frozen=True)
class TrainingData:
    """What a run trains on.

    Attributes:
        rows: Packed rows of every stage, or streams of them.
        stages: The stages in order.
        short_sequence_probability: Share of the rows to shorten at each visit, see `shorten_rows`.
        mask_fractions: Share of the tokens to predict at the beginning and at the end of the run;
            None leaves it to the collator.
    """

    rows: Sequence[datasets.Dataset] | Sequence[StreamedRows]
    stages: tuple[Stage, ...]
    short_sequence_probability: float = 0.0
    mask_fractions: tuple[float, float] | None = None

    @property
    def is_streamed(self) -> bool:
        """Whether rows are packed while they are read."""
        return isinstance(self.rows[0], StreamedRows)

    def count_rows(self) -> list[int]:
        """Returns the number of rows of each stage; none of streams."""
        return [len(rows) for rows in self.rows if isinstance(rows, datasets.Dataset)]

    def describe(self) -> str:
        """Returns a line on the rows, for the log."""
        numbers = self.count_rows()
        lengths = [stage.max_seq_length for stage in self.stages]
        if not numbers:
            return f"streamed rows of at most {lengths} tokens"
        return f"{numbers} rows of at most {lengths} tokens"

    def build(
        self, plan: RunPlan, seed: int, num_accumulated: int, rank: int, num_ranks: int
    ) -> StagedRows | StreamedBatches:
        """Returns what a DataLoader reads.

        Args:
            plan: What each step takes.
            seed: Seed of the masks.
            num_accumulated: Accumulation steps.
            rank: Number of this rank.
            num_ranks: Ranks that share a step.
        """
        share = self.short_sequence_probability
        streams = [rows for rows in self.rows if isinstance(rows, StreamedRows)]
        if streams:
            return StreamedBatches(plan, streams, share, num_accumulated, rank, num_ranks)
        return StagedRows(
            [
                PackedRows(rows, seed, share, stage.max_seq_length)
                for rows, stage in zip(self.rows, self.stages, strict=True)
                if isinstance(rows, datasets.Dataset)
            ]
        )
