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
"""Evolutionary search over layer orders: strings in, strings out, the standard library alone.

The algorithm is Single-Path One-Shot's (Guo et al. 2020, arXiv 1904.00420, section 3.4): the best
orders so far are changed at random and crossed. LV-BERT (arXiv 2106.11740) searches in this way,
but its settings were never published, so the defaults here are substitutes: those of
Single-Path One-Shot's released code. Unlike that code no order is scored twice, letter counts can
be kept, and several objectives are ranked as in NSGA-II (Deb et al. 2002).

A gene is a letter of the order or, where word cuts are searched too, a letter with the blank after
it: "ds fs d" has the genes "d", "s ", "f", "s ", "d".
"""

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

Scores = Mapping[str, Sequence[float]]

# Up to so many orders a space is enumerated when chance finds nothing new.
ENUMERATED_ORDERS = 100_000
# Tries for each child that is wanted; most mutations of a short order change nothing.
BREEDING_ATTEMPTS = 50
SAMPLING_ATTEMPTS = 1000


@dataclass(frozen=True)
class Space:
    """The layer orders that a search chooses from.

    Attributes:
        num_layers: Letters of every order.
        has_words: Whether the cuts into words are searched too.
        letters: The letters to choose from.
        letter_counts: How often each letter occurs in every order, for example for equal numbers
            of parameters; a letter that is not named does not occur. Any counts if None.
        is_allowed: A further constraint, on parameters or latency for instance; only `evolve`
            looks at it.
    """

    num_layers: int
    has_words: bool = False
    letters: str = "sfd"
    letter_counts: Mapping[str, int] | None = None
    is_allowed: Callable[[str], bool] | None = None

    def __post_init__(self) -> None:
        if self.num_layers < 1:
            raise ValueError(f"num_layers must be at least 1, got {self.num_layers}")
        if not self.letters or len(set(self.letters)) < len(self.letters) or " " in self.letters:
            raise ValueError(f"letters must be different letters, got {self.letters!r}")
        counts = self.letter_counts
        if counts is None:
            return
        unknown = sorted(set(counts) - set(self.letters))
        if unknown or min(counts.values(), default=0) < 0:
            raise ValueError(
                f"letter_counts must count letters of {self.letters!r}, got {dict(counts)}"
            )
        if sum(counts.values()) != self.num_layers:
            raise ValueError(
                f"letter_counts {dict(counts)} sum to {sum(counts.values())}, but num_layers is "
                f"{self.num_layers}"
            )

    def count(self) -> int:
        """Returns the number of orders, allowed or not."""
        if self.letter_counts is None:
            number = len(self.letters) ** self.num_layers
        else:
            number, rest = 1, self.num_layers
            for letter_count in self.letter_counts.values():
                number *= math.comb(rest, letter_count)
                rest -= letter_count
        return number * (2 ** (self.num_layers - 1) if self.has_words else 1)

    def sample(self, rng: random.Random) -> str:
        """Returns an order, each as likely as any other, allowed or not."""
        if self.letter_counts is None:
            letters = rng.choices(self.letters, k=self.num_layers)
        else:
            letters = _spell(self.letter_counts)
            rng.shuffle(letters)
        if not self.has_words:
            return "".join(letters)
        return _join_genes([letter + rng.choice(("", " ")) for letter in letters])

    def enumerate(self) -> Iterator[str]:
        """Yields every order once, allowed or not."""
        for letters in self._enumerate_letters():
            if self.has_words:
                for blanks in product(("", " "), repeat=self.num_layers - 1):
                    genes = [a + b for a, b in zip(letters, (*blanks, ""), strict=True)]
                    yield _join_genes(genes)
            else:
                yield letters

    def check(self, order: str) -> None:
        """Checks that an order is one of the space, allowed or not.

        Raises:
            ValueError: It has other letters, other counts, or blanks where there are none.
        """
        words = order.split(" ")
        letters = "".join(words)
        is_cut_well = all(words) if self.has_words else len(words) == 1
        if not is_cut_well or len(letters) != self.num_layers or set(letters) - set(self.letters):
            cuts = "single blanks between words" if self.has_words else "no blanks"
            raise ValueError(
                f"order {order!r} is not in the space of {self.num_layers} letters of "
                f"{self.letters!r} with {cuts}"
            )
        if self.letter_counts is not None and Counter(letters) != +Counter(self.letter_counts):
            raise ValueError(f"order {order!r} does not have the counts {dict(self.letter_counts)}")

    def _enumerate_letters(self) -> Iterator[str]:
        if self.letter_counts is None:
            yield from map("".join, product(self.letters, repeat=self.num_layers))
        else:
            yield from _arrange(Counter(self.letter_counts), self.num_layers)


