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
"""Fills MODEL_CARD.md for a converted checkpoint: what it came from, and what was not measured."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from modeling_lvbert.layer_order import LAYER_NAMES, join_letters
from modeling_lvbert.search.costs import count_flops

TEMPLATE = Path(__file__).resolve().parent.parent / "MODEL_CARD.md"
# Formatters take the blanks out of those that stand in code. Titles in BibTeX have capitals.
PLACEHOLDER = re.compile(r"\{\{ ?([a-z_]+) ?\}\}")
PIPELINES = {
    "ForMaskedLM": "fill-mask",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
}
# Tokens of the row that operations are counted for, at most.
FLOPS_LENGTH = 128
NOT_MEASURED = (
    "Not measured here. The conversion compared the logits with the original's formula on random "
    "tokens and refuses to write where they differ."
)
LICENSE = (
    "The original repository states no licence for its weights; ask its authors before you share "
    "them. The code files in this folder are Apache-2.0."
)


def conversion_card(
    model: PreTrainedModel,
    title: str,
    source: str,
    settings: Mapping[str, str],
    example_text: str,
) -> str:
    """Returns the model card of a converted checkpoint.

    Args:
        model: The converted model.
        title: Heading of the card.
        source: What was converted, one sentence.
        settings: What the checkpoint does not say and the conversion was told, with the reason.
        example_text: Input of the example.
    """
    told = "\n".join(f"- `{name}`: {reason}" for name, reason in settings.items())
    values = {
        **describe_model(model),
        "language": "en",
        "license": "other",
        "title": title,
        "summary": f"{source} The head is the one of `{type(model).__name__}`.\n\n{told}",
        "order_figure": "",
        "repo_id": "path/to/this/folder",
        "revision": "main",
        "example_input": json.dumps(example_text),
        "more_usage": "",
        "training_data": "As the authors of the original describe; nothing was trained here.",
        "recipe": "Converted without further training.",
        "search": "",
        "scores": NOT_MEASURED,
        "limits": "Those of the original model.",
        "license_text": LICENSE,
    }
    return fill_template(TEMPLATE.read_text(encoding="utf-8"), values)


def describe_model(model: PreTrainedModel, flops_length: int = FLOPS_LENGTH) -> dict[str, Any]:
    """Returns the template's values that follow from the model.

    Args:
        model: The model.
        flops_length: Tokens of the row that operations are counted for, where the model takes
            that many.
    """
    config: Any = model.config
    heading = type(model).__name__
    counts = Counter(join_letters(config.layer_order))
    length = min(flops_length, config.max_position_embeddings)
    pipeline = next((tag for end, tag in PIPELINES.items() if heading.endswith(end)), None)
    return {
        "pipeline_tag": pipeline or "feature-extraction",
        "model_type": config.model_type,
        "family": heading.removesuffix("Model").partition("For")[0],
        "layer_order": config.layer_order,
        "layer_counts": ", ".join(
            f"{counts[letter]} {name}" for letter, name in LAYER_NAMES.items() if counts[letter]
        ),
        "hidden_size": config.hidden_size,
        "num_attention_heads": config.num_attention_heads,
        "intermediate_size": config.intermediate_size,
        "conv_kernel_size": config.conv_kernel_size if counts["d"] else "none",
        "conv_mask_padding": config.conv_mask_padding,
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_position_embeddings,
        "num_parameters": f"{model.num_parameters():,}",
        "flops_length": length,
        "flops": f"{count_flops(config, length):,}",
    }


def fill_template(template: str, values: Mapping[str, object]) -> str:
    """Returns the template with every `{{ name }}` replaced, and no two blank lines together.

    Raises:
        ValueError: The template asks for a name that there is no value for.
    """
    if missing := sorted(set(PLACEHOLDER.findall(template)) - set(values)):
        raise ValueError(f"the model card's template asks for {missing}, which have no value")
    filled = PLACEHOLDER.sub(lambda match: str(values[match[1]]), template)
    # Where a value is empty.
    return re.sub(r"\n{3,}", "\n\n", filled)
