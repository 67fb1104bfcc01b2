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
"""Converts an official LV-BERT checkpoint (arXiv 2106.11740, TensorFlow 1) to a Hub folder.

    python -m conversion.convert_lvbert --checkpoint DIR/model.ckpt-1000000 \
        --layer_order ddsffsdffsddsfdfsdfdssfs --part discriminator --output_dir OUT

Sizes are read off the variables. Every variable is consumed, dropped by name or an error, and the
folder appears only if the model in it computes what the TensorFlow formula does.
"""

import logging
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torch import Tensor
from transformers import PreTrainedModel

from conversion import (
    checkpoint_files,
    command_line,
    formulas_lvbert,
    hub_folder,
    model_card,
    names_lvbert,
    vocabulary,
)
from conversion.names_lvbert import SCOPES, TASK, TRAINING_STATE
from conversion.weights import rename_tensors
from modeling_lvbert import (
    LVBertConfig,
    LVBertForMaskedLM,
    LVBertForPreTraining,
    LVBertForSequenceClassification,
)
from modeling_lvbert.layer_order import join_letters

# Not __name__, which is "__main__" when this file is run.
logger = logging.getLogger("conversion.convert_lvbert")

PARTS = ("discriminator", "generator")
# The TensorFlow code numbers the layers; elsewhere only the letters are known.
LETTERS = {"0": "d", "1": "s", "2": "f"}


@dataclass
class Arguments:
    """Flags of the command line."""

    checkpoint: str = field(
        metadata={"help": "Checkpoint prefix, DIR/model.ckpt-N, or an .npz of its variables."}
    )
    layer_order: str = field(
        metadata={
            "help": "Letters as in ddsffs, or the official numbers as in 0,0,1,2,2,1 (0 dynamic "
            "convolution, 1 self-attention, 2 feed-forward). It is not in the checkpoint."
        }
    )
    output_dir: str = field(metadata={"help": "New folder; two folders in it with --part both."})
    part: Literal["discriminator", "generator", "both"] = field(
        default="discriminator", metadata={"help": "Which of the two models to convert."}
    )
    vocab_file: str | None = field(
        default=None, metadata={"help": "vocab.txt; without it the folder gets no tokenizer."}
    )
    num_attention_heads: int | None = field(
        default=None,
        metadata={
            "help": "Heads of the discriminator. Default: read off a dynamic convolution, else "
            "hidden size / 64. The generator always has the latter, as in the official code."
        },
    )

    def __post_init__(self) -> None:
        """Checks what a file of arguments may hold and flags cannot."""
        if self.part not in (*PARTS, "both"):
            raise ValueError(f"part must be one of {(*PARTS, 'both')}, got {self.part!r}")
        heads = self.num_attention_heads
        if heads is not None and (not isinstance(heads, int) or heads < 1):
            raise ValueError(f"num_attention_heads must be a positive integer, got {heads!r}")


@dataclass(frozen=True)
class Source:
    """One part of a checkpoint: its variables in TensorFlow's layout and what they are read as."""

    variables: Mapping[str, Tensor]
    part: str
    layer_order: str
    task: str | None
    num_attention_heads: int

    @property
    def scope(self) -> str:
        """Where the encoder's variables are."""
        return SCOPES[self.part]

    @property
    def model_class(self) -> type[PreTrainedModel]:
        """The head that the part has."""
        if self.part == "generator":
            return LVBertForMaskedLM
        return LVBertForSequenceClassification if self.task else LVBertForPreTraining


def parse_layer_order(text: str) -> str:
    """Returns letters from letters or from the official numbers, brackets and blanks allowed.

    Raises:
        ValueError: There are other signs, or the number of layers is odd: the TensorFlow code
            builds blocks of two and drops the odd one.
    """
    compact = re.sub(r"[\s,\[\]()]", "", str(text))
    if compact.isdigit():
        if unknown := sorted(set(compact) - set(LETTERS)):
            raise ValueError(
                f"layer_order {text!r}: unknown numbers {unknown}; known: 0 (d), 1 (s), 2 (f)"
            )
        compact = "".join(LETTERS[number] for number in compact)
    letters = join_letters(compact)
    if len(letters) % 2:
        raise ValueError(
            f"layer_order {text!r} has {len(letters)} layers; official checkpoints have an even "
            "number of them, since the TensorFlow code pairs them"
        )
    return letters


