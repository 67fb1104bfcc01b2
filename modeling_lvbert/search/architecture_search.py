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
"""The search itself: evolution over orders that are scored with the supernet's weights.

Everything that is chosen depends on the seed and on the scores alone, and every score is kept as it
comes: a search that was killed goes on where it was and ends with the same result, on any number of
processes.
"""

import logging
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object
from transformers import PreTrainedTokenizerBase

from ..configuration_layer_order import LayerOrderConfig
from ..layer_order import join_letters
from ..pretraining.checkpoints import write_json
from ..pretraining.electra import HALVES, ElectraForPreTraining
from .arguments import SearchArguments
from .costs import LatencyTable, find_flop_cost, find_parameter_cost
from .evolution import (
    Candidate,
    EvolutionSettings,
    Generation,
    Space,
    baselines,
    evolve,
    pareto_front,
)
from .fitness import EnsembleEvaluator, Score, find_fitness
from .history import History
from .supernet import Supernet, extract

logger = logging.getLogger(__name__)

HISTORY_FILE = "history.jsonl"
RESULT_FILE = "search_result.json"
LATENCY_FILE = "latency.json"


class Costs:
    """What an order costs, apart from training."""

    def __init__(
        self, config: LayerOrderConfig, length: int, latency: LatencyTable | None = None
    ) -> None:
        """Fixes what does not change from order to order.

        Args:
            config: Configuration of the model that is searched, for ELECTRA the discriminator.
            length: Tokens of the row that operations are counted for.
            latency: Measured times; None leaves them out.
        """
        self.config = config
        self.latency = latency
        self._parameters = find_parameter_cost(config)
        self._flops = find_flop_cost(config, length)

    def describe(self, order: str) -> dict[str, float]:
        """Returns an order's parameters, operations (flops) and, measured, milliseconds."""
        costs: dict[str, float] = {
            "parameters": round(self._parameters.estimate(order)),
            "flops": round(self._flops.estimate(order)),
        }
        if self.latency is not None:
            costs["latency"] = 1000 * self.latency.estimate(order)
        return costs

    def make_constraint(self, arguments: SearchArguments) -> Callable[[str], bool] | None:
        """Returns what tells whether an order is cheap enough; None where all are."""
        limits = {
            name: limit
            for name in ("parameters", "flops", "latency")
            if (limit := getattr(arguments, f"max_{name}")) is not None
        }
        if not limits:
            return None
        return lambda order: all(
            self.describe(order)[name] <= limit for name, limit in limits.items()
        )


def limit_space(arguments: SearchArguments, costs: Costs) -> Space:
    """Returns the space of orders within the limits on costs.

    Raises:
        ValueError: No order is.
    """
    has_words = costs.config.model_type == "elcbert"
    space = replace(arguments.make_space(has_words), is_allowed=costs.make_constraint(arguments))
    # Only looks whether there is anything to score.
    evolve(lambda candidates: {}, space, EvolutionSettings(population_size=1))
    return space