def _spell(counts: Mapping[str, int]) -> list[str]:
    return [letter for letter, number in sorted(counts.items()) for _ in range(number)]


def _arrange(counts: Counter[str], length: int) -> Iterator[str]:
    """Yields each arrangement of letters with these counts, which are restored at the end."""
    if length == 0:
        yield ""
        return
    for letter in [letter for letter, number in counts.items() if number]:
        counts[letter] -= 1
        for rest in _arrange(counts, length - 1):
            yield letter + rest
        counts[letter] += 1


def _split_genes(order: str) -> list[str]:
    """Returns letters, each with the blank after it."""
    return re.findall(r"[^ ] ?", order)


def _join_genes(genes: Iterable[str]) -> str:
    """Returns the order; nothing follows the last letter."""
    return "".join(genes).rstrip(" ")


def mutate(order: str, space: Space, probability: float, rng: random.Random) -> str:
    """Returns the order with each gene redrawn with the probability, possibly as it was.

    With letter counts the letter is exchanged with that of a random position instead.

    Raises:
        ValueError: The order is not in the space.
    """
    space.check(order)
    genes = _split_genes(order)
    letters, blanks = [gene[0] for gene in genes], [gene[1:] for gene in genes]
    for position in range(space.num_layers):
        if rng.random() >= probability:
            continue
        if space.letter_counts is None:
            letters[position] = rng.choice(space.letters)
        else:
            other = rng.randrange(space.num_layers)
            letters[position], letters[other] = letters[other], letters[position]
        if space.has_words:
            blanks[position] = rng.choice(("", " "))
    return _join_genes(letter + blank for letter, blank in zip(letters, blanks, strict=True))


def crossover(first: str, second: str, space: Space, rng: random.Random) -> str:
    """Returns an order with each gene from either parent, each with probability 1/2.

    With letter counts the positions are parted into groups in which both parents have the same
    letters, and a whole group comes from one parent.

    Raises:
        ValueError: A parent is not in the space.
    """
    space.check(first)
    space.check(second)
    genes, others = _split_genes(first), _split_genes(second)
    groups = [[position] for position in range(space.num_layers)]
    if space.letter_counts is not None:
        groups = _group_positions(genes, others, rng)
    for group in groups:
        if rng.random() < 0.5:
            for position in group:
                genes[position] = others[position]
    return _join_genes(genes)


def _group_positions(
    first: Sequence[str], second: Sequence[str], rng: random.Random
) -> list[list[int]]:
    """Parts the positions of two orders with equal letter counts, see `crossover`.

    A position leads from its letter in the first order to that in the second. As many positions
    lead to a letter as from it, so a walk over unused ones always comes back to its start.
    """
    leaving: dict[str, list[int]] = {gene[0]: [] for gene in first}
    for position in rng.sample(range(len(first)), len(first)):
        leaving[first[position][0]].append(position)
    groups = []
    for start, positions in leaving.items():
        while positions:
            group = [positions.pop()]
            while second[group[-1]][0] != start:
                group.append(leaving[second[group[-1]][0]].pop())
            groups.append(group)
    return groups


