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
"""Command-line options of pre-training, and the configuration that they describe.

Every field of the two configurations is an option of its own, made from the configuration's fields.
"""

import argparse
import dataclasses
import json
import logging
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast, get_args

import torch
import yaml
from transformers import (
    HfArgumentParser,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
    TrainingArguments,
)
from transformers.integrations import (
    get_available_reporting_integrations,
    get_reporting_integration_callbacks,
)

from ..configuration_elcbert import ELCBertConfig
from ..configuration_layer_order import LayerOrderConfig
from ..configuration_lvbert import LVBertConfig
from .masking import MASKING_UNITS, count_token_ids
from .packing import PACKINGS, check_tokenizer
from .recipes import RECIPES, get_recipe, list_option_defaults
from .reporting import default_report_to
from .stages import RunPlan, Stage, check_part, parse_stages

CONFIGS: dict[str, type[LayerOrderConfig]] = {
    "lvbert": LVBertConfig,
    "elcbert": ELCBertConfig,
}
OBJECTIVES = ("mlm", "electra")

# Options of ELECTRA alone.
_ELECTRA_OPTIONS = (
    "generator_size",
    "generator_weight",
    "detection_weight",
    "temperature",
    "disallow_correct",
    "uniform_generator",
    "untied_generator",
)

# Name, least value, value that is too large.
_TRAINING_RANGES: tuple[tuple[str, int, float], ...] = (
    ("learning_rate", 0, math.inf),
    ("weight_decay", 0, math.inf),
    ("adam_beta1", 0, 1),
    ("adam_beta2", 0, 1),
    ("adam_epsilon", 0, math.inf),
    ("max_grad_norm", 0, math.inf),
    ("warmup_steps", 0, math.inf),
    ("num_train_epochs", 0, math.inf),
    ("per_device_train_batch_size", 1, math.inf),
    ("per_device_eval_batch_size", 1, math.inf),
    ("gradient_accumulation_steps", 1, math.inf),
    ("dataloader_num_workers", 0, math.inf),
    ("seed", 0, 2**32),
)

_MOST_PARAMETERS = 10**11

# Options whose other values do not go with a run that can be gone on with to the last bit.
_FIXED_OPTIONS = {
    "resume_from_checkpoint": (
        None,
        "a run goes on by itself from the last complete checkpoint in output_dir",
    ),
    "train_sampling_strategy": ("random", "rows have an order of their own"),
    "save_only_model": (False, "nothing could go on from such checkpoints"),
    "auto_find_batch_size": (False, "the batch is a part of what the run is"),
}

logger = logging.getLogger(__name__)

# Not published: for quick trials on a CPU. LV-BERT's published initial values are for widths of 256
# and more; at this one they keep the model at the unigram plateau for long, ELC-BERT's rule
# sqrt(2 / (5 h)) does not.
TINY_SIZES: dict[str, dict[str, Any]] = {
    "lvbert": {
        "embedding_size": 128,
        "hidden_size": 128,
        "intermediate_size": 512,
        "layer_order": "ddsfsf",
        "initializer_range": 0.056,
    },
    "elcbert": {"hidden_size": 128, "intermediate_size": 256, "layer_order": "dsf dsf"},
}

# Fields of every configuration of transformers, and those that follow the tokenizer.
_NO_OPTIONS = {field.name for field in dataclasses.fields(PreTrainedConfig)} | {
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
}