class ArchitectureSearch:
    """Scores orders, keeps their history, and says what came out."""

    def __init__(
        self,
        evaluator: EnsembleEvaluator,
        costs: Costs,
        arguments: SearchArguments,
        folder: Path,
        seed: int,
        accelerator: Accelerator,
        supernet: str,
    ) -> None:
        """Reads the history of an earlier start.

        Args:
            evaluator: Scores orders with the weights of the supernets.
            costs: Tells what orders cost.
            arguments: Settings of the search.
            folder: The search's folder.
            seed: Of the evolution.
            accelerator: The processes that share the work.
            supernet: What identifies the weights of the supernets.
        """
        self.evaluator = evaluator
        self.costs = costs
        self.arguments = arguments
        self.folder = folder
        self.seed = seed
        self.accelerator = accelerator
        # One process reads: another one's view of the file may be older.
        self.history = History(folder / HISTORY_FILE, supernet)
        shared = [self.history]
        broadcast_object_list(shared)
        self.history = shared[0]

    def run(self) -> list[Generation]:
        """Returns all generations; those in the history cost nothing.

        Raises:
            ValueError: The limits leave no order.
        """
        space = limit_space(self.arguments, self.costs)
        generations = []
        for generation in evolve(self._score, space, self.arguments.make_settings(self.seed)):
            generations.append(generation)
            best = self.history[self.choose_best(generation.scores)]
            logger.info(
                "generation %s: %s orders scored, the best is %s (accuracy %.4f, loss %.4f)",
                generation.number,
                len(generation.scores),
                best["order"],
                best["metrics"]["accuracy"],
                best["metrics"]["loss"],
            )
        logger.info(generations[-1].message)
        return generations

    @property
    def has_words(self) -> bool:
        """Whether the ends of words are searched too, as for ELC-BERT."""
        return self.costs.config.model_type == "elcbert"

    def rank(self, orders: Iterable[str]) -> list[str]:
        """Returns orders, the highest fitness first; among equals the first in the alphabet."""
        fitness = {order: self._find_fitness(order) for order in sorted(orders)}
        return sorted(fitness, key=lambda order: fitness[order], reverse=True)

    def choose_best(self, orders: Iterable[str]) -> str:
        """Returns the order of the highest fitness; among equals the first in the alphabet."""
        return self.rank(orders)[0]

    def _find_fitness(self, order: str) -> tuple[float, float]:
        return find_fitness(self.history[order]["metrics"], self.arguments.fitness)

    def _score(self, candidates: list[Candidate]) -> dict[str, tuple[float, ...]]:
        """Returns the values of candidates, from the history where they are known."""
        unknown = [item for item in candidates if item.order not in self.history]
        metrics = self._measure([item.order for item in unknown])
        entries = [
            {
                "generation": item.generation,
                "order": item.order,
                "operation": item.operation,
                "parents": list(item.parents),
                "metrics": metrics[item.order],
                **self.costs.describe(item.order),
            }
            for item in unknown
        ]
        self.history.add(entries, self.accelerator.is_main_process)
        return {item.order: self._list_values(item.order) for item in candidates}

    def _list_values(self, order: str) -> tuple[float, ...]:
        entry, fitness = self.history[order], self._find_fitness(order)
        if self.arguments.objectives == ["fitness"]:
            return fitness
        return tuple(
            fitness[0] if name == "fitness" else -entry[name] for name in self.arguments.objectives
        )

    def _measure(self, orders: Sequence[str]) -> dict[str, dict[str, float]]:
        """Returns the metrics of orders, which the processes share among themselves."""
        ranked = sorted(orders)
        number, rank = self.accelerator.num_processes, self.accelerator.process_index
        # Neighbours begin alike.
        share = ranked[len(ranked) * rank // number : len(ranked) * (rank + 1) // number]
        scores = self.evaluator.score(share) if share else {}
        own = [(order, score.to_metrics()) for order, score in scores.items()]
        return dict(gather_object(own))

    def summarize(self, generations: Sequence[Generation]) -> dict[str, Any]:
        """Returns what `search_result.json` holds.

        Args:
            generations: Result of `run`.
        """
        scores = generations[-1].scores
        best = self.choose_best(scores)
        others = [order for order in scores if order != best]
        named = self._draw_baselines(best)
        compared = {**named, **({"runner_up": self.choose_best(others)} if others else {})}
        measured = self.evaluator.score(sorted({best, *compared.values()}))
        result = {
            "model_family": self.costs.config.model_type,
            "best_order": best,
            "fitness": measured[best].to_metrics(),
            **self.costs.describe(best),
            "baselines": {
                name: self._compare(order, measured[best], measured[order])
                for name, order in compared.items()
            },
            "evaluated": len(scores),
            "generations": len(generations),
            "ended": generations[-1].message,
            "settings": asdict(self.arguments),
            "seed": self.seed,
            "scored_rows": len(measured[best].loss.influences),
        }
        if self.costs.latency is not None:
            result["latency_error"] = self.costs.latency.error
        if len(self.arguments.objectives) > 1:
            front = pareto_front(scores)
            result["front"] = [self.history[order] for order in front]
        return result

    def _draw_baselines(self, best: str) -> dict[str, str]:
        """Returns orders to compare with by name; none of the random ones is the best itself."""
        num_layers, wanted = self.arguments.num_layers, self.arguments.num_random_baselines
        counts = Counter(join_letters(best))
        space = Space(num_layers, self.has_words, letter_counts=counts)
        # One more, in case that the best is among them.
        number = min(wanted + 1, space.count())
        named = baselines(num_layers, number, counts, self.seed, self.has_words)
        drawn = [named.pop(f"random_{place}") for place in range(1, number + 1)]
        others = [order for order in drawn if order != best][:wanted]
        return named | {f"random_{place}": order for place, order in enumerate(others, start=1)}

    def _compare(self, order: str, best: Score, other: Score) -> dict[str, Any]:
        """Returns an order's metrics, and how much better the best one is on the same rows."""
        accuracy, loss = best.accuracy.minus(other.accuracy), best.loss.minus(other.loss)
        return {
            "order": order,
            **other.to_metrics(),
            **self.costs.describe(order),
            "best_accuracy_minus_this": accuracy.value,
            "best_accuracy_minus_this_paired_standard_error": accuracy.standard_error,
            "best_loss_minus_this": loss.value,
            "best_loss_minus_this_paired_standard_error": loss.standard_error,
        }


def write_result(result: Mapping[str, Any], folder: Path) -> None:
    """Writes `search_result.json`, at once and whole."""
    write_json(folder / RESULT_FILE, result)


def write_best(
    supernet: Supernet, order: str, tokenizer: PreTrainedTokenizerBase, folder: Path
) -> None:
    """Writes the best order's model with the supernet's weights to `best`, an ordinary Hub folder.

    For ELECTRA it holds the discriminator, and `generator` in it the generator.

    Args:
        supernet: The supernet.
        order: The order.
        tokenizer: Saved with the model.
        folder: The search's folder; an earlier `best` is replaced.
    """
    temporary, target = folder / ".best", folder / "best"
    shutil.rmtree(temporary, ignore_errors=True)
    model = extract(supernet, order)
    if isinstance(model, ElectraForPreTraining):
        for name, path in zip(HALVES, (temporary, temporary / "generator"), strict=True):
            model.export_half(name, path)
            tokenizer.save_pretrained(path)
    else:
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
    shutil.rmtree(target, ignore_errors=True)
    temporary.rename(target)
