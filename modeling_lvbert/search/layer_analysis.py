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
"""Looks into a trained model: layer weights and layer importance, as pictures and numbers."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from ..layer_order import split_words
from ..modeling_elcbert import ELCBertForMaskedLM
from ..modeling_lvbert import LVBertForMaskedLM
from ..pretraining.corpus import check_file, iterate_documents
from ..pretraining.figures import can_draw, draw_layer_weights, write_figure
from ..pretraining.layer_weights import read_layer_weights
from ..pretraining.masking import MaskingCollator
from ..pretraining.packing import check_tokenizer, pack_documents
from .layer_importance import MaskedModel, measure_importance, plot_importance

RESULT_FILE = "layer_importance.json"


@dataclass
class AnalysisArguments:
    """Which model to look into, and with which text."""

    model_name_or_path: str = field(
        metadata={"help": "Folder of an LV-BERT or ELC-BERT masked language model."}
    )
    text_file: str = field(metadata={"help": "Held-out text, documents between blank lines."})
    output_dir: str = field(metadata={"help": "Folder for numbers and pictures."})
    max_seq_length: int = field(default=128, metadata={"help": "Tokens of a row."})
    max_rows: int = field(default=256, metadata={"help": "Rows, from all over the text."})
    batch_size: int = field(default=32, metadata={"help": "Rows that are computed at once."})
    seed: int = field(default=0, metadata={"help": "Seed of the masks."})

    def __post_init__(self) -> None:
        """Checks the numbers.

        Raises:
            ValueError: One is too small.
        """
        for name, least in (("max_seq_length", 3), ("max_rows", 1), ("batch_size", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} {getattr(self, name)}: must be at least {least}")


def _check_output_dir(output_dir: str) -> None:
    folder = Path(output_dir)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"output_dir {output_dir!r} is a file, a folder is needed")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / RESULT_FILE).is_file():
        raise ValueError(f"output_dir {output_dir!r} holds other things: take a new folder")


def load_masked_model(name: str) -> tuple[MaskedModel, Any]:
    """Loads one of our masked language models with its tokenizer.

    Args:
        name: Folder or Hub name.

    Raises:
        ValueError: It cannot be loaded, is another's, or lacks weights.
    """
    try:
        model, found = AutoModelForMaskedLM.from_pretrained(name, output_loading_info=True)
        tokenizer = AutoTokenizer.from_pretrained(name)
    # A damaged folder makes the library raise anything.
    except Exception as error:
        raise ValueError(f"model_name_or_path {name!r} cannot be loaded: {error}") from error
    if not isinstance(model, LVBertForMaskedLM | ELCBertForMaskedLM):
        raise ValueError(
            f"model_name_or_path {name!r} is a {type(model).__name__}: an LV-BERT or ELC-BERT is "
            "needed"
        )
    if missing := sorted(found["missing_keys"]):
        raise ValueError(
            f"model_name_or_path {name!r} is no masked language model: it has no saved weights for "
            f"{', '.join(missing[:3])}"
        )
    check_tokenizer(tokenizer, model.config.vocab_size)
    return model, tokenizer


def make_batches(tokenizer: Any, arguments: AnalysisArguments) -> list[dict[str, torch.Tensor]]:
    """Returns masked batches of rows that are spread evenly over the text.

    Args:
        tokenizer: The model's.
        arguments: Text and sizes.

    Raises:
        ValueError: The text cannot be read or is empty.
    """
    check_file("text_file", arguments.text_file)
    documents = [document["text"] for document in iterate_documents(arguments.text_file)]
    packed = pack_documents({"text": documents}, tokenizer, arguments.max_seq_length, False)
    rows = packed["input_ids"]
    number = min(arguments.max_rows, len(rows))
    chosen = [
        {"input_ids": rows[place], "mask_key": (arguments.seed, 0, place)}
        for place in (index * len(rows) // number for index in range(number))
    ]
    collator = MaskingCollator(tokenizer)
    size = arguments.batch_size
    return [collator(chosen[start : start + size]) for start in range(0, number, size)]


def analyze_layers(arguments: AnalysisArguments) -> dict[str, Any]:
    """Measures and draws, and returns what it wrote to `layer_importance.json`.

    Args:
        arguments: The options.

    Raises:
        ValueError: Anything given is wrong.
    """
    _check_output_dir(arguments.output_dir)
    model, tokenizer = load_masked_model(arguments.model_name_or_path)
    longest = model.config.max_position_embeddings
    if arguments.max_seq_length > longest:
        raise ValueError(
            f"max_seq_length {arguments.max_seq_length}: the model's longest input is {longest}"
        )
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batches = [
        {name: value.to(device) for name, value in batch.items()}
        for batch in make_batches(tokenizer, arguments)
    ]
    model.to(device)  # type: ignore[arg-type]
    importance = measure_importance(model, batches)
    result = {
        "layer_order": model.config.layer_order,
        "baseline": importance.baseline.to_metrics(),
        "left_out": [change.to_metrics() for change in importance.left_out],
        "exchanged": [change.to_metrics() for change in importance.exchanged],
        "layer_weights": {
            name: weights.tolist() for name, weights in read_layer_weights(model).items()
        },
        "settings": {
            name: getattr(arguments, name) for name in ("max_seq_length", "max_rows", "seed")
        },
    }
    _write(model, importance, result, Path(arguments.output_dir))
    return result


def _write(model: MaskedModel, importance: Any, result: dict[str, Any], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{RESULT_FILE}"
    temporary.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    temporary.replace(folder / RESULT_FILE)
    if can_draw(folder / "layer_importance.png"):
        write_figure(plot_importance(importance), folder / "layer_importance.png")
    if weights := read_layer_weights(model):
        words = split_words(model.config.layer_order)
        names = [f"{number}  {word}" for number, word in enumerate(words, start=1)]
        draw_layer_weights(list(weights.values()), folder / "layer_weights.png", [*names, "mix"])


def format_importance(result: dict[str, Any]) -> str:
    """Returns one line for each layer and each pair: the changes and their standard errors."""
    lines = [f"{'':>10}{'loss':>9}{'+-':>8}{'accuracy':>10}{'+-':>8}"]
    for title, changes in (("left out", result["left_out"]), ("exchanged", result["exchanged"])):
        lines.append(title)
        for change in changes:
            name = f"{'-'.join(map(str, change['places']))} {change['letters']}"
            lines.append(
                f"{name:>10}{change['loss_change']:+9.4f}"
                f"{change['loss_change_standard_error']:8.4f}"
                f"{change['accuracy_change']:+10.4f}"
                f"{change['accuracy_change_standard_error']:8.4f}"
            )
    return "\n".join(lines)
