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

import dataclasses
import logging
import math
from collections.abc import Callable
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
    PreTrainedModel,
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
from .run_folder import check_output_dir, claim_output_dir

logger = logging.getLogger(__name__)

# Options that change nothing in what a run gives, and those that matter to its scores alone.
_WITHOUT_EFFECT = {"cache_dir", "token", "trust_remote_code", "overwrite_cache"}
_FOR_SCORES = {"validation_file", "test_file", "max_eval_samples", "max_predict_samples"}
_OF_TRAINING = (
    "learning_rate",
    "num_train_epochs",
    "max_steps",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "weight_decay",
    "warmup_steps",
    "seed",
)

# Parts of an encoder that pre-training without them leaves out, or that are no weights.
_OPTIONAL_PARTS = ("pooler", "position_ids")


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
            ValueError: An unknown task, no data, contradictory sources, or a number out of range.
        """
        if self.max_seq_length < 3:
            raise ValueError(
                f"max_seq_length {self.max_seq_length}: at least 3 is needed, two of them for "
                "special tokens"
            )
        for name in ("max_train_samples", "max_eval_samples", "max_predict_samples"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} {value}: must be at least 1")
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


def _load(option: str, name: str | None, load: Callable[[], Any]) -> Any:
    """Returns what `load` returns; what it raises becomes an error that names the option.

    A damaged or foreign folder makes the libraries, or the model's own code, raise anything.
    """
    try:
        return load()
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise ValueError(f"{option} {name!r} cannot be loaded: {reason}") from error


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
    option = "dataset_name" if arguments.dataset_name else "task_name"
    sources = {
        "dataset_name": (arguments.dataset_name, arguments.dataset_config_name),
        "task_name": ("nyu-mll/glue", arguments.task_name),
    }
    name = getattr(arguments, option)
    found = _load(option, name, lambda: datasets.load_dataset(*sources[option]))
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


def _describe_run(
    model_args: ModelArguments, task_args: TaskArguments, training_args: TrainingArguments
) -> dict[str, Any]:
    """Returns what makes a run the run it is: options that are not at their defaults."""
    ignored = _WITHOUT_EFFECT | (_FOR_SCORES if training_args.do_train else set())
    run = {
        option.name: getattr(arguments, option.name)
        for arguments in (model_args, task_args)
        for option in dataclasses.fields(arguments)
        if option.name not in ignored and getattr(arguments, option.name) != option.default
    }
    if training_args.do_train:
        run.update({name: getattr(training_args, name) for name in _OF_TRAINING})
    return {**run, "do_train": training_args.do_train}


def _check_training(training_args: TrainingArguments) -> None:
    """Checks what would fail, or spoil the weights, only after a while.

    Raises:
        ValueError: A number out of range, or a checkpoint that is not there.
    """
    for name in ("learning_rate", "weight_decay", "warmup_steps"):
        value = getattr(training_args, name)
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} {value}: must be a number of at least 0")
    for name in ("per_device_train_batch_size", "per_device_eval_batch_size"):
        if getattr(training_args, name) < 1:
            raise ValueError(f"{name} {getattr(training_args, name)}: must be at least 1")
    checkpoint = training_args.resume_from_checkpoint
    if isinstance(checkpoint, str) and not Path(checkpoint).is_dir():
        raise ValueError(f"resume_from_checkpoint {checkpoint!r}: no such folder")


def _load_named(
    model_args: ModelArguments, option: str, loader: Any, common: dict[str, Any]
) -> Any:
    """Loads a configuration or tokenizer from where its option, else the model's, says."""
    given = getattr(model_args, option)
    return _load(
        option if given else "model_name_or_path",
        given or model_args.model_name_or_path,
        lambda: loader.from_pretrained(given or model_args.model_name_or_path, **common),
    )


def _check_tokenizer(
    tokenizer: PreTrainedTokenizerBase, config: Any, max_seq_length: int, is_pair: bool
) -> None:
    """Checks that the model has a row for each id, and that texts have room.

    Raises:
        ValueError: It has not, or they have none.
    """
    vocab_size = config.to_dict().get("vocab_size")
    largest = max(tokenizer.get_vocab().values(), default=-1)
    if vocab_size is not None and largest >= vocab_size:
        raise ValueError(
            f"the tokenizer has ids up to {largest}, but the model's vocab_size is {vocab_size}: "
            "they do not belong together"
        )
    num_special = tokenizer.num_special_tokens_to_add(pair=is_pair)
    longest = min(max_seq_length, tokenizer.model_max_length)
    needed = num_special + (2 if is_pair else 1)
    if longest < needed:
        raise ValueError(
            f"max_seq_length {longest}: at least {needed} is needed, {num_special} of them for "
            "special tokens"
        )
    if max_seq_length > tokenizer.model_max_length:
        logger.warning(
            "max_seq_length %s: the model's longest input is %s",
            max_seq_length,
            tokenizer.model_max_length,
        )