@dataclasses.dataclass
class ModelArguments:
    """Which model to train."""

    model_family: str = dataclasses.field(
        default="lvbert", metadata={"help": f"One of: {', '.join(CONFIGS)}."}
    )
    model_size: str = dataclasses.field(
        default="small",
        metadata={
            "help": "A published size: small, medium (lvbert only) or base; or tiny, for trials."
        },
    )
    model_name_or_path: str | None = dataclasses.field(
        default=None,
        metadata={
            "help": "Go on with a saved model's weights, sizes, order and tokenizer, for example "
            "with a search's `best`; absent: new weights."
        },
    )
    recipe: str | None = dataclasses.field(
        default=None,
        metadata={"help": f"A published recipe, which options override: {', '.join(RECIPES)}."},
    )
    objective: str = dataclasses.field(
        default="mlm",
        metadata={"help": f"One of: {', '.join(OBJECTIVES)}; electra is for lvbert."},
    )
    generator_size: float = dataclasses.field(
        default=0.25,
        metadata={"help": "ELECTRA: the generator's width, share of the discriminator's."},
    )
    generator_weight: float = dataclasses.field(
        default=1.0, metadata={"help": "ELECTRA: weight of the generator's loss."}
    )
    detection_weight: float = dataclasses.field(
        default=50.0, metadata={"help": "ELECTRA: weight of replaced-token detection's loss."}
    )
    temperature: float = dataclasses.field(
        default=1.0, metadata={"help": "ELECTRA: divides the logits before a sample is drawn."}
    )
    disallow_correct: bool = dataclasses.field(
        default=False, metadata={"help": "ELECTRA: a sample is never the original token."}
    )
    uniform_generator: bool = dataclasses.field(
        default=False, metadata={"help": "ELECTRA: replacements are drawn evenly instead."}
    )
    untied_generator: bool = dataclasses.field(
        default=False, metadata={"help": "ELECTRA: the generator has embeddings of its own."}
    )


@dataclasses.dataclass
class DataArguments:
    """What to train it on. Without a file or data set: the text that comes with Python."""

    train_file: str | None = dataclasses.field(
        default=None,
        metadata={
            "help": "Text (a paragraph or sentence a line, a blank line between documents), .csv, "
            ".json or .jsonl; also packed as .gz, .xz or .bz2."
        },
    )
    validation_file: str | None = dataclasses.field(
        default=None,
        metadata={"help": "The same for validation. Absent: a part of the training documents."},
    )
    dataset_name: str | None = dataclasses.field(
        default=None, metadata={"help": "Data set of the Hub."}
    )
    dataset_config_name: str | None = dataclasses.field(
        default=None, metadata={"help": "Its configuration."}
    )
    text_column_name: str | None = dataclasses.field(
        default=None, metadata={"help": "Column of the text, where there are several."}
    )
    validation_split_percentage: float = dataclasses.field(
        default=5.0,
        metadata={
            "help": "Share of the documents for validation where there is no validation data."
        },
    )
    tokenizer_name: str | None = dataclasses.field(
        default=None,
        metadata={
            "help": "Tokenizer's folder or Hub name. Absent: one of the family's kind is trained."
        },
    )
    max_seq_length: int | None = dataclasses.field(
        default=None,
        metadata={"help": "Longest row, in tokens, of the whole run; 128 where no stages are."},
    )
    stages: list[str] | None = dataclasses.field(
        default=None,
        metadata={
            "help": "Parts of the run, each share of the steps:tokens a row:share of the batch, as "
            "in 0.9:128:1 0.1:512:0.25."
        },
    )
    streaming: bool = dataclasses.field(
        default=False,
        metadata={
            "help": "Pack while training instead of before; needs max_steps, a tokenizer_name and "
            "validation data."
        },
    )
    global_batch_size: int | None = dataclasses.field(
        default=None,
        metadata={
            "help": "Rows of an optimizer step over all devices; sets gradient_accumulation_steps."
        },
    )
    masking_unit: str = dataclasses.field(
        default="token", metadata={"help": f"One of: {', '.join(MASKING_UNITS)}."}
    )
    packing: str = dataclasses.field(
        default="documents",
        metadata={
            "help": f"One of: {', '.join(PACKINGS)}. segment_pairs is ELECTRA's, sentences "
            "ELC-BERT's."
        },
    )
    short_sequence_probability: float = dataclasses.field(
        default=0.0, metadata={"help": "Share of the rows that are shortened at random."}
    )
    single_segment_probability: float = dataclasses.field(
        default=0.1, metadata={"help": "Share of rows of one segment, with segment_pairs."}
    )
    replacement_shares: list[float] = dataclasses.field(
        default_factory=lambda: [0.8, 0.1, 0.1],
        metadata={"help": "Shares of the tokens to predict: masked, random, unchanged."},
    )
    mlm_probability: float = dataclasses.field(
        default=0.15, metadata={"help": "Share of the tokens to predict."}
    )
    final_mlm_probability: float | None = dataclasses.field(
        default=None,
        metadata={"help": "Where that share moves to, evenly, by the end of the run."},
    )
    preprocessing_num_workers: int | None = dataclasses.field(
        default=None, metadata={"help": "Processes that prepare the data."}
    )


