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

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    EvalPrediction,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

from .glue import (
    GLUE_TASKS,
    LabelScheme,
    build_dataset,
    compute_scores,
    find_label_column,
    find_label_scheme,
    find_text_columns,
    predict,
    read_table,
)

logger = logging.getLogger(__name__)


@dataclass
class ModelArguments:
    """Which model to fine-tune."""

    model_name_or_path: str = field(
        metadata={"help": "Folder or Hub name of the pre-trained model."}
    )
    config_name: str | None = field(
        default=None, metadata={"help": "Configuration, if it lies elsewhere."}
    )
    tokenizer_name: str | None = field(
        default=None, metadata={"help": "Tokenizer, if it lies elsewhere."}
    )
    cache_dir: str | None = field(default=None, metadata={"help": "Where downloads are kept."})
    model_revision: str = field(
        default="main", metadata={"help": "Branch, tag or commit on the Hub."}
    )
    token: str | None = field(default=None, metadata={"help": "The Hub's access token."})
    trust_remote_code: bool = field(default=False, metadata={"help": "Run the model's own code."})
    ignore_mismatched_sizes: bool = field(
        default=False, metadata={"help": "Start a head of another size anew instead of stopping."}
    )


@dataclass
class TaskArguments:
    """What to fine-tune it on: files, or a task of GLUE."""

    task_name: str | None = field(
        default=None, metadata={"help": f"GLUE task: {', '.join(GLUE_TASKS)}."}
    )
    train_file: str | None = field(
        default=None, metadata={"help": "GLUE's .tsv, or .csv, .json, .jsonl."}
    )
    validation_file: str | None = field(default=None, metadata={"help": "The same for validation."})
    test_file: str | None = field(
        default=None, metadata={"help": "The same for prediction, without labels."}
    )
    dataset_name: str | None = field(default=None, metadata={"help": "Data set of the Hub."})
    dataset_config_name: str | None = field(default=None, metadata={"help": "Its configuration."})
    text_column_names: str | None = field(
        default=None,
        metadata={"help": "Columns of the texts, parted by commas, where they are not found."},
    )
    label_column_name: str | None = field(default=None, metadata={"help": "Column of the label."})
    max_seq_length: int = field(default=128, metadata={"help": "Longer texts are cut, in tokens."})
    pad_to_max_length: bool = field(
        default=False,
        metadata={"help": "Pad every row to max_seq_length instead of its batch's longest."},
    )
    max_train_samples: int | None = field(
        default=None, metadata={"help": "Use the first rows only."}
    )
    max_eval_samples: int | None = field(
        default=None, metadata={"help": "Use the first rows only."}
    )
    max_predict_samples: int | None = field(
        default=None, metadata={"help": "Use the first rows only."}
    )
    overwrite_cache: bool = field(default=False, metadata={"help": "Tokenize anew."})

    def __post_init__(self) -> None:
        """Checks what can be checked without reading.

        Raises:
            ValueError: An unknown task, no data, or contradictory sources.
        """
        if self.task_name is not None:
            self.task_name = self.task_name.lower().replace("-", "")
            if self.task_name not in GLUE_TASKS:
                raise ValueError(
                    f"task_name {self.task_name!r}: must be one of {', '.join(GLUE_TASKS)}"
                )
        files = [self.train_file, self.validation_file, self.test_file]
        if self.dataset_name and any(files):
            raise ValueError(
                f"dataset_name {self.dataset_name!r} and files: only one kind may be given"
            )
        if not (self.task_name or self.dataset_name or any(files)):
            raise ValueError(
                "no data: give task_name, dataset_name, or train_file, validation_file, test_file"
            )


