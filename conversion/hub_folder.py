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
"""Writes a converted model as a complete Hub folder, if it computes what its source does."""

import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

SINGLE_TOLERANCE = 1e-4
DOUBLE_TOLERANCE = 1e-8
CHECKED_TOKENS = 40


@dataclass(frozen=True)
class Expectation:
    """What the source formula gives: logits in float64, and the inputs that they belong to."""

    inputs: Mapping[str, Tensor]
    logits: Tensor


def check_is_free(output_dir: Path) -> None:
    """Checks that there is no file and no filled folder at `output_dir`.

    Raises:
        ValueError: There is one.
    """
    if output_dir.exists() and not output_dir.is_dir():
        raise ValueError(f"output_dir {output_dir} is a file")
    if output_dir.is_dir() and any(output_dir.iterdir()):
        raise ValueError(f"output_dir {output_dir} exists and is not empty; give a new folder")


@contextmanager
def new_folder(output_dir: Path) -> Iterator[Path]:
    """Yields a temporary folder beside `output_dir` that takes its name once the body succeeds.

    After an error neither is there, nor a parent folder that had to be made.
    """
    output_dir = output_dir.absolute()
    check_is_free(output_dir)
    made = [parent for parent in output_dir.parents if not parent.exists()]
    output_dir.parent.mkdir(parents=True, exist_ok=True)
    temporary = output_dir.with_name(f".{output_dir.name}.partial-{os.getpid()}")
    temporary.mkdir()
    try:
        yield temporary
        temporary.rename(output_dir)
    except BaseException:
        shutil.rmtree(temporary)
        for parent in made:
            parent.rmdir()
        raise


def fill(model: PreTrainedModel, tensors: Mapping[str, Tensor]) -> None:
    """Copies tensors into a model; parameters that are tied to a filled one need none of their own.

    Raises:
        ValueError: A parameter stays as it was, or a tensor has no parameter.
    """
    result = model.load_state_dict(dict(tensors), strict=False)
    left = set(result.missing_keys) - set(model.all_tied_weights_keys)
    if left or result.unexpected_keys:
        raise ValueError(
            f"parameters without a tensor: {sorted(left)}; "
            f"tensors without a parameter: {result.unexpected_keys}"
        )
    model.tie_weights()


def parameter_shapes(model: PreTrainedModel) -> dict[str, tuple[int, ...]]:
    """Returns the shape of every parameter but those tied to another."""
    return {
        name: tuple(parameter.shape)
        for name, parameter in model.named_parameters(remove_duplicate=False)
        if name not in model.all_tied_weights_keys
    }


def example_inputs(vocab_size: int, longest: int) -> dict[str, Tensor]:
    """Returns random token ids and masks: a full row, one half padding and one almost all padding.

    Args:
        vocab_size: Ids are drawn below it.
        longest: Length that the model allows, in tokens.
    """
    generator = torch.Generator().manual_seed(0)
    length = min(CHECKED_TOKENS, longest)
    lengths = torch.tensor([length, length // 2 + 1, min(2, length)])
    mask = (torch.arange(length) < lengths[:, None]).long()
    ids = torch.randint(vocab_size, mask.shape, generator=generator)
    return {"input_ids": ids, "attention_mask": mask}


def write(
    folder: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None,
    card: str,
    expectation: Expectation,
) -> None:
    """Saves everything into `folder`, reads it back and compares it with the source formula.

    Raises:
        ValueError: The folder's model computes something else, or its tokenizer does not fit it.
    """
    model.save_pretrained(folder)
    # safetensors makes its files readable for their owner only.
    shutil.copymode(folder / "config.json", folder / "model.safetensors")
    (folder / "README.md").write_text(card, encoding="utf-8")
    if tokenizer is None:
        logger.info("no tokenizer was given: the folder has none")
    else:
        tokenizer.save_pretrained(folder)
        check_tokenizer(folder, model)
    _check_logits(folder, type(model), expectation)


def _check_logits(
    folder: Path, model_class: type[PreTrainedModel], expectation: Expectation
) -> None:
    loaded: Any = model_class.from_pretrained(
        folder, output_loading_info=True, local_files_only=True
    )
    model, loading = loaded
    faults = {kind: sorted(names) for kind, names in loading.items() if names}
    if faults:
        raise ValueError(f"the written folder does not load completely: {faults}")
    scale = max(1.0, expectation.logits.abs().max().item())
    single = _largest_difference(model, expectation)
    double = _largest_difference(model.double(), expectation)
    logger.info(
        "self-check against the source formula: largest difference %.1e in float32, %.1e in "
        "float64, on logits up to %.2f",
        single,
        double,
        scale,
    )
    # Written so that NaN fails too.
    if not (single <= SINGLE_TOLERANCE * scale and double <= DOUBLE_TOLERANCE * scale):
        raise ValueError(
            "the converted model does not compute what its source does (allowed: "
            f"{SINGLE_TOLERANCE * scale:.1e} and {DOUBLE_TOLERANCE * scale:.1e}); "
            "nothing was written"
        )
    if not _varies(expectation):
        raise ValueError(
            "the logits are the same whatever the tokens are: the checkpoint holds no trained "
            "model; nothing was written"
        )


@torch.no_grad()
def _largest_difference(model: PreTrainedModel, expectation: Expectation) -> float:
    logits = model.eval()(**expectation.inputs).logits
    if logits.shape != expectation.logits.shape:
        raise ValueError(
            f"the model's logits have the shape {tuple(logits.shape)}, the source's "
            f"{tuple(expectation.logits.shape)}"
        )
    return (logits.double() - expectation.logits).abs().max().item()


def _varies(expectation: Expectation) -> bool:
    """Whether logits differ between tokens, or between rows where there is one output a row."""
    logits = expectation.logits
    if logits.shape[:2] == expectation.inputs["input_ids"].shape:
        # The first row has no padding.
        logits = logits[0]
    return logits.std(0).max().item() > 0


def check_tokenizer(folder: Path, model: PreTrainedModel) -> None:
    """Opens the tokenizer of a folder and checks that it fits the model.

    Raises:
        ValueError: Ids lie beyond the embeddings, the padding is another, or a text does not get
            its [CLS] and [SEP].
    """
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True, local_files_only=True)
    vocab_size, pad_token_id = model.config.vocab_size, model.config.pad_token_id
    beyond = {token: index for token, index in tokenizer.get_vocab().items() if index >= vocab_size}
    if beyond:
        shown = dict(sorted(beyond.items(), key=lambda item: item[1])[:10])
        raise ValueError(
            f"the model has {vocab_size} embeddings; {len(beyond)} tokens have ids beyond them, "
            f"the first are {shown}"
        )
    if tokenizer.pad_token_id != pad_token_id:
        raise ValueError(
            f"the tokenizer pads with {tokenizer.pad_token_id}, the model with {pad_token_id}"
        )
    ids = tokenizer("a")["input_ids"]
    if (ids[0], ids[-1]) != (tokenizer.cls_token_id, tokenizer.sep_token_id):
        raise ValueError("the tokenizer does not put its [CLS] and [SEP] around a text")
    if len(tokenizer) < vocab_size:
        logger.warning(
            "the tokenizer has %d entries, the model %d embeddings", len(tokenizer), vocab_size
        )