def load_classifier(
    model_args: ModelArguments, config: Any, common: dict[str, Any]
) -> PreTrainedModel:
    """Loads a model whose head may be new, but whose encoder must be the saved one.

    Args:
        model_args: Where it lies.
        config: Its configuration, with the task's labels.
        common: Options of every `from_pretrained`.

    Raises:
        ValueError: It cannot be loaded, or a part of the encoder has no saved weights, others than
            the configuration says, or weights too many.
    """
    name = model_args.model_name_or_path
    model, found = _load(
        "model_name_or_path",
        name,
        lambda: AutoModelForSequenceClassification.from_pretrained(
            name,
            config=config,
            # Sizes are compared below: the library's own error does not say which differ.
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **common,
        ),
    )
    faults = []
    for kind, keys in (
        ("missing", found["missing_keys"]),
        ("not in the model", found["unexpected_keys"]),
        ("of another size", [mismatch[0] for mismatch in found["mismatched_keys"]]),
    ):
        wrong = sorted(key for key in keys if _is_of_encoder(model, key))
        if wrong:
            more = ", ..." if len(wrong) > 3 else ""
            faults.append(f"{len(wrong)} {kind} ({', '.join(wrong[:3])}{more})")
    if faults:
        raise ValueError(
            f"model_name_or_path {name!r}: the saved weights of the encoder do not fit its "
            f"configuration: {'; '.join(faults)}"
        )
    if found["mismatched_keys"] and not model_args.ignore_mismatched_sizes:
        heads = ", ".join(sorted(mismatch[0] for mismatch in found["mismatched_keys"]))
        raise ValueError(
            f"model_name_or_path {name!r}: its head has another size than the task needs "
            f"({heads}); ignore_mismatched_sizes starts it anew"
        )
    return model


def _is_of_encoder(model: PreTrainedModel, key: str) -> bool:
    if any(part in key for part in _OPTIONAL_PARTS):
        return False
    # A file of the bare encoder has no prefix.
    base = model.base_model
    bare = set() if base is model else {child for child, _ in base.named_children()}
    return key.split(".")[0] in {model.base_model_prefix, *bare}


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
        ValueError: Nothing to do, a model, tokenizer or data that cannot be used, or an
            `output_dir` that holds other things.
    """
    asked = {
        "train": training_args.do_train,
        "validation": training_args.do_eval,
        "test": training_args.do_predict,
    }
    splits = [split for split, wanted in asked.items() if wanted]
    if not splits:
        raise ValueError("nothing to do: give do_train, do_eval or do_predict")
    _check_training(training_args)
    output_dir = str(training_args.output_dir)
    run = _describe_run(model_args, task_args, training_args)
    with training_args.main_process_first(desc="checking output_dir"):
        check_output_dir(
            output_dir, model_args.model_name_or_path, run, trains=training_args.do_train
        )
    common = {
        "cache_dir": model_args.cache_dir,
        "revision": model_args.model_revision,
        "token": model_args.token,
        "trust_remote_code": model_args.trust_remote_code,
    }
    config = _load_named(model_args, "config_name", AutoConfig, common)
    tables, scheme = load_task(task_args, splits, _read_saved_scheme(config))
    config.num_labels = max(1, len(scheme.names))
    if not scheme.is_regression:
        config.id2label = dict(enumerate(scheme.names))
        config.label2id = {label: number for number, label in enumerate(scheme.names)}
    tokenizer = _load_named(model_args, "tokenizer_name", AutoTokenizer, common)
    is_pair = any("sentence2" in part.column_names for part in tables.values())
    _check_tokenizer(tokenizer, config, task_args.max_seq_length, is_pair)
    set_seed(training_args.seed)
    model = load_classifier(model_args, config, common)
    with training_args.main_process_first(desc="claiming output_dir"):
        claim_output_dir(output_dir, run)
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