def _load_tables(arguments: TaskArguments) -> dict[str, list[dict[str, Any]]]:
    files = {
        "train": arguments.train_file,
        "validation": arguments.validation_file,
        "test": arguments.test_file,
    }
    if any(files.values()):
        return {
            split: read_table(f"{split}_file", path, arguments.task_name)
            for split, path in files.items()
            if path
        }
    if arguments.dataset_name:
        found = datasets.load_dataset(arguments.dataset_name, arguments.dataset_config_name)
    else:
        found = datasets.load_dataset("nyu-mll/glue", arguments.task_name)
    matched = {"validation_matched": "validation", "test_matched": "test"}
    return {
        matched.get(str(split), str(split)): part.to_list()
        for split, part in found.items()
        if "mismatched" not in str(split)
    }


def load_task(
    arguments: TaskArguments, splits: list[str], saved: LabelScheme | None
) -> tuple[dict[str, datasets.Dataset], LabelScheme]:
    """Loads a task's splits and finds out about its labels.

    Args:
        arguments: Where the data is.
        splits: Of "train", "validation" and "test" those that are needed.
        saved: The labels that the model was fine-tuned on before, if it was.

    Raises:
        ValueError: A split, column or label is missing or wrong.
    """
    tables = _load_tables(arguments)
    missing = [split for split in splits if split not in tables]
    if missing:
        raise ValueError(
            f"no data for {missing[0]!r}: give {missing[0]}_file; present: {sorted(tables)}"
        )
    labelled = [split for split in ("train", "validation") if split in tables]
    if not labelled and saved is None and not arguments.task_name:
        raise ValueError(
            "the labels are unknown: give train_file or validation_file, or a fine-tuned model"
        )
    reference = tables[labelled[0] if labelled else "test"]
    text_columns = find_text_columns(reference, arguments.text_column_names, arguments.task_name)
    label_column = find_label_column(reference, arguments.label_column_name, arguments.task_name)
    if labelled and label_column is None:
        raise ValueError(
            f"{labelled[0]}_file has no column of labels; columns: {list(reference[0])}"
        )
    if saved is not None and "train" not in splits:
        scheme = saved
    else:
        values = [row.get(label_column) for row in reference] if label_column else []
        scheme = find_label_scheme(values, arguments.task_name, saved.names if saved else ())
    built = {}
    for split in splits:
        rows = tables[split]
        column = label_column if split != "test" else None
        columns = text_columns
        if split == "test" and not set(text_columns) <= set(rows[0]):
            columns = find_text_columns(rows, None, arguments.task_name)
        built[split] = build_dataset(f"{split}_file", rows, columns, column, scheme)
    return built, scheme


def _tokenize(
    part: datasets.Dataset,
    tokenizer: PreTrainedTokenizerBase,
    arguments: TaskArguments,
    limit: int | None,
) -> datasets.Dataset:
    if limit is not None:
        part = part.select(range(min(limit, len(part))))
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
    names = [config.id2label[number] for number in sorted(config.id2label)]
    if len(names) == 1:
        return LabelScheme([])
    is_new = names == [f"LABEL_{number}" for number in range(len(names))]
    return None if is_new else LabelScheme(names)


def _widen(logits: torch.Tensor | tuple[torch.Tensor, ...], labels: torch.Tensor) -> torch.Tensor:
    return (logits[0] if isinstance(logits, tuple) else logits).float()


class _FineTuner(Trainer):
    """A Trainer whose validation loss, as its metrics, is the mean over the rows.

    transformers' own is a mean of batches' means, which depends on how the rows are split.
    """

    def prediction_step(self, *args: Any, **kwargs: Any) -> tuple[None, Any, Any]:
        """Leaves the loss to `compute_scores`."""
        _, logits, labels = super().prediction_step(*args, **kwargs)
        return None, logits, labels