def convert(
    variables: Mapping[str, Tensor], part: str, layer_order: str, num_attention_heads: int | None
) -> tuple[PreTrainedModel, Source]:
    """Returns one part of a checkpoint as a model, and the source to compare it with.

    Args:
        variables: All variables of the checkpoint, TensorFlow names and layout.
        part: `discriminator` or `generator`.
        layer_order: Letters.
        num_attention_heads: Heads of the discriminator, None to find them out.

    Raises:
        ValueError: The variables are not those of such a model.
    """
    task = _find_task(variables) if part == "discriminator" else None
    sizes = _read_sizes(variables, part, task)
    # The medium model's generator is as wide as its embeddings and has none.
    has_projection = sizes.get("embedding_size") != sizes["hidden_size"]
    renames = names_lvbert.rename_table(variables, part, layer_order, has_projection, task)
    heads = _read_num_heads(variables, part, sizes, num_attention_heads)
    source = Source(variables, part, layer_order, task, heads)
    config = LVBertConfig(
        layer_order=layer_order,
        num_attention_heads=heads,
        conv_mask_padding=False,
        layer_norm_eps=formulas_lvbert.LAYER_NORM_EPS,
        **sizes,
    )
    model = source.model_class(config)
    tensors = {name: names_lvbert.to_pytorch_layout(name, variables[name]) for name in variables}
    hub_folder.fill(model, rename_tensors(tensors, renames, hub_folder.parameter_shapes(model)))
    dropped = Counter(
        "training state" if re.fullmatch(TRAINING_STATE, name) else "other part"
        for name, target in renames.items()
        if target is None
    )
    logger.info(
        "%s: layer order %s, %d attention heads%s",
        part,
        layer_order,
        heads,
        "" if "d" in layer_order else " (no variable says how many: see --num_attention_heads)",
    )
    logger.info(
        "%s: %d variables converted, %d of the other part and %d of the training state dropped",
        part,
        len(renames) - dropped.total(),
        dropped["other part"],
        dropped["training state"],
    )
    return model, source


def expectation(source: Source) -> hub_folder.Expectation:
    """Returns example inputs and what the TensorFlow formula computes from them."""
    variables = {
        name: tensor.float().double()
        for name, tensor in source.variables.items()
        if not re.fullmatch(TRAINING_STATE, name)
    }
    vocab_size = len(variables["electra/embeddings/word_embeddings"])
    longest = len(variables["electra/embeddings/position_embeddings"])
    segments = len(variables["electra/embeddings/token_type_embeddings"])
    inputs = hub_folder.example_inputs(vocab_size, longest)
    inputs["token_type_ids"] = inputs["input_ids"] % segments
    hidden = formulas_lvbert.encode(
        variables, source.scope, source.layer_order, source.num_attention_heads, **inputs
    )
    if source.part == "generator":
        logits = formulas_lvbert.mask_logits(variables, hidden)
    elif source.task:
        logits = formulas_lvbert.classification_logits(variables, source.task, hidden)
    else:
        logits = formulas_lvbert.detection_logits(variables, hidden)
    return hub_folder.Expectation(inputs, logits)


def _find_task(names: Mapping[str, Tensor]) -> str | None:
    tasks = sorted({match[1] for name in names if (match := TASK.fullmatch(name))})
    if len(tasks) > 1:
        raise ValueError(f"the checkpoint has heads of several tasks, {tasks}: one fits a model")
    return tasks[0] if tasks else None


