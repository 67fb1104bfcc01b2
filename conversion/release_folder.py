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
"""Fills the folder that is published, and checks that it holds nothing else than it may."""

import logging
import shutil
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from . import onnx_export, order_figure, secret_scan, sentence_pooling
from .publishing_plan import ALLOWED, FIGURES, HALVES_FOLDER, PublishingPlan
from .saved_models import write_models
from .searched_model_card import CardOptions, write_card

logger = logging.getLogger(__name__)


def fill_release(
    folder: Path,
    plan: PublishingPlan,
    models: Mapping[str, PreTrainedModel],
    tokenizer: PreTrainedTokenizerBase,
    options: CardOptions,
) -> None:
    """Writes all that is published into an empty folder.

    Args:
        folder: The folder.
        plan: What is published.
        models: The models by place.
        tokenizer: Their tokenizer.
        options: What the user decides about card and extras.

    Raises:
        ValueError: Something does not fit, or must not be published.
        ImportError: A package for an extra is not installed.
    """
    model = models[""]
    fill_checkpoint(folder, models, tokenizer)
    figure = order_figure.draw_order(model.config.layer_order, folder)
    for name, source in {**plan.figures, **plan.records}.items():
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        # The content alone, whatever rights the source has.
        shutil.copyfile(source, target)
    if "sentence_transformers" in options.extras:
        longest = model.config.max_position_embeddings
        sentence_pooling.write_pooling(folder, model.config.hidden_size, longest)
    if "onnx" in options.extras:
        difference = onnx_export.export(model, folder)
        logger.info("onnx/model.onnx: largest difference %.1e", difference)
    text = write_card(plan, models, tokenizer, options, figure)
    (folder / "README.md").write_text(text, encoding="utf-8")


def fill_checkpoint(
    folder: Path, models: Mapping[str, PreTrainedModel], tokenizer: PreTrainedTokenizerBase
) -> None:
    """Writes weights, configuration, code and tokenizer into an empty folder."""
    write_models(dict(models), tokenizer, folder)


def check_release(folder: Path, plan: PublishingPlan) -> None:
    """Checks names and contents of all files of a folder.

    Args:
        folder: What is to be sent.
        plan: Where it came from.

    Raises:
        ValueError: A file is not on the list, is a link, or holds a token or a path of this
            machine; the message names it.
    """
    for path, name in secret_scan.list_files(folder):
        if path.is_symlink() or not is_allowed(name):
            raise ValueError(f"nothing was published: {name} is not on the list of what may be")
    private = [place for place in (plan.model_dir, plan.search_dir, folder) if place is not None]
    secret_scan.check_folder(folder, *private)


def is_allowed(name: str) -> bool:
    """Returns whether a file may be in a published folder.

    Args:
        name: Its path within the folder.
    """
    inner = name.removeprefix(f"{HALVES_FOLDER}/")
    figures = [f"figures/{figure}" for figure in FIGURES]
    others = (onnx_export.FILE, order_figure.FILE, *sentence_pooling.FILES, *figures)
    # A pattern does not reach into folders.
    return name in others or (
        "/" not in inner and any(fnmatchcase(inner, pattern) for pattern in ALLOWED)
    )
