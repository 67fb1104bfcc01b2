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
"""The published pre-training recipes as data, every value with its source.

LV-BERT: arXiv 2106.11740 and its code; ELC-BERT: arXiv 2311.02265 and its code; LTG-BERT: arXiv
2303.09859 and its code. A setting is named as the option that overrides it.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .checkpoints import write_json
from .stages import Stage, format_stages, parse_stages

# Where a value was read or how it came about.
SOURCES = {
    "C": "the official code or its README",
    "P": "a paper or poster",
    "D": "arithmetic on such numbers",
    "I": "inference from such facts",
    "ours": "our choice: the sources do not say",
    "option": "given by the user",
}

# Every recipe has all of these; None where a setting does not apply.
SETTINGS = {
    "model_family": "lvbert or elcbert",
    "model_size": "size of the family's configuration",
    "layer_order": "layers, the first nearest the input",
    "variant": "layer selection of ELC-BERT",
    "position_layout": "parting of ELC-BERT's relative embeddings",
    "conv_mask_padding": "whether convolutions see zeros at padded positions",
    "hidden_dropout_prob": "dropout of embeddings and layers",
    "attention_probs_dropout_prob": "dropout of attention probabilities",
    "tokenizer_kind": "bert: lower-cased WordPiece; elcbert: byte-level WordPiece without ##",
    "vocab_size": "entries of the vocabulary",
    "objective": "electra or mlm",
    "generator_size": "width of the generator, share of the discriminator's",
    "generator_weight": "weight of the generator's loss",
    "detection_weight": "weight of replaced-token detection's loss",
    "packing": "how rows are made of documents: documents, segment_pairs or sentences",
    "mlm_probability": "share of the tokens to predict",
    "masking_unit": "token, whole_word or span",
    "replacement_shares": "shares of predicted tokens: masked, random, unchanged",
    "label_smoothing": "share of the target spread over the vocabulary",
    "short_sequence_probability": "share of rows cut to a random length",
    "single_segment_probability": "share of rows with one segment only",
    "stages": "parts of the run: share of its steps, tokens a row, share of the batch",
    "global_batch_size": "rows an optimizer step, over all devices",
    "max_steps": "optimizer steps",
    "optimizer": "a key of `optimization.OPTIMIZERS`",
    "learning_rate": "peak rate",
    "adam_beta1": "decay of the first moment, per step",
    "adam_beta2": "decay of the second moment, per step",
    "adam_epsilon": "added to the root of the second moment",
    "weight_decay": "share of the weights per unit of learning rate",
    "max_grad_norm": "norm that gradients are clipped to",
    "clipping_epsilon": "added to the norm when clipping",
    "schedule": "one of `schedules.SCHEDULES`",
    "schedule_power": "exponent of the polynomial schedule",
    "min_factor": "lowest factor of the cosine schedule",
    "warmup_steps": "warm-up, share of the steps",
    "seed": "of everything random",
    "precision": "fp32, fp16 or bf16",
}


class Setting(NamedTuple):
    """A value and where it is from: a key of `SOURCES`, and what a reader should know."""

    value: Any
    source: str
    note: str = ""


Recipe = dict[str, Setting]

_TWO_STAGES = (Stage(0.9, 128, 1.0), Stage(0.1, 512, 0.25))

_LVBERT: Recipe = {
    "model_family": Setting("lvbert", "C"),
    "layer_order": Setting(
        "ddsffsdffsddsfdfsdfdssfs", "ours", "only the small model's order is published: that one"
    ),
    "variant": Setting(None, "C"),
    "position_layout": Setting(None, "C"),
    "conv_mask_padding": Setting(True, "ours", "the released code lets padding in"),
    "hidden_dropout_prob": Setting(0.1, "C"),
    "attention_probs_dropout_prob": Setting(0.1, "C"),
    "tokenizer_kind": Setting("bert", "C"),
    "vocab_size": Setting(30522, "C"),
    "objective": Setting("electra", "C"),
    "generator_size": Setting(1 / 3, "C"),
    "generator_weight": Setting(1.0, "C"),
    "detection_weight": Setting(50.0, "C"),
    "packing": Setting("segment_pairs", "C"),
    "mlm_probability": Setting(0.15, "C"),
    "masking_unit": Setting("token", "C"),
    "replacement_shares": Setting((0.85, 0.0, 0.15), "C"),
    "label_smoothing": Setting(0.0, "C"),
    "short_sequence_probability": Setting(0.05, "C", "a random length from 5 tokens on"),
    "single_segment_probability": Setting(0.1, "C"),
    "stages": Setting(
        (Stage(1.0, 128, 1.0),),
        "C",
        "the released *_seq512 checkpoints had 100,000 more steps at 512 tokens",
    ),
    "global_batch_size": Setting(128, "C"),
    "max_steps": Setting(1_000_000, "C"),
    "optimizer": Setting("uncorrected_adamw", "C"),
    "learning_rate": Setting(5e-4, "C"),
    "adam_beta1": Setting(0.9, "C"),
    "adam_beta2": Setting(0.999, "C"),
    "adam_epsilon": Setting(1e-6, "C"),
    "weight_decay": Setting(0.01, "C"),
    "max_grad_norm": Setting(1.0, "C"),
    "clipping_epsilon": Setting(0.0, "C"),
    "schedule": Setting("linear", "C"),
    "schedule_power": Setting(1.0, "C"),
    "min_factor": Setting(None, "C"),
    "warmup_steps": Setting(0.01, "D", "10,000 of 1,000,000 steps"),
    "seed": Setting(42, "ours"),
    "precision": Setting("fp32", "I", "the code has no mixed precision of its own"),
}

_ELCBERT: Recipe = {
    "model_family": Setting("elcbert", "C"),
    "layer_order": Setting("sf sf sf sf sf sf sf sf sf sf sf sf", "C"),
    "variant": Setting("zero", "I", "the leaderboard calls the strict model 'zero init'"),
    "position_layout": Setting("halves", "C"),
    "conv_mask_padding": Setting(None, "C"),
    "hidden_dropout_prob": Setting(0.1, "C"),
    "attention_probs_dropout_prob": Setting(0.1, "C"),
    "tokenizer_kind": Setting("elcbert", "C"),
    "vocab_size": Setting(16384, "C"),
    "objective": Setting("mlm", "C"),
    "generator_size": Setting(None, "C"),
    "generator_weight": Setting(None, "C"),
    "detection_weight": Setting(None, "C"),
    "packing": Setting("sentences", "C"),
    "mlm_probability": Setting(0.15, "C"),
    "masking_unit": Setting("span", "C"),
    "replacement_shares": Setting((0.8, 0.1, 0.1), "C"),
    "label_smoothing": Setting(0.0, "C"),
    "short_sequence_probability": Setting(0.1, "C"),
    "single_segment_probability": Setting(1.0, "C"),
    "stages": Setting(_TWO_STAGES, "C"),
    "global_batch_size": Setting(
        32768, "D", "more than 450 epochs of 135 million tokens in 15,625 steps of 128 tokens a row"
    ),
    "max_steps": Setting(15_625, "C"),
    "optimizer": Setting("lamb", "C"),
    "learning_rate": Setting(1e-2, "C"),
    "adam_beta1": Setting(0.9, "C"),
    "adam_beta2": Setting(0.98, "C"),
    "adam_epsilon": Setting(1e-6, "C"),
    "weight_decay": Setting(0.1, "C"),
    "max_grad_norm": Setting(2.0, "C"),
    "clipping_epsilon": Setting(1e-6, "C", "torch's clip_grad_norm_"),
    "schedule": Setting("cosine", "C"),
    "schedule_power": Setting(None, "C"),
    "min_factor": Setting(0.1, "C"),
    "warmup_steps": Setting(0.016, "C"),
    "seed": Setting(42, "C"),
    "precision": Setting("fp16", "C"),
}

RECIPES: dict[str, Recipe] = {
    "lvbert-small": _LVBERT
    | {
        "model_size": Setting("small", "C"),
        "layer_order": Setting("ddsffsdffsddsfdfsdfdssfs", "C", "found by the paper's search"),
        "generator_size": Setting(1 / 4, "C"),
    },
    "lvbert-medium": _LVBERT | {"model_size": Setting("medium", "C")},
    "lvbert-base": _LVBERT
    | {
        "model_size": Setting("base", "C"),
        "global_batch_size": Setting(256, "C"),
        "learning_rate": Setting(2e-4, "C"),
    },
    "elcbert-strict-small": _ELCBERT
    | {
        "model_size": Setting("small", "C"),
        "variant": Setting("base", "I", "the leaderboard names only the strict model 'zero init'"),
        "vocab_size": Setting(6144, "C"),
        "global_batch_size": Setting(8192, "I", "a poster on re-runs says 8096"),
        "max_steps": Setting(31_250, "P", "that poster, EMNLP 2025 BabyLM workshop"),
    },
    "elcbert-strict": _ELCBERT | {"model_size": Setting("base", "C")},
    "ltg-bnc": _ELCBERT
    | {
        "model_size": Setting("base", "C"),
        "variant": Setting("ltg", "C"),
        "position_layout": Setting("per_head", "C"),
        "vocab_size": Setting(16384, "I", "as in LTG-BERT's BabyLM code"),
        "masking_unit": Setting("token", "C", "its default; spans and whole words are options"),
        "global_batch_size": Setting(32768, "C"),
        "max_steps": Setting(31_250, "C"),
        **{
            name: _ELCBERT[name]._replace(source="I", note="as in ELC-BERT's code, built on it")
            for name in (
                "hidden_dropout_prob",
                "attention_probs_dropout_prob",
                "tokenizer_kind",
                "replacement_shares",
                "label_smoothing",
                "short_sequence_probability",
                "adam_beta1",
                "adam_beta2",
                "adam_epsilon",
                "clipping_epsilon",
                "min_factor",
                "seed",
                "precision",
            )
        },
    },
}


def get_recipe(name: str) -> Recipe:
    """Returns a published recipe.

    Args:
        name: A key of `RECIPES`.

    Raises:
        ValueError: There is no such recipe.
    """
    if name not in RECIPES:
        raise ValueError(f"recipe {name!r}: must be one of {', '.join(RECIPES)}")
    return dict(RECIPES[name])


def list_values(recipe: Recipe) -> dict[str, Any]:
    """Returns a recipe's values without their sources; those that do not apply are left out."""
    return {name: setting.value for name, setting in recipe.items() if setting.value is not None}


