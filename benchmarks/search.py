"""Times a step of the supernet and the scoring of a population against what they stand for.

    python benchmarks/search.py --json search.json

A step of the supernet along a path (forward, backward, update, zeroed gradients) runs in turn with
the same step of the single model that is extracted for it, over several random paths: the aim is no
more than 1.05 times the mean single step. Scoring a population, which shares what orders begin
with alike, runs in turn with scoring its orders one by one: a random population, and a converged
one, bred from a few parents as in the last generations of a search. Scores of both ways are
compared before they are timed.
"""

import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.command_line import parse_arguments, write_results  # noqa: E402
from modeling_lvbert import LVBertConfig  # noqa: E402
from modeling_lvbert.modeling_heads import IGNORED_LABEL  # noqa: E402
from modeling_lvbert.pretraining.optimization import UncorrectedAdamW  # noqa: E402
from modeling_lvbert.search.evolution import Space, crossover, mutate  # noqa: E402
from modeling_lvbert.search.fitness import Evaluator  # noqa: E402
from modeling_lvbert.search.supernet import (  # noqa: E402
    build_supernet,
    extract,
    make_supernet_order,
)

NUM_LAYERS, NUM_PATHS, NUM_PARENTS = 8, 6, 5
POPULATION = 50
VOCAB_SIZE = 4096
# (batch, seq)
TRAINING_SHAPE, SCORING_SHAPE = (32, 64), (64, 64)
CONFIG = LVBertConfig(
    vocab_size=VOCAB_SIZE,
    embedding_size=128,
    hidden_size=128,
    intermediate_size=512,
    layer_order=make_supernet_order(NUM_LAYERS, "lvbert"),
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


def make_batch(shape: tuple[int, int]) -> dict[str, Tensor]:
    """Returns random tokens, of which 15 % are to be predicted."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, VOCAB_SIZE, shape, generator=generator)
    chosen = torch.rand(shape, generator=generator) < 0.15
    labels = ids.masked_fill(~chosen, IGNORED_LABEL)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


def make_step(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: dict[str, Tensor],
    **path: str,
) -> Callable[[], None]:
    """Returns a training step of a model, the supernet's along a path."""

    def step() -> None:
        model(**batch, **path).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def time_call(call: Callable[[], object]) -> float:
    """Returns the seconds of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure_steps(num_rounds: int) -> list[float]:
    """Returns each round's ratio of the supernet's time to the single models' over all paths."""
    supernet, batch = build_supernet(CONFIG), make_batch(TRAINING_SHAPE)
    rng = random.Random(0)
    paths = [Space(NUM_LAYERS).sample(rng) for _ in range(NUM_PATHS)]
    # One optimizer, as in training: its moments are of all layers.
    optimizer = UncorrectedAdamW(supernet.parameters(), lr=1e-4)

    pairs = []
    for path in paths:
        single = extract(supernet, path)
        alone = UncorrectedAdamW(single.parameters(), lr=1e-4)
        pairs.append(
            (
                make_step(supernet, optimizer, batch, layer_order=path),
                make_step(single, alone, batch),
            )
        )
    for pair in pairs:
        for step in pair:
            step()
    ratios = []
    for _ in range(num_rounds):
        seconds = [[time_call(step) for step in pair] for pair in pairs]
        ratios.append(sum(own for own, _ in seconds) / sum(single for _, single in seconds))
    return ratios


def make_populations() -> dict[str, list[str]]:
    """Returns a random population and one that is bred from a few similar parents."""
    rng, space = random.Random(1), Space(NUM_LAYERS)
    found: dict[str, list[str]] = {"random": [], "converged": []}
    while len(set(found["random"])) < POPULATION:
        found["random"].append(space.sample(rng))
    best = space.sample(rng)
    parents = [best, *(mutate(best, space, 0.25, rng) for _ in range(NUM_PARENTS - 1))]
    while len(set(found["converged"])) < POPULATION:
        first, second = rng.sample(parents, 2)
        child = crossover(first, second, space, rng)
        found["converged"].append(mutate(child, space, 0.1, rng))
    return {name: sorted(set(orders)) for name, orders in found.items()}


def measure_scoring(num_rounds: int) -> dict[str, list[float]]:
    """Returns how many times as fast a population is scored together as one by one.

    Raises:
        RuntimeError: Both ways do not give the same scores.
    """
    supernet = build_supernet(CONFIG)
    evaluator = Evaluator(supernet, [make_batch(SCORING_SHAPE)])
    ratios: dict[str, list[float]] = {}
    for name, orders in make_populations().items():

        def score_singly(orders: list[str] = orders) -> dict[str, float]:
            return {order: evaluator.score([order])[order].loss.value for order in orders}

        together = {order: score.loss.value for order, score in evaluator.score(orders).items()}
        if together != score_singly():
            raise RuntimeError(f"{name}: both ways of scoring differ")
        ratios[name] = [
            time_call(score_singly) / time_call(lambda orders=orders: evaluator.score(orders))
            for _ in range(num_rounds)
        ]
    return ratios


def summarize(ratios: list[float]) -> dict[str, float]:
    """Returns the median of ratios and their quartiles."""
    lower, median, upper = statistics.quantiles(ratios, n=4)
    return {"median": median, "lower_quartile": lower, "upper_quartile": upper}


def main() -> None:
    """Measures, and prints one line a question."""
    arguments = parse_arguments(__doc__, num_rounds=9)
    results = {"supernet step to mean single step": summarize(measure_steps(arguments.rounds))}
    for name, ratios in measure_scoring(arguments.rounds).items():
        results[f"{name} population, one by one to together"] = summarize(ratios)
    for name, figures in results.items():
        sys.stdout.write(
            f"{name:>45}  {figures['median']:5.2f} ({figures['lower_quartile']:.2f} to "
            f"{figures['upper_quartile']:.2f})\n"
        )
    write_results(arguments, results, layers=NUM_LAYERS, population=POPULATION)


if __name__ == "__main__":
    main()