def dominates(first: Sequence[float], second: Sequence[float]) -> bool:
    """Returns whether the first is nowhere lower and somewhere higher than the second."""
    pairs = list(zip(first, second, strict=True))
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def sort_fronts(points: Sequence[Sequence[float]]) -> list[list[int]]:
    """Returns the indices of points in fronts; higher is better.

    Nothing dominates a point of the first front; only points of the fronts before it dominate a
    point of another.
    """
    fronts: list[list[int]] = []
    # From high to low, so that no point dominates one before it.
    for index in sorted(range(len(points)), key=lambda index: tuple(points[index]), reverse=True):
        for front in fronts:
            if not any(dominates(points[other], points[index]) for other in reversed(front)):
                front.append(index)
                break
        else:
            fronts.append([index])
    return [sorted(front) for front in fronts]


def crowding_distances(points: Sequence[Sequence[float]]) -> list[float]:
    """Returns how far the neighbours of each point of a front are apart (Deb et al. 2002, III-B).

    The extremes of an objective are infinitely far from the others, so that they survive.
    """
    distances = [0.0] * len(points)
    for values in zip(*points, strict=True):
        ranked = sorted(range(len(values)), key=lambda index: values[index])
        width = values[ranked[-1]] - values[ranked[0]]
        distances[ranked[0]] = distances[ranked[-1]] = math.inf
        if width > 0:
            for before, index, after in zip(ranked, ranked[1:], ranked[2:], strict=False):
                distances[index] += (values[after] - values[before]) / width
    return distances


def select(scored: Scores, number: int, is_multi_objective: bool = False) -> list[str]:
    """Returns the best orders, best first; among equals the first in the alphabet.

    Args:
        scored: Values of each order, higher is better. The second value counts only where the
            first ones are equal, and so on.
        number: How many to return; all where there are fewer.
        is_multi_objective: All values count alike: by front, then the least crowded first.
    """
    orders = sorted(scored)
    if not is_multi_objective:
        orders.sort(key=lambda order: tuple(scored[order]), reverse=True)
        return orders[:number]
    selected: list[str] = []
    for front in sort_fronts([scored[order] for order in orders]):
        if len(selected) >= number:
            break
        distances = crowding_distances([scored[orders[index]] for index in front])
        ranked = sorted(zip(front, distances, strict=True), key=lambda pair: pair[1], reverse=True)
        selected += [orders[index] for index, _ in ranked]
    return selected[:number]


def pareto_front(scored: Scores) -> list[str]:
    """Returns the orders that no other dominates, the highest first value first."""
    orders = select(scored, len(scored))
    return [orders[index] for index in sort_fronts([scored[order] for order in orders])[0]]


@dataclass(frozen=True)
class Candidate:
    """An order to score, and where it comes from.

    Attributes:
        order: The layer order.
        generation: Number of its generation, from 0.
        operation: "given", "random", "mutation" or "crossover".
        parents: The orders that it was made from.
    """

    order: str
    generation: int
    operation: str
    parents: tuple[str, ...] = ()


@dataclass(frozen=True)
class Generation:
    """A generation after it was scored.

    Attributes:
        number: From 0.
        candidates: Its new orders.
        parents: The best orders of the generations before, which it was bred from, best first.
        scores: Values of all orders so far, those of this generation included.
        message: Why the search ended, in words, in the last generation; empty before.
    """

    number: int
    candidates: list[Candidate]
    parents: list[str]
    scores: dict[str, tuple[float, ...]]
    message: str = ""


