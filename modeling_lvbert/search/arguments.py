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
"""Command-line options of the search."""

from collections import Counter
from dataclasses import dataclass, field

from ..layer_order import LAYER_NAMES
from .evolution import EvolutionSettings, Space
from .fitness import FITNESSES
from .paths import SAMPLINGS

OBJECTIVES = ("fitness", "parameters", "flops", "latency")

_MOST_LAYERS, _MOST_ORDERS = 1_000, 100_000
# The lowest value of each number.
_LEAST = {
    "num_layers": 1,
    "num_supernets": 1,
    "num_scoring_rows": 2,
    "rank_check": 0,
    "rank_check_steps": 1,
    "rank_check_seeds": 1,
    "num_random_baselines": 0,
    "max_parameters": 1,
    "max_flops": 1,
    "max_latency": 0,
}


@dataclass
class SearchArguments:
    """How to search; sizes of the evolution are Single-Path One-Shot's, as substitutes."""

    num_layers: int = field(default=8, metadata={"help": "Letters of every order."})
    path_sampling: str = field(
        default="uniform",
        metadata={"help": f"Orders that the supernet trains on, one of: {', '.join(SAMPLINGS)}."},
    )
    num_supernets: int = field(
        default=1,
        metadata={
            "help": "Supernets, trained with the seeds that follow each other; the fitness is the "
            "mean over them, which makes it less a matter of one training's chance."
        },
    )
    fitness: str = field(
        default="accuracy",
        metadata={
            "help": f"What orders are compared by, one of: {', '.join(FITNESSES)}; accuracy is the "
            "paper's, ties are broken by the loss."
        },
    )
    num_scoring_rows: int = field(
        default=512, metadata={"help": "Rows of validation that every order is scored on."}
    )
    population_size: int = field(default=50, metadata={"help": "New orders in each generation."})
    num_generations: int = field(default=20, metadata={"help": "Generations, the first included."})
    num_parents: int = field(default=10, metadata={"help": "Orders that the next are bred from."})
    mutation_probability: float = field(
        default=0.1, metadata={"help": "Share of the letters that a mutation draws anew."}
    )
    letter_counts: list[str] | None = field(
        default=None,
        metadata={
            "help": "Letters that every order has, as in s:3 f:3 d:2, or the word equal, where "
            "num_layers is a multiple of 3."
        },
    )
    max_parameters: int | None = field(
        default=None, metadata={"help": "Most parameters of an order's model without its heads."}
    )
    max_flops: int | None = field(
        default=None, metadata={"help": "Most operations of its encoder for one row."}
    )
    max_latency: float | None = field(
        default=None, metadata={"help": "Longest time of its encoder for a batch, milliseconds."}
    )
    objectives: list[str] = field(
        default_factory=lambda: ["fitness"],
        metadata={"help": f"What to weigh against each other, of: {', '.join(OBJECTIVES)}."},
    )
    num_random_baselines: int = field(
        default=5, metadata={"help": "Random orders with the best order's letters to compare with."}
    )
    rank_check: int = field(
        default=0, metadata={"help": "Orders to train from scratch, to check the ranking."}
    )
    rank_check_steps: int = field(
        default=500, metadata={"help": "Optimizer steps of each of them."}
    )
    rank_check_seeds: int = field(default=1, metadata={"help": "Trainings of each of them."})

    def __post_init__(self) -> None:
        """Checks names and numbers.

        Raises:
            ValueError: There is no such name, or a number is out of range.
        """
        self._check_names()
        for name, lowest in _LEAST.items():
            value = getattr(self, name)
            if value is not None and not value >= lowest:
                raise ValueError(f"{name} {value}: must be at least {lowest}")
        if self.num_layers > _MOST_LAYERS or self.population_size > _MOST_ORDERS:
            raise ValueError(
                f"num_layers {self.num_layers}, population_size {self.population_size}: at most "
                f"{_MOST_LAYERS} and {_MOST_ORDERS} are possible"
            )
        if 0 < self.rank_check < 3:
            raise ValueError(f"rank_check {self.rank_check}: a ranking needs at least 3 orders")
        self.make_settings(0)
        self.make_space(False)

    def _check_names(self) -> None:
        for name, known in (("path_sampling", SAMPLINGS), ("fitness", FITNESSES)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} {getattr(self, name)!r}: must be of {', '.join(known)}")
        unknown = sorted(set(self.objectives) - set(OBJECTIVES))
        if unknown or len(set(self.objectives)) < len(self.objectives):
            raise ValueError(f"objectives {self.objectives}: must be of {', '.join(OBJECTIVES)}")
        if "fitness" not in self.objectives:
            raise ValueError(f"objectives {self.objectives}: fitness must be one of them")

    def make_settings(self, seed: int) -> EvolutionSettings:
        """Returns the evolution's settings."""
        return EvolutionSettings(
            population_size=self.population_size,
            num_generations=self.num_generations,
            num_parents=self.num_parents,
            mutation_probability=self.mutation_probability,
            seed=seed,
            is_multi_objective=len(self.objectives) > 1,
        )

    def make_space(self, has_words: bool) -> Space:
        """Returns the space of orders, without the limits on costs."""
        letters = "".join(sorted(LAYER_NAMES))
        return Space(self.num_layers, has_words, letters, self._count_letters())

    def _count_letters(self) -> dict[str, int] | None:
        if self.letter_counts is None:
            return None
        if self.letter_counts == ["equal"]:
            if self.num_layers % len(LAYER_NAMES):
                raise ValueError(
                    f"letter_counts equal: num_layers {self.num_layers} must be a multiple of "
                    f"{len(LAYER_NAMES)}"
                )
            return {letter: self.num_layers // len(LAYER_NAMES) for letter in LAYER_NAMES}
        try:
            pairs = [text.split(":") for text in self.letter_counts]
            return dict(Counter({letter: int(number) for letter, number in pairs}))
        except ValueError:
            raise ValueError(
                f"letter_counts {self.letter_counts}: must be like s:3 f:3 d:2, or equal"
            ) from None