def _read_sizes(variables: Mapping[str, Tensor], part: str, task: str | None) -> dict[str, Any]:
    """Returns the configuration's sizes; what a damaged checkpoint does not say stays out.

    A size that many variables have is the one that most of them have: then a single mis-shaped
    variable is reported as what it is.
    """
    encoder = f"{SCOPES[part]}/encoder/"
    rules = {
        "vocab_size": (r"electra/embeddings/word_embeddings", 0),
        "embedding_size": (r"electra/embeddings/LayerNorm/(gamma|beta)", 0),
        "max_position_embeddings": (r"electra/embeddings/position_embeddings", 0),
        "type_vocab_size": (r"electra/embeddings/token_type_embeddings", 0),
        "hidden_size": (encoder + r".+/LayerNorm/(gamma|beta)", 0),
        "intermediate_size": (encoder + r".+/intermediate/dense/(bias|kernel)", -1),
        "conv_kernel_size": (encoder + r".+/depthwise_kernel", 0),
        "num_labels": (rf"task_specific/{re.escape(task or '')}/dense/(bias|kernel)", -1),
    }
    sizes: dict[str, Any] = {}
    for name, (pattern, axis) in rules.items():
        found = Counter(
            variable.shape[axis]
            for key, variable in variables.items()
            if variable.ndim and re.fullmatch(pattern, key)
        )
        if found:
            sizes[name] = found.most_common(1)[0][0]
    if "hidden_size" not in sizes:
        raise ValueError(f"there are no layers under {encoder}: not the {part} of an LV-BERT")
    sizes.setdefault("intermediate_size", 4 * sizes["hidden_size"])
    if sizes.get("num_labels") == 1:
        sizes["problem_type"] = "regression"
    return sizes


def _read_num_heads(
    variables: Mapping[str, Tensor], part: str, sizes: Mapping[str, Any], asked: int | None
) -> int:
    pattern = rf"{SCOPES[part]}/encoder/.+/conv_attn_kernel/bias"
    found = Counter(
        variable.numel() // sizes["conv_kernel_size"]
        for name, variable in variables.items()
        if re.fullmatch(pattern, name) and "conv_kernel_size" in sizes
    )
    usual = max(1, sizes["hidden_size"] // 64)
    read = found.most_common(1)[0][0] if found else None
    if part == "generator":
        heads = read or usual
        if asked not in (None, heads):
            logger.info(
                "generator: %d attention heads, hidden size / 64 as in the official code; "
                "--num_attention_heads is the discriminator's",
                heads,
            )
        return heads
    if asked and read and asked != read:
        raise ValueError(
            f"num_attention_heads is {asked}, but the dynamic convolutions have kernels for {read}"
        )
    return asked or read or usual


def main(argv: Sequence[str]) -> None:
    """Converts what the command line asks for."""
    arguments = command_line.parse_arguments(
        Arguments,
        "conversion.convert_lvbert",
        "Converts an official LV-BERT checkpoint (TensorFlow) to a Hub folder. The flags may come "
        "from one JSON or YAML file instead.",
        argv,
    )
    output_dir = Path(arguments.output_dir)
    hub_folder.check_is_free(output_dir)
    layer_order = parse_layer_order(arguments.layer_order)
    variables = checkpoint_files.read_tensorflow(arguments.checkpoint)
    parts = PARTS if arguments.part == "both" else (arguments.part,)
    converted = [
        convert(variables, part, layer_order, arguments.num_attention_heads) for part in parts
    ]
    tokenizer = None
    if arguments.vocab_file:
        longest = converted[0][0].config.max_position_embeddings
        tokenizer = vocabulary.wordpiece_tokenizer(Path(arguments.vocab_file), longest)
        for model, _ in converted:
            model.config.pad_token_id = tokenizer.pad_token_id
    with hub_folder.new_folder(output_dir) as temporary:
        for model, source in converted:
            folder = temporary / source.part if len(parts) > 1 else temporary
            hub_folder.write(folder, model, tokenizer, _card(model, source), expectation(source))
    logger.info("written: %s", output_dir)


def _card(model: PreTrainedModel, source: Source) -> str:
    return model_card.conversion_card(
        model,
        title=f"LV-BERT {source.part}, converted",
        source=f"The {source.part} of an official LV-BERT checkpoint (arXiv 2106.11740), converted "
        "from TensorFlow.",
        settings={
            f"layer_order = {source.layer_order}": "the checkpoint does not hold it.",
            "conv_mask_padding = False": "the TensorFlow code lets padding into its convolutions, "
            "and these weights were trained so.",
        },
        example_text="The cat sat on the [MASK].",
    )


if __name__ == "__main__":
    sys.exit(command_line.run(main))