@dataclass(frozen=True)
class EvolutionSettings:
    """Settings of `evolve`; the defaults are Single-Path One-Shot's, as substitutes.

    Attributes:
        population_size: New orders in each generation.
        num_generations: Generations in all, the first random one included.
        num_parents: The best orders so far, which the next generation is bred from.
        num_mutations: Mutations in a generation; half of it, rounded up, if None.
        num_crossovers: Crossovers in a generation; the other half if None. Random orders make up
            the rest.
        mutation_probability: Of each gene.
        seed: Of all choices.
        is_multi_objective: See `select`.
        given: Orders of the first generation; random ones fill it up.
    """

    population_size: int = 50
    num_generations: int = 20
    num_parents: int = 10
    num_mutations: int | None = None
    num_crossovers: int | None = None
    mutation_probability: float = 0.1
    seed: int = 0
    is_multi_objective: bool = False
    given: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("population_size", "num_generations", "num_parents"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 < self.mutation_probability <= 1:
            raise ValueError(
                "mutation_probability must be above 0 and at most 1, "
                f"got {self.mutation_probability}"
            )
        if min(self.num_children) < 0 or sum(self.num_children) > self.population_size:
            raise ValueError(
                "num_mutations and num_crossovers must be at least 0 and together at most "
                f"population_size {self.population_size}, got {self.num_children}"
            )

    @property
    def num_children(self) -> tuple[int, int]:
        """Mutations and crossovers in a generation."""
        half = self.population_size // 2
        mutations, crossovers = self.num_mutations, self.num_crossovers
        return (
            self.population_size - half if mutations is None else mutations,
            half if crossovers is None else crossovers,
        )


class _Brood:
    """The new orders of one generation, from a source of randomness of its own.

    What a generation is depends on the scores before it alone, not on how the search came there:
    a search that was interrupted goes on as if it had not been.
    """

    def __init__(
        self, number: int, space: Space, settings: EvolutionSettings, scored: Container[str]
    ) -> None:
        self.number = number
        self.space = space
        self.size = settings.population_size
        self.probability = settings.mutation_probability
        self.scored = scored
        self.rng = random.Random(f"{settings.seed} {number}")
        self.candidates: dict[str, Candidate] = {}

    def add(self, order: str, operation: str, parents: tuple[str, ...] = ()) -> None:
        """Takes an order in if it is new and allowed."""
        if self._is_wanted(order):
            self.candidates[order] = Candidate(order, self.number, operation, parents)

    def breed(self, parents: Sequence[str], num_mutations: int, num_crossovers: int) -> None:
        """Adds children; fewer than wanted where the parents have no more new ones."""
        for _ in self._attempts(num_mutations, BREEDING_ATTEMPTS):
            parent = self.rng.choice(parents)
            child = mutate(parent, self.space, self.probability, self.rng)
            self.add(child, "mutation", (parent,))
        if len(parents) > 1:
            for _ in self._attempts(num_crossovers, BREEDING_ATTEMPTS):
                first, second = self.rng.sample(parents, 2)
                child = crossover(first, second, self.space, self.rng)
                self.add(child, "crossover", (first, second))

    def fill_up(self) -> None:
        """Adds random orders; in a small space, where chance misses some, what is left."""
        is_small = self.space.count() <= ENUMERATED_ORDERS
        attempts = BREEDING_ATTEMPTS if is_small else SAMPLING_ATTEMPTS
        for _ in self._attempts(self.size - len(self.candidates), attempts):
            self.add(self.space.sample(self.rng), "random")
        missing = self.size - len(self.candidates)
        if missing > 0 and is_small:
            left = [order for order in self.space.enumerate() if self._is_wanted(order)]
            for order in self.rng.sample(left, min(missing, len(left))):
                self.add(order, "random")

    def _attempts(self, number: int, attempts: int) -> Iterator[int]:
        """Yields until that many candidates were added, or the attempts are used up."""
        wanted = len(self.candidates) + number
        for attempt in range(number * attempts):
            if len(self.candidates) == wanted:
                return
            yield attempt

    def _is_wanted(self, order: str) -> bool:
        if order in self.scored or order in self.candidates:
            return False
        return self.space.is_allowed is None or self.space.is_allowed(order)


def evolve(
    score: Callable[[list[Candidate]], Scores], space: Space, settings: EvolutionSettings
) -> Iterator[Generation]:
    """Searches the space, a generation at a time; asks for no order's score twice.

    The search ends after `num_generations`, or before where nothing is left to score: the last
    generation's message says which. In a space of more than `ENUMERATED_ORDERS` nothing counts as
    left when `SAMPLING_ATTEMPTS` random orders for each one wanted are all scored or not allowed.

    Args:
        score: Gives finite values, higher is better, for each candidate's order.
        space: What to choose from. All its constraints hold for every candidate.
        settings: Sizes and seed.

    Raises:
        ValueError: A given order is not in the space or not allowed, or no order is allowed; at
            once, before any scoring. Later, where `score` gives no finite value for a candidate.
    """
    first = _Brood(0, space, settings, ())
    for order in settings.given:
        space.check(order)
        first.add(order, "given")
        if order not in first.candidates:
            raise ValueError(f"the given order {order!r} is not allowed by the constraint")
    first.fill_up()
    if not first.candidates:
        raise ValueError(f"the constraint leaves nothing to search: {_describe_end(space)}")
    return _run(score, space, settings, list(first.candidates.values()))


def _run(
    score: Callable[[list[Candidate]], Scores],
    space: Space,
    settings: EvolutionSettings,
    candidates: list[Candidate],
) -> Iterator[Generation]:
    parents: list[str] = []
    scores: dict[str, tuple[float, ...]] = {}
    for number in range(1, settings.num_generations + 1):
        scores.update(_score_candidates(score, candidates))
        best = select(scores, settings.num_parents, settings.is_multi_objective)
        brood = _Brood(number, space, settings, scores)
        message = f"all {number} generations are done"
        if number < settings.num_generations:
            brood.breed(best, *settings.num_children)
            brood.fill_up()
            message = "" if brood.candidates else f"the search ended: {_describe_end(space)}"
        yield Generation(number - 1, candidates, parents, dict(scores), message)
        if message:
            return
        candidates, parents = list(brood.candidates.values()), best


def _score_candidates(
    score: Callable[[list[Candidate]], Scores], candidates: list[Candidate]
) -> dict[str, tuple[float, ...]]:
    scored = score(candidates)
    orders = [candidate.order for candidate in candidates]
    values = {order: tuple(scored.get(order, ())) for order in orders}
    for order, numbers in values.items():
        if not numbers or not all(map(math.isfinite, numbers)):
            raise ValueError(f"order {order!r} was scored {numbers}: finite values are needed")
    return values


def _describe_end(space: Space) -> str:
    if space.count() <= ENUMERATED_ORDERS:
        return f"of {space.count():,} orders, none is allowed and not scored yet"
    return (
        f"of {space.count():,} orders, {SAMPLING_ATTEMPTS:,} random ones for each wanted gave none "
        "that is allowed and not scored yet"
    )


def baselines(
    num_layers: int,
    num_random: int,
    letter_counts: Mapping[str, int] | None,
    seed: int,
    has_words: bool = False,
) -> dict[str, str]:
    """Returns orders to compare a search with, by name: interleaved, sandwich, random_1, ….

    The sandwich s^k (sf)^(n-k) f^k of n pairs (Press et al. 2020, arXiv 1911.03864) has k = 3n/8,
    rounded: the share of their best language models, 6 of 16 pairs on WikiText-103.

    Args:
        num_layers: Letters of every order.
        num_random: Number of random orders, all different.
        letter_counts: Letter counts of the random orders; any if None.
        seed: Of the random orders.
        has_words: Random cuts into words; the others have ELC-BERT's pairs "sf sf", and in the
            sandwich single letters around them.

    Raises:
        ValueError: There are fewer orders with these counts than random ones wanted.
    """
    space = Space(num_layers, has_words, letter_counts=letter_counts)
    if num_random > space.count():
        raise ValueError(
            f"{num_random} different random orders were asked for, but there are only "
            f"{space.count()} of {num_layers} letters with the counts {letter_counts}"
        )
    edge = (3 * (num_layers // 2) + 4) // 8
    pairs = ("sf" * num_layers)[: num_layers - 2 * edge]
    words = [*"s" * edge, *re.findall("..?", pairs), *"f" * edge]
    interleaved = re.findall("..?", ("sf" * num_layers)[:num_layers])
    joint = " " if has_words else ""
    named = {"interleaved": joint.join(interleaved), "sandwich": joint.join(words)}
    settings = EvolutionSettings(population_size=max(1, num_random), seed=seed)
    brood = _Brood(0, space, settings, ())
    brood.fill_up()
    for number, order in enumerate(list(brood.candidates)[:num_random], start=1):
        named[f"random_{number}"] = order
    return named
