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
"""From options to a search's folder: supernet, evolution, result, figures and rank check."""

import copy
import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from torch import nn
from transformers import Trainer, TrainingArguments, set_seed

from ..configuration_layer_order import LayerOrderConfig
from ..pretraining.arguments import DataArguments, ModelArguments
from ..pretraining.checkpoints import find_last_checkpoint, write_json
from ..pretraining.electra import ElectraConfig
from ..pretraining.electra_trainer import ElectraTrainer
from ..pretraining.preparation import (
    PreparedRun,
    build_model,
    build_objective_config,
    prepare_run,
    record_recipe,
)
from ..pretraining.resumable_trainer import ResumableTrainer
from ..pretraining.rows import PackedRows
from ..pretraining.trainer import (
    VALIDATION_SEED,
    MaskedLanguageModelingTrainer,
    OptimizationSettings,
)
from .architecture_search import (
    LATENCY_FILE,
    ArchitectureSearch,
    Costs,
    limit_space,
    write_best,
    write_result,
)
from .arguments import SearchArguments
from .costs import LatencyTable
from .fitness import EnsembleEvaluator, Evaluator
from .rank_check import choose_orders, make_arguments, summarize, train_orders
from .report import draw_search_figures
from .supernet import build_supernet, make_supernet_order
from .supernet_trainer import ElectraSupernetTrainer, SupernetTrainer

logger = logging.getLogger(__name__)

SUPERNET_FOLDER = "supernet"
_SUPERNET_TRAINERS = {"mlm": SupernetTrainer, "electra": ElectraSupernetTrainer}
_TRAINERS = {"mlm": MaskedLanguageModelingTrainer, "electra": ElectraTrainer}
_LATENCY_REPEATS = 20
# What may change between two starts of the same search.
_NOT_RECORDED = ("num_generations", "num_random_baselines")


def search_architecture(
    model_args: ModelArguments,
    config_args: Any,
    data_args: DataArguments,
    optimization: OptimizationSettings,
    search_args: SearchArguments,
    training_args: TrainingArguments,
) -> dict[str, Any]:
    """Trains a supernet, searches, and leaves all that came out in `output_dir`.

    Args:
        model_args: Family, size and objective.
        config_args: `ConfigArguments`; the order is what is searched.
        data_args: Corpus, tokenizer, packing and masking.
        optimization: Optimizer and schedule of the supernet, and of the rank check.
        search_args: Settings of the search.
        training_args: Training of the supernet; `output_dir` is the search's folder.

    Returns:
        What `search_result.json` holds.

    Raises:
        ValueError: Any option that cannot be used.
    """
    if config_args.layer_order is not None:
        raise ValueError(
            f"layer_order {config_args.layer_order!r}: the search finds it; give num_layers"
        )
    if model_args.model_name_or_path is not None:
        raise ValueError(
            f"model_name_or_path {model_args.model_name_or_path!r}: a supernet begins with new "
            "weights; leave it out"
        )
    folder = Path(str(training_args.output_dir))
    if folder.is_dir() and any(folder.iterdir()) and not (folder / SUPERNET_FOLDER).is_dir():
        raise ValueError(
            f"output_dir {str(folder)!r} is not empty and holds no search: take a new folder"
        )
    training_args.output_dir = str(folder / SUPERNET_FOLDER)
    config_args.layer_order = make_supernet_order(search_args.num_layers, model_args.model_family)
    settings = {**_list_settings(search_args), **optimization.list_chosen(training_args)}
    prepared = prepare_run(model_args, config_args, data_args, training_args, settings)
    record_recipe(model_args, config_args, data_args, optimization, training_args)
    config = build_objective_config(prepared.config, model_args, prepared.collator)
    costs = _make_costs(prepared, search_args, training_args, folder)
    limit_space(search_args, costs)
    supernets = []
    for arguments in _list_trainings(training_args, search_args.num_supernets):
        trainer = _train_supernet(
            config, model_args, prepared, optimization, search_args, arguments
        )
        # As it was saved: whole on every process, and with averaged weights where they are.
        supernet = type(build_supernet(config)).from_pretrained(str(arguments.output_dir))
        cast(nn.Module, supernet).to(training_args.device)
        supernets.append(supernet)
    batches = _make_batches(trainer, prepared, search_args.num_scoring_rows)
    search = ArchitectureSearch(
        EnsembleEvaluator([Evaluator(supernet, batches) for supernet in supernets]),
        costs,
        search_args,
        folder,
        training_args.seed,
        trainer.accelerator,
        identify_weights(sorted(folder.glob(f"{SUPERNET_FOLDER}*"))),
    )
    generations = search.run()
    result = search.summarize(generations)
    if training_args.should_save:
        write_best(supernets[0], result["best_order"], prepared.collator.tokenizer, folder)
        write_result(result, folder)
        entries = list(search.history.entries.values())
        draw_search_figures(entries, _name_orders(result), folder / "figures", search_args.fitness)
    trainer.accelerator.wait_for_everyone()
    if search_args.rank_check:
        check = _check_ranking(search, config, model_args, prepared, optimization, training_args)
        if training_args.should_save:
            write_json(folder / "rank_check.json", check)
        result["rank_check"] = check
    return result