# Settings that options of another name stand for, and those that follow from others.
_OTHER_OPTIONS = {"label_smoothing": "label_smoothing_factor"}
_NO_OPTIONS = ("tokenizer_kind", "stages", "precision")


def list_option_defaults(name: str, has_accelerator: bool) -> dict[str, Any]:
    """Returns a recipe's values by the name of the option that overrides each.

    Args:
        name: A key of `RECIPES`.
        has_accelerator: Whether half precision can be had, if the recipe has it.

    Raises:
        ValueError: There is no such recipe.
    """
    values = list_values(get_recipe(name))
    options = {
        _OTHER_OPTIONS.get(key, key): list(value) if isinstance(value, tuple) else value
        for key, value in values.items()
        if key not in _NO_OPTIONS
    }
    if has_accelerator and values["precision"] != "fp32":
        options[values["precision"]] = True
    options["stages"] = format_stages(values["stages"])
    return options


def describe_effective(name: str, options: Mapping[str, Any]) -> Recipe:
    """Returns a recipe with what the options made of it.

    Args:
        name: A key of `RECIPES`.
        options: All options of the run by name, those that are no setting among them.
    """
    recipe = get_recipe(name)
    # A setting that does not apply stays so, whatever its option's default is.
    names = {
        key: _OTHER_OPTIONS.get(key, key)
        for key, setting in recipe.items()
        if key not in _NO_OPTIONS and setting.value is not None
    }
    changed = {key: options[option] for key, option in names.items() if option in options}
    changed = {
        key: tuple(value) if isinstance(value, list) else value for key, value in changed.items()
    }
    length = options["max_seq_length"]
    changed["stages"] = (
        parse_stages(options["stages"]) if length is None else (Stage(1.0, length, 1.0),)
    )
    precision = next((key for key in ("fp16", "bf16") if options.get(key)), "fp32")
    return override_recipe(recipe, {**changed, "precision": precision})


def override_recipe(recipe: Recipe, options: Mapping[str, Any]) -> Recipe:
    """Returns a recipe with some values replaced; these have the source "option".

    Args:
        recipe: A recipe.
        options: Values by name of setting; None keeps the recipe's, and an equal value its source.

    Raises:
        ValueError: There is no such setting.
    """
    unknown = sorted(set(options) - set(SETTINGS))
    if unknown:
        raise ValueError(f"recipes have no {', '.join(unknown)}; settings: {', '.join(SETTINGS)}")
    changed = {
        name: Setting(value, "option", f"the recipe has {recipe[name].value!r}")
        for name, value in options.items()
        if value is not None and value != recipe[name].value
    }
    return recipe | changed


def write_effective_recipe(path: str | os.PathLike[str], name: str, recipe: Recipe) -> None:
    """Writes what a run really used as JSON: value, source and note of every setting.

    Args:
        path: File; another of that name is replaced, at once and whole.
        name: The recipe's name.
        recipe: Result of `get_recipe` or `override_recipe`.
    """
    settings = {key: setting._asdict() for key, setting in recipe.items()}
    write_json(Path(path), {"recipe": name, "sources": SOURCES, "settings": settings})