def fine_tune(
    model_args: ModelArguments, task_args: TaskArguments, training_args: TrainingArguments
) -> dict[str, float]:
    """Trains, evaluates and predicts as `training_args` ask, and returns the metrics.

    Args:
        model_args: The model.
        task_args: The task.
        training_args: Arguments of transformers' Trainer; `do_train`, `do_eval` and `do_predict`
            say what to do.

    Raises:
        ValueError: Nothing to do, or bad data.
    """
    asked = {
        "train": training_args.do_train,
        "validation": training_args.do_eval,
        "test": training_args.do_predict,
    }
    splits = [split for split, wanted in asked.items() if wanted]
    if not splits:
        raise ValueError("nothing to do: give do_train, do_eval or do_predict")
    common = {
        "cache_dir": model_args.cache_dir,
        "revision": model_args.model_revision,
        "token": model_args.token,
        "trust_remote_code": model_args.trust_remote_code,
    }
    name = model_args.model_name_or_path
    config = AutoConfig.from_pretrained(model_args.config_name or name, **common)
    tables, scheme = load_task(task_args, splits, _read_saved_scheme(config))
    config.num_labels = max(1, len(scheme.names))
    if not scheme.is_regression:
        config.id2label = dict(enumerate(scheme.names))
        config.label2id = {label: number for number, label in enumerate(scheme.names)}
    tokenizer = AutoTokenizer.from_pretrained(model_args.tokenizer_name or name, **common)
    set_seed(training_args.seed)
    model = AutoModelForSequenceClassification.from_pretrained(
        name, config=config, ignore_mismatched_sizes=model_args.ignore_mismatched_sizes, **common
    )
    if task_args.max_seq_length > tokenizer.model_max_length:
        logger.warning(
            "max_seq_length %s: the model's longest input is %s",
            task_args.max_seq_length,
            tokenizer.model_max_length,
        )
    limits = {
        "train": task_args.max_train_samples,
        "validation": task_args.max_eval_samples,
        "test": task_args.max_predict_samples,
    }
    with training_args.main_process_first(desc="tokenizing"):
        parts = {
            split: _tokenize(part, tokenizer, task_args, limits[split])
            for split, part in tables.items()
        }

    def compute_metrics(prediction: EvalPrediction) -> dict[str, float]:
        logits, labels = np.asarray(prediction.predictions), np.asarray(prediction.label_ids)
        return compute_scores(logits, labels, scheme, task_args.task_name)

    trainer = _FineTuner(
        model=model,
        args=training_args,
        train_dataset=parts.get("train"),
        eval_dataset=parts.get("validation"),
        data_collator=default_data_collator
        if task_args.pad_to_max_length
        else DataCollatorWithPadding(tokenizer),
        processing_class=tokenizer,
        compute_metrics=compute_metrics,
        preprocess_logits_for_metrics=_widen,
    )
    return _run(trainer, training_args, parts, scheme, task_args.task_name)


def _run(
    trainer: Trainer,
    training_args: TrainingArguments,
    parts: dict[str, datasets.Dataset],
    scheme: LabelScheme,
    task_name: str | None,
) -> dict[str, float]:
    metrics: dict[str, float] = {}
    if "train" in parts:
        trained = trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint).metrics
        trained["train_samples"] = len(parts["train"])
        trainer.save_model()
        trainer.save_state()
        _report(trainer, "train", trained, metrics)
    if "validation" in parts:
        scores = trainer.evaluate()
        scores["eval_samples"] = len(parts["validation"])
        _report(trainer, "eval", scores, metrics)
    if "test" in parts:
        logits = trainer.predict(parts["test"], metric_key_prefix="predict").predictions
        if trainer.is_world_process_zero():
            predictions = predict(np.asarray(logits), scheme)
            texts = [
                f"{x:.3f}" if scheme.is_regression else scheme.names[int(x)] for x in predictions
            ]
            lines = [
                "index\tprediction",
                *(f"{number}\t{text}" for number, text in enumerate(texts)),
            ]
            path = Path(str(training_args.output_dir), f"predict_results_{task_name or 'test'}.txt")
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            logger.info("predictions are in %s", path)
    return metrics


def _report(
    trainer: Trainer, split: str, scores: dict[str, float], metrics: dict[str, float]
) -> None:
    trainer.log_metrics(split, scores)
    trainer.save_metrics(split, scores)
    metrics.update(scores)