class _HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults, and a script's docstring as it is."""


def _make_config_arguments() -> type:
    families: dict[str, list[str]] = {}
    kinds: dict[str, type] = {}
    for family, config in CONFIGS.items():
        for field in dataclasses.fields(config):
            name = field.name
            if name not in _NO_OPTIONS:
                families.setdefault(name, []).append(family)
                options = set(get_args(field.type) or (field.type,)) - {type(None)}
                # The parser knows one type for each option; a field that takes anything and checks
                # it by itself gets a string.
                kind = float if float in options else options.pop()
                kinds[name] = str if kind is Any else kind
    fields = [
        (
            name,
            kinds[name] | None,
            dataclasses.field(
                default=None, metadata={"help": f"Field of the configuration ({', '.join(names)})."}
            ),
        )
        for name, names in families.items()
    ]
    return dataclasses.make_dataclass(
        "ConfigArguments", fields, namespace={"__doc__": "Fields of the configuration."}
    )


ConfigArguments = _make_config_arguments()


def list_recipe_defaults(arguments: Sequence[str]) -> dict[str, Any]:
    """Returns the values of the pre-training recipe that a command line names, by option.

    Args:
        arguments: The command line.

    Raises:
        ValueError: There is no such recipe.
    """
    recipe = _find_recipe(arguments)
    return {} if recipe is None else list_option_defaults(recipe, torch.cuda.is_available())


def parse_arguments(
    kinds: Sequence[Any],
    arguments: Sequence[str] | None,
    description: str | None,
    list_defaults: Callable[[Sequence[str]], dict[str, Any]] = list_recipe_defaults,
) -> tuple:
    """Parses a command line, or the single `.json` or `.yaml` file that it names, into dataclasses.

    Args:
        kinds: The dataclasses.
        arguments: The command line; the process's own if None.
        description: Text of `--help`.
        list_defaults: Given the command line, returns defaults that depend on it, by option.

    Raises:
        ValueError: The file is missing or damaged, or there are names that are no option.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    parser = HfArgumentParser(
        kinds,
        description=description,
        allow_abbrev=False,
        formatter_class=_HelpFormatter,
    )
    if len(arguments) == 1 and arguments[0].endswith((".json", ".yaml", ".yml")):
        arguments = _read_options(arguments[0])
    if TrainingArguments in kinds:
        parser.set_defaults(report_to=default_report_to())
    parser.set_defaults(**list_defaults(arguments))
    return parser.parse_args_into_dataclasses(arguments, look_for_args_file=False)


def _find_recipe(arguments: Sequence[str]) -> str | None:
    """Returns the recipe that a command line names: its values are needed before the parsing."""
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--recipe")
    return finder.parse_known_args(arguments)[0].recipe


def _read_options(path: str) -> list[str]:
    """Returns the command line that a file of options stands for."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        options = json.loads(text) if path.endswith(".json") else yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ValueError(f"options file {path!r}: {error}") from None
    if not isinstance(options, dict):
        raise ValueError(f"options file {path!r}: a mapping of names to values is needed")
    line: list[str] = []
    for name, value in options.items():
        if isinstance(value, list):
            line += [f"--{name}", *map(str, value)]
        elif value is not None:
            line.append(f"--{name}={json.dumps(value) if isinstance(value, dict) else value}")
    return line


