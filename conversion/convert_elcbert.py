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
"""Converts a checkpoint of ELC-BERT (arXiv 2311.02265) or LTG-BERT (2303.09859) to a Hub folder.

    python -m conversion.convert_elcbert --checkpoint model.bin --config base.json --variant zero \
        --tokenizer_file tokenizer.json --output_dir OUT

The checkpoint does not say its variant nor how its relative positions are laid out: other values
load without an error and compute something else, so both are told. Nothing in the checkpoint is
executed, and the folder appears only if the model in it computes what the original's formula does.
"""

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import PreTrainedModel

from conversion import (
    checkpoint_files,
    command_line,
    formulas_elcbert,
    hub_folder,
    model_card,
    names_elcbert,
    vocabulary,
)
from conversion.formulas_elcbert import SourceSettings
from conversion.names_elcbert import (
    DECODER_KEY,
    EMBEDDING_KEY,
    GPT_BERT_SIGNS,
    LAYER_MIX,
    OUTPUT_MIX_KEY,
    POSITIONS,
)
from conversion.weights import rename_tensors
from modeling_lvbert import (
    ELCBertConfig,
    ELCBertForMaskedLM,
    ELCBertForSequenceClassification,
    ELCBertForTokenClassification,
)
from modeling_lvbert.configuration_elcbert import POSITION_LAYOUTS, VARIANTS

# Not __name__, which is "__main__" when this file is run.
logger = logging.getLogger("conversion.convert_elcbert")

# Some variants rebuild their position table with this, whatever their configuration says.
REBUILT_MAX_POSITION = 512
REQUIRED_SIZES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_hidden_layers",
    "max_position_embeddings",
    "position_bucket_size",
)
OPTIONAL_FIELDS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "classifier_dropout",
    "layer_norm_eps",
)


