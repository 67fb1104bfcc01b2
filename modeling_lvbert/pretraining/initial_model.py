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
"""A run that begins with a saved model's weights instead of new ones.

The model says its family, sizes, order and tokenizer; options may change what has no weights, such
as dropout.
"""

import dataclasses
import logging
from pathlib import Path
from typing import Any

from transformers import AutoConfig, PreTrainedModel

from ..configuration_layer_order import LayerOrderConfig
from .arguments import CONFIGS, DataArguments, ModelArguments, resolve_layer_order
from .electra import HALVES, ElectraForPreTraining

logger = logging.getLogger(__name__)

# Fields that no weight depends on.
_MAY_CHANGE = ("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range")

# How much of a list of weights a message shows.
_NUM_SHOWN = 3


def adopt_saved_model(
    model_args: ModelArguments, config_args: Any, data_args: DataArguments
) -> None:
    """Fills in what the model that the options name says: family, fields and tokenizer.

    Args:
        model_args: Names the model; without one nothing changes.
        config_args: `ConfigArguments`; fields that were not given become the model's.
        data_args: Without a tokenizer's name the model's own is taken.

    Raises:
        ValueError: It cannot be read, is of another family, or has another order or size than was
            asked for.
    """
    name = model_args.model_name_or_path
    if name is None:
        return
    try:
        config = AutoConfig.from_pretrained(name)
    # A damaged file makes the library raise anything.
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise ValueError(f"model_name_or_path {name!r} cannot be loaded: {reason}") from error
    if not isinstance(config, LayerOrderConfig) or config.model_type not in CONFIGS:
        raise ValueError(
            f"model_name_or_path {name!r} is a {config.model_type!r}: must be one of "
            f"{', '.join(CONFIGS)}"
        )
    model_args.model_family = config.model_type
    saved = {field.name for field in dataclasses.fields(config)}
    for option in (field.name for field in dataclasses.fields(config_args)):
        given = getattr(config_args, option)
        if option in saved and (given is None or option not in _MAY_CHANGE):
            value = getattr(config, option)
            if given is not None and _normalize(option, given, config) != value:
                raise ValueError(
                    f"{option} {given!r}: model_name_or_path {name!r} has {value!r}; leave the "
                    "option out, or the model for new weights"
                )
            setattr(config_args, option, value)
    if data_args.tokenizer_name is None:
        data_args.tokenizer_name = name


def _normalize(option: str, given: Any, config: LayerOrderConfig) -> Any:
    if option != "layer_order":
        return given
    order = resolve_layer_order(given, config.model_type)
    return type(config)(layer_order=order).layer_order


def load_initial_weights(model: PreTrainedModel, name: str) -> None:
    """Gives a model the weights of a saved one; a head that was not saved keeps its new ones.

    Args:
        model: What is to be trained; of ELECTRA both halves take theirs, the generator's from the
            subfolder `generator`.
        name: Folder or Hub name of the saved model.

    Raises:
        ValueError: A part of an encoder has no saved weights, or others than the model's.
    """
    if not isinstance(model, ElectraForPreTraining):
        _load(model, name)
        return
    for half, place in zip(HALVES, (name, str(Path(name, "generator"))), strict=True):
        if half == "generator" and not Path(place).is_dir():
            raise ValueError(
                f"model_name_or_path {name!r}: ELECTRA needs the generator's weights too, in a "
                "subfolder 'generator', which is not there"
            )
        _load(getattr(model, half), place)


def _load(model: PreTrainedModel, name: str) -> None:
    loaded: Any = type(model).from_pretrained(
        name, config=model.config, ignore_mismatched_sizes=True, output_loading_info=True
    )
    saved, found = loaded
    prefix = f"{model.base_model_prefix}."
    # A file of the bare encoder has no prefix, and is read all the same.
    missing = sorted(key for key in found["missing_keys"] if key.startswith(prefix))
    sizes = sorted(mismatch[0] for mismatch in found["mismatched_keys"])
    unknown = sorted(key for key in found["unexpected_keys"] if key.startswith(prefix))
    for kind, keys in (
        ("missing", missing),
        ("of another size", sizes),
        ("not in the model", unknown),
    ):
        if keys:
            more = ", ..." if len(keys) > _NUM_SHOWN else ""
            raise ValueError(
                f"model_name_or_path {name!r}: {len(keys)} saved weights are {kind} "
                f"({', '.join(keys[:_NUM_SHOWN])}{more}): sizes and order must be the saved model's"
            )
    new = sorted(key for key in found["missing_keys"] if not key.startswith(prefix))
    if new:
        logger.warning("%s has no %s: these begin anew", name, ", ".join(new))
    model.load_state_dict(saved.state_dict())