def build_config(
    model_args: ModelArguments, config_args: Any, tokenizer: PreTrainedTokenizerBase | None = None
) -> LayerOrderConfig:
    """Builds the configuration that the options describe.

    Args:
        model_args: Family, size and objective.
        config_args: `ConfigArguments`: values that override the size's; None keeps these.
        tokenizer: Where given, `vocab_size` and token ids follow it.

    Raises:
        ValueError: Unknown family, size or objective, a field that the family does not have or a
            bad value.
    """
    if model_args.objective not in OBJECTIVES:
        raise ValueError(
            f"objective {model_args.objective!r}: must be one of {', '.join(OBJECTIVES)}"
        )
    family = model_args.model_family
    if model_args.objective == "electra" and family != "lvbert":
        raise ValueError(f"objective 'electra' is for model_family lvbert, got {family!r}")
    if family not in CONFIGS:
        raise ValueError(f"model_family {family!r}: must be one of {', '.join(CONFIGS)}")
    config_class = CONFIGS[family]
    fields = {
        name: value for name, value in dataclasses.asdict(config_args).items() if value is not None
    }
    known = {field.name for field in dataclasses.fields(config_class)}
    foreign = sorted(set(fields) - known)
    if foreign:
        raise ValueError(
            f"model_family {family!r} has no {', '.join(foreign)}: only the other family has"
        )
    if tokenizer is not None:
        check_tokenizer(tokenizer, fields.get("vocab_size"))
        fields.setdefault("vocab_size", count_token_ids(tokenizer))
        fields.update(pad_token_id=tokenizer.pad_token_id)
    if model_args.model_size == "tiny":
        return config_class(**{**TINY_SIZES[family], **fields})
    return config_class.from_size(model_args.model_size, **fields)


def resolve_layer_order(layer_order: str, model_family: str) -> str:
    """Returns an order, read from a search's result where it is `@` and the search's folder.

    Args:
        layer_order: The order, or `@` and a folder.
        model_family: What is to be built, of which the search must have been.

    Raises:
        ValueError: There is no such result, it is damaged, or it is of the other family.
    """
    if not layer_order.startswith("@"):
        return layer_order
    path = Path(layer_order[1:], "search_result.json")
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        order, family = str(result["best_order"]), result["model_family"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"layer_order {layer_order!r}: a search's result is needed, {str(path)!r} cannot be "
            f"read ({error})"
        ) from None
    if family != model_family:
        raise ValueError(
            f"layer_order {layer_order!r}: that search was of {family!r}, not of {model_family!r}"
        )
    return order


def settle_data_arguments(
    model_args: ModelArguments, data_args: DataArguments, training_args: TrainingArguments
) -> tuple[Stage, ...]:
    """Fills in what follows from other options, and returns the run's stages.

    Raises:
        ValueError: Bad stages, a length beside stages, or a batch that devices or stages cannot
            share.
    """
    stages = _choose_stages(model_args, data_args)
    for stage in stages:
        check_part(training_args.train_batch_size, stage)
    if training_args.max_steps > 0:
        RunPlan(stages, training_args.max_steps, training_args.train_batch_size)
    if data_args.streaming:
        check_streaming(training_args)
    if data_args.global_batch_size is not None:
        rows = training_args.train_batch_size * training_args.world_size
        if data_args.global_batch_size < 1 or data_args.global_batch_size % rows:
            raise ValueError(
                f"global_batch_size {data_args.global_batch_size}: must be a multiple of "
                f"per_device_train_batch_size times devices, {rows}"
            )
        training_args.gradient_accumulation_steps = data_args.global_batch_size // rows
    return stages


def _choose_stages(model_args: ModelArguments, data_args: DataArguments) -> tuple[Stage, ...]:
    length, texts = data_args.max_seq_length, data_args.stages
    if length is None:
        return parse_stages(texts or ["1:128:1"])
    recipe = model_args.recipe
    if texts and (recipe is None or parse_stages(texts) != get_recipe(recipe)["stages"].value):
        raise ValueError(f"max_seq_length {length} and stages {texts}: only one may be given")
    return (Stage(1.0, length, 1.0),)


def check_streaming(training_args: TrainingArguments) -> None:
    """Checks the options that a stream needs.

    Raises:
        ValueError: The number of steps is open, or several processes would read the same stream.
    """
    if training_args.max_steps <= 0:
        raise ValueError("streaming: a stream has no length, max_steps is needed")
    if training_args.dataloader_num_workers > 1:
        raise ValueError(
            f"dataloader_num_workers {training_args.dataloader_num_workers}: at most 1 with "
            "streaming, each would read the whole stream"
        )


