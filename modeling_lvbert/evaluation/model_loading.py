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
"""Loading of any transformers model to fine-tune or score: what does not fit is refused."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from transformers import (
    AutoConfig,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

logger = logging.getLogger(__name__)

# Parts of an encoder that pre-training without them leaves out, or that are no weights.
_OPTIONAL_PARTS = ("pooler", "position_ids")


@dataclass
class ModelArguments:
    """Which model to load."""

    model_name_or_path: str = field(metadata={"help": "Folder or Hub name of the model."})
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


def name_failure(option: str, name: str | None, load: Callable[[], Any]) -> Any:
    """Returns what `load` returns; what it raises becomes an error that names the option.

    A damaged or foreign folder makes the libraries, or the model's own code, raise anything.

    Args:
        option: The option that says what to load.
        name: Its value.
        load: Loads it.

    Raises:
        ValueError: It cannot be loaded.
    """
    try:
        return load()
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise ValueError(f"{option} {name!r} cannot be loaded: {reason}") from error


def _list_common_options(model_args: ModelArguments) -> dict[str, Any]:
    """Returns the options of every `from_pretrained`."""
    return {
        "cache_dir": model_args.cache_dir,
        "revision": model_args.model_revision,
        "token": model_args.token,
        "trust_remote_code": model_args.trust_remote_code,
    }


def _load_part(model_args: ModelArguments, option: str, loader: Any) -> Any:
    """Loads a configuration or tokenizer from where its option, else the model's, says."""
    given = getattr(model_args, option)
    name = given or model_args.model_name_or_path
    common = _list_common_options(model_args)
    return name_failure(
        option if given else "model_name_or_path",
        name,
        lambda: loader.from_pretrained(name, **common),
    )


def load_config(model_args: ModelArguments) -> PreTrainedConfig:
    """Loads the configuration that the options name.

    Raises:
        ValueError: It cannot be loaded.
    """
    return _load_part(model_args, "config_name", AutoConfig)


def load_tokenizer(model_args: ModelArguments) -> PreTrainedTokenizerBase:
    """Loads the tokenizer that the options name.

    Raises:
        ValueError: It cannot be loaded.
    """
    return _load_part(model_args, "tokenizer_name", AutoTokenizer)


def check_tokenizer(
    tokenizer: PreTrainedTokenizerBase, config: Any, max_seq_length: int, is_pair: bool
) -> None:
    """Checks that the model has a row for each id, and that texts have room.

    Args:
        tokenizer: The tokenizer.
        config: The model's configuration.
        max_seq_length: Where texts are cut, in tokens; what the model cannot hold is warned of.
        is_pair: Whether two texts make an input.

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


def check_fast_tokenizer(tokenizer: PreTrainedTokenizerBase) -> None:
    """Checks that a tokenizer tells where in the text its tokens are, and that it can pad.

    Raises:
        ValueError: It does not, or it cannot.
    """
    kind = type(tokenizer).__name__
    if not tokenizer.is_fast:
        raise ValueError(
            f"the tokenizer is a slow {kind}, which does not tell where its tokens are in the text:"
            " one with a tokenizer.json (a fast one) is needed"
        )
    if tokenizer.pad_token_id is None:
        raise ValueError(f"the tokenizer, a {kind}, has no pad_token: one is needed for batches")


def read_labels(config: Any) -> tuple[list[str], bool]:
    """Returns the labels of a configuration, and whether they are those of a model without a task.

    Args:
        config: The configuration.
    """
    names = [config.id2label[number] for number in sorted(config.id2label)]
    return names, names == [f"LABEL_{number}" for number in range(len(names))]


def load_model(
    auto_class: Any, model_args: ModelArguments, config: Any, *, head_may_be_new: bool = True
) -> PreTrainedModel:
    """Loads a model whose head may be new, but whose encoder must be the saved one.

    Args:
        auto_class: One of transformers' `AutoModelFor...`.
        model_args: Where it lies.
        config: Its configuration, with the task's labels.
        head_may_be_new: Whether a head without saved weights starts with random ones.

    Raises:
        ValueError: It cannot be loaded, or a part of the encoder (or of the head, where that must
            be the saved one) has no saved weights, others than the configuration says, or weights
            too many.
    """
    name = model_args.model_name_or_path
    model, found = name_failure(
        "model_name_or_path",
        name,
        lambda: auto_class.from_pretrained(
            name,
            config=config,
            # Sizes are compared below: the library's own error does not say which differ.
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **_list_common_options(model_args),
        ),
    )
    _check_encoder(model, name, found)
    if not head_may_be_new and (new := sorted(found["missing_keys"])):
        raise ValueError(
            f"model_name_or_path {name!r}: {type(model).__name__} has no saved weights for "
            f"{_shorten(new)}"
        )
    if found["mismatched_keys"] and not model_args.ignore_mismatched_sizes:
        heads = ", ".join(sorted(mismatch[0] for mismatch in found["mismatched_keys"]))
        raise ValueError(
            f"model_name_or_path {name!r}: its head has another size than the task needs "
            f"({heads}); ignore_mismatched_sizes starts it anew"
        )
    return model


def _shorten(keys: list[str]) -> str:
    return ", ".join(keys[:3]) + (", ..." if len(keys) > 3 else "")


def _check_encoder(model: PreTrainedModel, name: str, found: dict[str, Any]) -> None:
    faults = []
    for kind, keys in (
        ("missing", found["missing_keys"]),
        ("not in the model", found["unexpected_keys"]),
        ("of another size", [mismatch[0] for mismatch in found["mismatched_keys"]]),
    ):
        wrong = sorted(key for key in keys if _is_of_encoder(model, key))
        if wrong:
            faults.append(f"{len(wrong)} {kind} ({_shorten(wrong)})")
    if faults:
        raise ValueError(
            f"model_name_or_path {name!r}: the saved weights of the encoder do not fit its "
            f"configuration: {'; '.join(faults)}"
        )


def _is_of_encoder(model: PreTrainedModel, key: str) -> bool:
    if any(part in key for part in _OPTIONAL_PARTS):
        return False
    # A file of the bare encoder has no prefix.
    base = model.base_model
    bare = set() if base is model else {child for child, _ in base.named_children()}
    return key.split(".")[0] in {model.base_model_prefix, *bare}
