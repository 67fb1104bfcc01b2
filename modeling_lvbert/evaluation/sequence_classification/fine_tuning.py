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
"""Fine-tunes any transformers encoder on a sentence or sentence-pair task and scores it."""

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets
import numpy as np
from transformers import (
    AutoModelForSequenceClassification,
    DataCollatorWithPadding,
    EvalPrediction,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

from ..model_loading import (
    ModelArguments,
    check_tokenizer,
    load_config,
    load_model,
    load_tokenizer,
    read_labels,
)
from ..run_checks import check_training, list_splits
from ..run_folder import check_output_dir, claim_output_dir
from ..training import report, train
from .checks import check_method, choose_best_metric, describe_fine_tuning
from .fine_tuner import FineTuner, add_exchanged_pairs, average_orders, select_logits
from .glue import find_main_metric
from .labels import LabelScheme
from .options import FineTuningArguments
from .scores import compute_scores, list_scores, predict
from .submission import write_predictions
from .task_data import MISMATCHED, TaskArguments, load_task
from .trials import find_checkpoint, run_trials


@dataclass
class _Task:
    """What every trial of a fine-tuning has in common."""

    model_args: ModelArguments
    task_args: TaskArguments
    method: FineTuningArguments
    config: Any
    tokenizer: PreTrainedTokenizerBase
    tables: dict[str, datasets.Dataset]
    scheme: LabelScheme
    parts: dict[str, datasets.Dataset] = field(default_factory=dict)

    @property
    def name(self) -> str | None:
        """The task of GLUE, None for others."""
        return self.task_args.task_name

    def load_model(self, seed: int) -> PreTrainedModel:
        """Loads the model; a new head's weights depend on the seed."""
        set_seed(seed)
        config = copy.deepcopy(self.config)
        return load_model(AutoModelForSequenceClassification, self.model_args, config)

    def tokenize(self) -> None:
        """Makes `parts`, the rows as the model takes them, of `tables`."""
        for split, part in self.tables.items():
            if self.method.pair_both_orders:
                part = add_exchanged_pairs(part)
            self.parts[split] = _tokenize(part, self.tokenizer, self.task_args)

    def score(self, prediction: EvalPrediction) -> dict[str, float]:
        """Computes the metrics of all rows of a split."""
        logits = self.read_logits(prediction.predictions)
        labels = np.asarray(prediction.label_ids)[: len(logits)]
        return compute_scores(logits, labels, self.scheme, self.name)

    def read_logits(self, predictions: Any) -> np.ndarray:
        """Returns the logits, (rows, classes), of which both orders of a pair have the mean."""
        logits = np.asarray(predictions)
        return average_orders(logits) if self.method.pair_both_orders else logits


def _tokenize(
    part: datasets.Dataset, tokenizer: PreTrainedTokenizerBase, arguments: TaskArguments
) -> datasets.Dataset:
    longest = min(arguments.max_seq_length, tokenizer.model_max_length)
    texts = [name for name in ("sentence1", "sentence2") if name in part.column_names]
    return part.map(
        lambda rows: tokenizer(
            *[rows[name] for name in texts],
            truncation=True,
            max_length=longest,
            padding="max_length" if arguments.pad_to_max_length else False,
        ),
        batched=True,
        remove_columns=texts,
        load_from_cache_file=not arguments.overwrite_cache,
        desc="Tokenizing",
    )


def _read_saved_scheme(config: Any) -> LabelScheme | None:
    """Returns the labels that a model was fine-tuned on, None for a model that was not."""
    names, is_new = read_labels(config)
    if len(names) == 1:
        return LabelScheme([])
    return None if is_new else LabelScheme(names)


def _prepare(
    model_args: ModelArguments,
    task_args: TaskArguments,
    method: FineTuningArguments,
    splits: list[str],
) -> _Task:
    """Loads all but the model, and checks that the parts go together."""
    config = load_config(model_args)
    tables, scheme = load_task(task_args, splits, _read_saved_scheme(config))
    config.num_labels = max(1, len(scheme.names))
    # Models of the library leave the kind of their last task in their configuration.
    config.problem_type = "regression" if scheme.is_regression else "single_label_classification"
    if not scheme.is_regression:
        config.id2label = dict(enumerate(scheme.names))
        config.label2id = {label: number for number, label in enumerate(scheme.names)}
    tokenizer = load_tokenizer(model_args)
    is_pair = any("sentence2" in part.column_names for part in tables.values())
    if method.pair_both_orders and not is_pair:
        raise ValueError("pair_both_orders: the rows have one text, no pair")
    check_tokenizer(tokenizer, config, task_args.max_seq_length, is_pair)
    for split, part in tables.items():
        limit = task_args.get_limit(split)
        tables[split] = part if limit is None else part.select(range(min(limit, len(part))))
    return _Task(model_args, task_args, method, config, tokenizer, tables, scheme)


def fine_tune(
    model_args: ModelArguments,
    task_args: TaskArguments,
    training_args: TrainingArguments,
    method: FineTuningArguments | None = None,
) -> dict[str, float]:
    """Trains, evaluates and predicts as `training_args` ask, and returns the metrics.

    Args:
        model_args: The model.
        task_args: The task.
        training_args: Arguments of transformers' Trainer; `do_train`, `do_eval` and `do_predict`
            say what to do.
        method: Decay by layer, trials and so on; none of that by default.

    Returns:
        The metrics of training and validation; of several trials the medians.

    Raises:
        ValueError: Nothing to do, a model, tokenizer or data that cannot be used, options that do
            not go together, or an `output_dir` that holds other things.
    """
    method = method or FineTuningArguments()
    splits = list_splits(training_args)
    check_training(training_args)
    check_method(method, task_args, training_args)
    output_dir = str(training_args.output_dir)
    run = describe_fine_tuning(model_args, task_args, training_args, method)
    with training_args.main_process_first(desc="checking output_dir"):
        check_output_dir(
            output_dir, model_args.model_name_or_path, run, trains=training_args.do_train
        )
    task = _prepare(model_args, task_args, method, splits)
    num_labels = len(task.scheme.names)
    main_metric = find_main_metric(task.name, num_labels)
    training_args = copy.copy(training_args)
    training_args.metric_for_best_model = choose_best_metric(
        training_args, main_metric, list_scores(task.name, num_labels)
    )
    model = task.load_model(training_args.seed)
    with training_args.main_process_first(desc="claiming output_dir"):
        claim_output_dir(output_dir, run)
    with training_args.main_process_first(desc="tokenizing"):
        task.tokenize()
    if method.num_trials == 1:
        return _run(task, model, training_args)
    return _run_trials(task, training_args, f"eval_{main_metric}", run)


def _run_trials(
    task: _Task, training_args: TrainingArguments, main_metric: str, run: dict[str, Any]
) -> dict[str, float]:
    def run_one(seed: int, folder: Path) -> dict[str, float]:
        arguments = copy.copy(training_args)
        arguments.seed, arguments.output_dir = seed, str(folder)
        settings = {**run, "seed": seed}
        settings.pop("has_trials")
        with arguments.main_process_first(desc="claiming a trial's folder"):
            check_output_dir(str(folder), task.model_args.model_name_or_path, settings, trains=True)
            claim_output_dir(str(folder), settings)
        arguments.resume_from_checkpoint = find_checkpoint(folder)
        # The patience that is left is a part of the state.
        arguments.restore_callback_states_from_checkpoint = True
        return _run(task, task.load_model(seed), arguments)

    first = training_args.seed
    summary = run_trials(
        Path(str(training_args.output_dir)),
        list(range(first, first + task.method.num_trials)),
        main_metric,
        run_one,
        writes=training_args.process_index == 0,
    )
    return summary["median"]


def _run(task: _Task, model: PreTrainedModel, training_args: TrainingArguments) -> dict[str, float]:
    parts = task.parts
    trainer = FineTuner(
        model,
        task.method,
        args=training_args,
        train_dataset=parts.get("train"),
        eval_dataset=parts.get("validation"),
        data_collator=default_data_collator
        if task.task_args.pad_to_max_length
        else DataCollatorWithPadding(task.tokenizer),
        processing_class=task.tokenizer,
        compute_metrics=task.score,
        preprocess_logits_for_metrics=select_logits,
    )
    metrics: dict[str, float] = {}
    if "train" in parts:
        metrics.update(train(trainer, len(task.tables["train"])))
    if "validation" in parts:
        scores = trainer.evaluate()
        scores["eval_samples"] = len(task.tables["validation"])
        if "validation_mismatched" in parts:
            more = trainer.evaluate(parts["validation_mismatched"])
            more["eval_samples"] = len(task.tables["validation_mismatched"])
            more.pop("epoch", None)
            scores.update({f"{name}_mm": value for name, value in more.items()})
        report(trainer, "eval", scores)
        metrics.update(scores)
    for split in ("test", "test_mismatched"):
        if split in parts:
            _predict(trainer, task, split)
    return metrics


def _predict(trainer: FineTuner, task: _Task, split: str) -> None:
    found = trainer.predict(task.parts[split], metric_key_prefix="predict").predictions
    if trainer.is_world_process_zero():
        write_predictions(
            Path(str(trainer.args.output_dir)),
            predict(task.read_logits(found), task.scheme),
            task.scheme,
            task.name,
            is_mismatched=split in MISMATCHED,
        )