def check_training_arguments(training_args: TrainingArguments) -> None:
    """Checks the options of training that would fail, or spoil the weights, only after a while.

    Raises:
        ValueError: A number out of range, an integration that is unknown or not installed, or a
            checkpoint to begin with.
    """
    for name, value in vars(training_args).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name} {value}: must be a finite number")
    for name, least, highest in _TRAINING_RANGES:
        value = getattr(training_args, name)
        if not least <= value < highest:
            upper = "" if highest == math.inf else f" and below {highest}"
            raise ValueError(f"{name} {value}: must be at least {least}{upper}")
    if training_args.learning_rate == 0:
        raise ValueError("learning_rate 0: must be above 0")
    _check_length_of_run(training_args)
    _check_fixed_options(training_args)
    # Knows all names, and says so where one is none of them.
    get_reporting_integration_callbacks(training_args.report_to)
    wanted = cast(list[str], training_args.report_to)
    missing = set(wanted) - {*get_available_reporting_integrations(), "flyte"}
    if missing:
        raise ValueError(f"report_to {', '.join(sorted(missing))}: not installed")


def _check_fixed_options(training_args: TrainingArguments) -> None:
    if training_args.save_strategy == "best" and training_args.metric_for_best_model is None:
        raise ValueError("save_strategy 'best': metric_for_best_model is needed")
    gathered = training_args.eval_accumulation_steps
    if gathered is not None and gathered < 1:
        raise ValueError(f"eval_accumulation_steps {gathered}: must be at least 1")
    for name, (allowed, reason) in _FIXED_OPTIONS.items():
        if (value := getattr(training_args, name)) != allowed:
            raise ValueError(f"{name} {value!r}: must be {allowed!r}, {reason}")


def _check_length_of_run(training_args: TrainingArguments) -> None:
    max_steps = training_args.max_steps
    if max_steps == 0 or max_steps < -1:
        raise ValueError(f"max_steps {max_steps}: must be at least 1, or -1 to count epochs")
    if max_steps == -1 and training_args.num_train_epochs <= 0:
        raise ValueError(f"num_train_epochs {training_args.num_train_epochs}: must be above 0")


def check_size(config: LayerOrderConfig) -> None:
    """Checks that a model's size is one that some machine could hold.

    Raises:
        ValueError: It has more parameters than any model of these families.
    """
    # Not built, which takes the memory: counted by the largest matrices.
    hidden = config.hidden_size
    number = config.vocab_size * getattr(config, "embedding_size", hidden)
    number += hidden * (config.intermediate_size + config.max_position_embeddings)
    number += hidden * (hidden + config.conv_kernel_size)
    if number > _MOST_PARAMETERS:
        raise ValueError(
            f"vocab_size {config.vocab_size}, hidden_size {hidden}, intermediate_size "
            f"{config.intermediate_size}: the matrices alone would have {number:,} entries, at "
            f"most {_MOST_PARAMETERS:,} are possible"
        )


def warn_of_options_without_effect(model_args: ModelArguments) -> None:
    """Tells which options of ELECTRA were given for another objective."""
    if model_args.objective == "electra":
        return
    defaults = {field.name: field.default for field in dataclasses.fields(model_args)}
    given = [
        name for name in _ELECTRA_OPTIONS if getattr(model_args, name) not in (defaults[name], None)
    ]
    if given:
        logger.warning(
            "objective %r: %s has no effect, it is for electra",
            model_args.objective,
            ", ".join(given),
        )


def check_numbers(*all_arguments: Any) -> None:
    """Checks that no option of a dataclass is infinite or not a number.

    Raises:
        ValueError: One is.
    """
    for arguments in all_arguments:
        for name, value in vars(arguments).items():
            values = value if isinstance(value, list) else [value]
            if any(isinstance(number, float) and not math.isfinite(number) for number in values):
                raise ValueError(f"{name} {value}: must be a finite number")


def check_length(config: LayerOrderConfig, max_seq_length: int) -> None:
    """Checks that rows fit the model's table of positions, which only LV-BERT has.

    Raises:
        ValueError: The rows are longer.
    """
    if isinstance(config, LVBertConfig) and max_seq_length > config.max_position_embeddings:
        raise ValueError(
            f"max_seq_length {max_seq_length}: at most max_position_embeddings "
            f"{config.max_position_embeddings} is possible for LV-BERT"
        )