@dataclass
class Arguments:
    """Flags of the command line."""

    checkpoint: str = field(metadata={"help": "model.bin or model.safetensors."})
    config: str = field(metadata={"help": "The original's JSON configuration, as base.json."})
    variant: Literal["base", "zero", "normalized", "weighted_output", "ltg"] = field(
        metadata={
            "help": "Which of the original's model files trained it; the checkpoint cannot tell. "
            "ltg is LTG-BERT."
        }
    )
    output_dir: str = field(metadata={"help": "New folder."})
    position_layout: Literal["halves", "per_head"] = field(
        default="halves",
        metadata={
            "help": "How the projected relative embedding is parted into query and key: halves, or "
            "per_head as in LTG-BERT's first training code."
        },
    )
    tokenizer_file: str | None = field(
        default=None, metadata={"help": "tokenizer.json; without it the folder gets no tokenizer."}
    )

    def __post_init__(self) -> None:
        """Checks what a file of arguments may hold and flags cannot."""
        for name, known in (("variant", VARIANTS), ("position_layout", POSITION_LAYOUTS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {known}, got {getattr(self, name)!r}")


@dataclass(frozen=True)
class Source:
    """A checkpoint with what it is read as."""

    tensors: Mapping[str, Tensor]
    settings: SourceSettings
    head: str
    reads_first_token: bool


def read_config(path: Path) -> dict[str, Any]:
    """Returns the original's configuration.

    Raises:
        ValueError: The file is no JSON object or lacks a size.
    """
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    # json.JSONDecodeError and UnicodeDecodeError.
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    if not isinstance(config, dict):
        raise ValueError(f"{path}: expected names and values, got {type(config).__name__}")
    if missing := [name for name in REQUIRED_SIZES if name not in config]:
        raise ValueError(f"{path}: missing {missing}")
    for name in REQUIRED_SIZES:
        if type(config[name]) is not int or config[name] < 1:
            raise ValueError(f"{path}: {name} must be a positive integer, got {config[name]!r}")
    return config


def convert(
    tensors: Mapping[str, Tensor],
    config: Mapping[str, Any],
    variant: str,
    position_layout: str,
    pad_token_id: int | None,
) -> tuple[PreTrainedModel, Source]:
    """Returns a checkpoint as a model, and the source to compare it with.

    Args:
        tensors: The checkpoint's tensors by the original's names, wrappers stripped.
        config: The original's configuration.
        variant: Model file that trained it, one of `VARIANTS`.
        position_layout: One of `POSITION_LAYOUTS`.
        pad_token_id: Id of the padding token; the original's configuration names a wrong one.

    Raises:
        ValueError: The tensors are not those of such a model.
    """
    _check_variant(tensors, variant)
    head = "head" if any(name.startswith("head.") for name in tensors) else "classifier"
    tensors, is_tied = _resolve_tying(dict(tensors), head)
    fields = {name: config[name] for name in OPTIONAL_FIELDS if config.get(name) is not None}
    fields |= {name: config[name] for name in REQUIRED_SIZES if name != "num_hidden_layers"}
    if head == "head":
        fields |= _label_fields(tensors, config)
    ours = ELCBertConfig(
        layer_order=" ".join(["sf"] * config["num_hidden_layers"]),
        variant=variant,
        position_layout=position_layout,
        pad_token_id=pad_token_id,
        tie_word_embeddings=is_tied,
        **fields,
    )
    _check_position_tables(tensors, ours)
    model = _model_class(head, config)(ours)
    renames = names_elcbert.rename_table(tensors, ours.num_hidden_layers, variant, head)
    if is_tied and head == "classifier":
        renames[DECODER_KEY] = None
    shapes = hub_folder.parameter_shapes(model)
    hub_folder.fill(model, rename_tensors(tensors, renames, shapes))
    num_dropped = sum(target is None for target in renames.values())
    logger.info(
        "%d tensors converted; %d dropped: position tables, which follow from the configuration, "
        "and the second name of the tied output matrix",
        len(renames) - num_dropped,
        num_dropped,
    )
    settings = SourceSettings(
        variant=variant,
        position_layout=position_layout,
        num_hidden_layers=ours.num_hidden_layers,
        num_attention_heads=config["num_attention_heads"],
        position_bucket_size=ours.position_bucket_size,
        max_position_embeddings=ours.max_position_embeddings,
        layer_norm_eps=ours.layer_norm_eps,
    )
    reads_first_token = isinstance(model, ELCBertForSequenceClassification)
    return model, Source(tensors, settings, head, reads_first_token)


def expectation(source: Source) -> hub_folder.Expectation:
    """Returns example inputs and what the original's formula computes from them."""
    tensors = {
        name: tensor.float().double()
        for name, tensor in source.tensors.items()
        if tensor.is_floating_point()
    }
    settings = source.settings
    longest = settings.max_position_embeddings
    inputs = hub_folder.example_inputs(len(tensors[EMBEDDING_KEY]), longest)
    hidden = formulas_elcbert.encode(tensors, settings, **inputs)
    if source.reads_first_token:
        hidden = hidden[:, 0]
    logits = formulas_elcbert.head_logits(tensors, source.head, hidden, settings.layer_norm_eps)
    return hub_folder.Expectation(inputs, logits)


def _check_variant(tensors: Mapping[str, Tensor], variant: str) -> None:
    if signs := [sign for sign in GPT_BERT_SIGNS if any(sign in name for name in tensors)]:
        raise ValueError(f"this is a GPT-BERT checkpoint (it has {signs}), another model")
    has_mix = any(LAYER_MIX.fullmatch(name) for name in tensors)
    if has_mix == (variant == "ltg"):
        fitting = [name for name in VARIANTS if name != "ltg"] if has_mix else ["ltg"]
        raise ValueError(
            f"variant {variant!r} does not fit: the checkpoint has "
            f"{'' if has_mix else 'no '}prev_layer_weights in its layers; allowed: {fitting}"
        )
    if (OUTPUT_MIX_KEY in tensors) != (variant == "weighted_output"):
        has = "has" if OUTPUT_MIX_KEY in tensors else "has no"
        raise ValueError(
            f"variant {variant!r} does not fit: the checkpoint {has} {OUTPUT_MIX_KEY}, which only "
            "weighted_output has"
        )


def _resolve_tying(tensors: dict[str, Tensor], head: str) -> tuple[dict[str, Tensor], bool]:
    """Returns the tensors with an output matrix, and whether it is the embeddings'."""
    if head != "classifier" or EMBEDDING_KEY not in tensors:
        return tensors, True
    if DECODER_KEY not in tensors:
        logger.info("the checkpoint leaves out the output matrix: it is the word embeddings")
        return {**tensors, DECODER_KEY: tensors[EMBEDDING_KEY]}, True
    if torch.equal(tensors[DECODER_KEY], tensors[EMBEDDING_KEY]):
        return tensors, True
    logger.warning("the output matrix is not the word embeddings: converted with both, untied")
    return tensors, False


def _label_fields(tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> dict[str, Any]:
    bias = tensors.get("head.nonlinearity.5.bias")
    if bias is None:
        # rename_tensors says so.
        return {}
    fields: dict[str, Any] = {"num_labels": bias.numel()}
    names = config.get("id2label")
    if isinstance(names, dict) and len(names) == bias.numel():
        id2label = {int(index): name for index, name in names.items()}
        label2id = {name: index for index, name in id2label.items()}
        fields = {"id2label": id2label, "label2id": label2id}
    if config.get("problem_type"):
        fields["problem_type"] = config["problem_type"]
    return fields


def _model_class(head: str, config: Mapping[str, Any]) -> type[PreTrainedModel]:
    if head == "classifier":
        return ELCBertForMaskedLM
    architectures = config.get("architectures") or []
    if any("TokenClassification" in str(name) for name in architectures):
        return ELCBertForTokenClassification
    return ELCBertForSequenceClassification


def _check_position_tables(tensors: Mapping[str, Tensor], config: ELCBertConfig) -> None:
    """Checks that every stored position table is one that the originals build.

    Raises:
        ValueError: A table is none of them.
    """
    usual = config.max_position_embeddings
    for name, table in tensors.items():
        if not POSITIONS.fullmatch(name):
            continue
        limits = _position_limits(table, config)
        if not limits:
            raise ValueError(
                f"{name}, {tuple(table.shape)}, is not the table of position_bucket_size "
                f"{config.position_bucket_size} and max_position_embeddings {usual}"
            )
        if usual not in limits:
            logger.warning(
                "%s was rebuilt for a long input with a largest distance of %d tokens; converted "
                "with the configuration's max_position_embeddings, %d",
                name,
                limits[0],
                usual,
            )


def _position_limits(table: Tensor, config: ELCBertConfig) -> list[int]:
    """Returns the largest distances with which the originals would build this very table.

    They build it for `max_position_embeddings` tokens and distances, and again when an input is
    longer: with that input's length or with a fixed distance, depending on the variant.
    """
    usual = config.max_position_embeddings
    if table.ndim != 2 or table.shape[0] < usual:
        return []
    length = table.shape[0]
    limits = [usual] if length == usual else [usual, length, REBUILT_MAX_POSITION]
    return [
        limit
        for limit in limits
        if limit >= config.position_bucket_size // 2 + 2
        and torch.equal(
            table.long(), formulas_elcbert.position_rows(length, config.position_bucket_size, limit)
        )
    ]


def main(argv: Sequence[str]) -> None:
    """Converts what the command line asks for."""
    arguments = command_line.parse_arguments(
        Arguments,
        "conversion.convert_elcbert",
        "Converts an official ELC-BERT or LTG-BERT checkpoint (PyTorch) to a Hub folder. The flags "
        "may come from one JSON or YAML file instead.",
        argv,
    )
    output_dir = Path(arguments.output_dir)
    hub_folder.check_is_free(output_dir)
    config = read_config(Path(arguments.config))
    tokenizer = None
    pad_token_id = ELCBertConfig().pad_token_id
    if arguments.tokenizer_file:
        longest = config["max_position_embeddings"]
        tokenizer = vocabulary.elc_tokenizer(Path(arguments.tokenizer_file), longest)
        pad_token_id = tokenizer.pad_token_id
    tensors = checkpoint_files.read_pytorch(Path(arguments.checkpoint))
    model, source = convert(
        tensors, config, arguments.variant, arguments.position_layout, pad_token_id
    )
    card = _card(model, arguments)
    with hub_folder.new_folder(output_dir) as temporary:
        hub_folder.write(temporary, model, tokenizer, card, expectation(source))
    logger.info("written: %s", output_dir)


def _card(model: PreTrainedModel, arguments: Arguments) -> str:
    is_ltg = arguments.variant == "ltg"
    name = "LTG-BERT (arXiv 2303.09859)" if is_ltg else "ELC-BERT (arXiv 2311.02265)"
    return model_card.conversion_card(
        model,
        title=f"{name.partition(' (')[0]}, converted",
        source=f"An official {name} checkpoint, converted from PyTorch.",
        settings={
            f"variant = {arguments.variant}": "which of the original's model files the weights "
            "belong to; several variants have the same tensor names and different formulas.",
            f"position_layout = {arguments.position_layout}": "how the projected relative "
            "embedding is parted into query and key; both layouts have the same tensors.",
        },
        example_text="The cat sat on the [MASK].",
    )


if __name__ == "__main__":
    sys.exit(command_line.run(main))