def _name_orders(result: dict[str, Any]) -> dict[str, str]:
    named = {name: entry["order"] for name, entry in result["baselines"].items()}
    return {"best": result["best_order"], **named}


def _list_settings(search_args: SearchArguments) -> dict[str, Any]:
    return {
        name: value
        for name, value in dataclasses.asdict(search_args).items()
        if name not in _NOT_RECORDED and not name.startswith("rank_check")
    }


def _list_trainings(training_args: TrainingArguments, number: int) -> list[TrainingArguments]:
    """Returns the arguments of each supernet's training: the first's folder is `output_dir`."""
    folder = str(training_args.output_dir)
    trainings = [training_args]
    for extra in range(1, number):
        arguments = copy.copy(training_args)
        arguments.output_dir = f"{folder}-{extra + 1}"
        arguments.seed = training_args.seed + extra
        trainings.append(arguments)
    return trainings


def _train_supernet(
    config: LayerOrderConfig | ElectraConfig,
    model_args: ModelArguments,
    prepared: PreparedRun,
    optimization: OptimizationSettings,
    search_args: SearchArguments,
    training_args: TrainingArguments,
) -> ResumableTrainer:
    set_seed(training_args.seed)
    supernet = build_supernet(config)
    logger.info(
        "supernet of %s parameters, %s",
        supernet.num_parameters(),
        prepared.training_data.describe(),
    )
    trainer = _SUPERNET_TRAINERS[model_args.objective](
        supernet,
        training_args,
        prepared.training_data,
        prepared.validation_rows,
        prepared.collator,
        optimization=optimization,
        path_sampling=search_args.path_sampling,
    )
    checkpoint = find_last_checkpoint(str(training_args.output_dir))
    # Without checkpoints, what is saved at the end tells.
    if checkpoint is None and trainer.is_finished():
        logger.info("%s is finished: nothing to train", training_args.output_dir)
    else:
        trainer.train_from(checkpoint)
    return trainer


def _make_batches(trainer: Trainer, prepared: PreparedRun, num_rows: int) -> list[dict[str, Any]]:
    """Returns masked batches of rows that are spread evenly over those of validation."""
    rows = PackedRows(prepared.validation_rows, VALIDATION_SEED)
    number, size = min(num_rows, len(rows)), trainer.args.eval_batch_size
    places = [index * len(rows) // number for index in range(number)]
    return [
        {
            name: value.to(trainer.args.device)
            for name, value in prepared.collator(
                rows.__getitems__(places[start : start + size])
            ).items()
        }
        for start in range(0, number, size)
    ]


def identify_weights(folders: Iterable[Path]) -> str:
    """Returns a name for the weights in folders of models, the same for the same weights."""
    digest = hashlib.sha256()
    for path in (path for folder in folders for path in sorted(folder.glob("model*.safetensors"))):
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16]


def _make_costs(
    prepared: PreparedRun,
    search_args: SearchArguments,
    training_args: TrainingArguments,
    folder: Path,
) -> Costs:
    length = prepared.training_data.stages[0].max_seq_length
    latency = None
    if search_args.max_latency is not None or "latency" in search_args.objectives:
        path = folder / LATENCY_FILE
        # Measured once: the same times for every start and process.
        with training_args.main_process_first(desc="measuring times"):
            if not path.is_file():
                table = LatencyTable.measure(
                    prepared.config,
                    training_args.per_device_eval_batch_size,
                    length,
                    _LATENCY_REPEATS,
                    training_args.device,
                )
                write_json(path, dataclasses.asdict(table))
        latency = LatencyTable(**json.loads(path.read_text(encoding="utf-8")))
    return Costs(prepared.config, length, latency)


def _check_ranking(
    search: ArchitectureSearch,
    config: LayerOrderConfig | ElectraConfig,
    model_args: ModelArguments,
    prepared: PreparedRun,
    optimization: OptimizationSettings,
    training_args: TrainingArguments,
) -> dict[str, Any]:
    arguments = search.arguments

    def train(order: str, seed: int, folder: Path) -> dict[str, float]:
        set_seed(seed)
        model = build_model(
            build_objective_config(
                type(prepared.config)(**{**prepared.config.to_dict(), "layer_order": order}),
                model_args,
                prepared.collator,
            )
        )
        trainer = _TRAINERS[model_args.objective](
            model,
            make_arguments(training_args, folder, seed, arguments.rank_check_steps),
            prepared.training_data,
            prepared.validation_rows,
            prepared.collator,
            optimization=optimization,
        )
        trainer.train()
        return trainer.evaluate()

    first = [entry for entry in search.history.entries.values() if entry["generation"] == 0]
    ranked = search.rank([entry["order"] for entry in first])
    orders = choose_orders(ranked, arguments.rank_check)
    seeds = [training_args.seed + number for number in range(arguments.rank_check_seeds)]
    trained = train_orders(
        orders,
        seeds,
        train,
        search.folder / "rank_check",
        arguments.rank_check_steps,
        training_args.should_save,
    )
    return summarize({order: search.history[order]["metrics"] for order in orders}, trained)
