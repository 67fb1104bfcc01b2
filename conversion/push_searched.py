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
r"""Publishes a searched, trained, fine-tuned or converted model on the Hub, or in a folder.

    python -m conversion.push_searched --search_dir runs/search --repo_id USER/NAME

takes the best order of a search with the supernet's weights; `--model_dir` names other weights of
that order, trained after the search. Any other folder of a saved model can be given as
`--search_dir` too. The folder is written anew with its code and a card, opened in a fresh process
without this package, and sent only if it computes the same there. `--dry_run OUT` sends nothing.
"""

import logging
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import command_line
from .publishing_plan import PublishingPlan, make_plan, warn_of_what_stays

# PyTorch and transformers are loaded once the command line is understood.
if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from .upload import Destination

# As a program this module has another name.
logger = logging.getLogger("conversion.push_searched")


@dataclass
class Arguments:
    """What to publish, and where."""

    search_dir: str = field(
        metadata={"help": "Folder of a search, or of a trained, fine-tuned or converted model."}
    )
    repo_id: str = field(metadata={"help": "USER/NAME or ORGANISATION/NAME on the Hub."})
    model_dir: str | None = field(
        default=None,
        metadata={"help": "Weights of the search's best order, trained after it; else best/."},
    )
    dry_run: str | None = field(
        default=None, metadata={"help": "Write this new or empty folder, and send nothing."}
    )
    private: bool = field(default=False, metadata={"help": "Nobody else may see the repository."})
    revision: str | None = field(
        default=None, metadata={"help": "Branch; made where it is missing. Absent: main."}
    )
    tag: str | None = field(default=None, metadata={"help": "Name for the commit."})
    commit_message: str | None = field(default=None, metadata={"help": "Absent: the order."})
    create_pr: bool = field(
        default=False, metadata={"help": "Open a pull request instead of pushing."}
    )
    checkpoints: bool = field(
        default=False,
        metadata={"help": "Also push each checkpoint-N, weights only, as the branch step-N."},
    )
    onnx: bool = field(
        default=False,
        metadata={"help": "Add onnx/model.onnx; needs onnx, onnxruntime, onnxscript."},
    )
    sentence_transformers: bool = field(
        default=False, metadata={"help": "Add what sentence-transformers needs: mean pooling."}
    )
    license: str | None = field(
        default=None,
        metadata={"help": "Licence of the weights, as the Hub names it; else apache-2.0."},
    )
    language: str | None = field(
        default=None, metadata={"help": "Code of the texts' language, as in en."}
    )


def main(argv: Sequence[str]) -> None:
    """Publishes what the command line asks for.

    Raises:
        ValueError: Something cannot be published; nothing was sent.
    """
    arguments = command_line.parse_arguments(
        Arguments, "conversion.push_searched", str(__doc__), argv
    )
    try:
        _publish(arguments)
    except KeyboardInterrupt:
        raise ValueError(
            "interrupted: the same command goes on with what is not there yet"
        ) from None


def _publish(arguments: Arguments) -> None:
    _check_names(arguments)
    model_dir = None if arguments.model_dir is None else Path(arguments.model_dir)
    plan = make_plan(Path(arguments.search_dir), model_dir, arguments.checkpoints)
    warn_of_what_stays(plan)
    from . import upload

    destination = _make_destination(arguments, plan)
    if arguments.onnx:
        from . import onnx_export

        onnx_export.check_installed()
    if arguments.dry_run is not None:
        from . import hub_folder

        with hub_folder.new_folder(Path(arguments.dry_run)) as folder:
            _write_checked(folder, {}, plan, arguments)
        logger.info("written, and nothing was sent: %s", arguments.dry_run)
        return
    api = upload.HfApi()
    upload.check_access(destination, api)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "model")
        folder.mkdir()
        steps = {step: Path(scratch, f"step-{step}") for step in plan.checkpoints}
        _write_checked(folder, steps, plan, arguments)
        told = upload.push(folder, destination, api)
        for step, place in steps.items():
            upload.push_checkpoint(place, step, told, destination, api)
    logger.info("published: %s", told if arguments.create_pr else arguments.repo_id)


def _check_names(arguments: Arguments) -> None:
    for name in ("license", "language"):
        value = getattr(arguments, name)
        allowed = set("abcdefghijklmnopqrstuvwxyz0123456789.-+")
        if value is not None and (not value or set(value.lower()) - allowed):
            raise ValueError(f"{name} {value!r}: an identifier as the Hub has it is needed")
    if arguments.create_pr and arguments.checkpoints:
        raise ValueError("create_pr with checkpoints: a pull request has no branches of its own")


def _make_destination(arguments: Arguments, plan: PublishingPlan) -> "Destination":
    from .publishing_plan import read_json
    from .upload import Destination

    order = read_json(plan.model_dir / "config.json").get("layer_order")
    return Destination(
        repo_id=arguments.repo_id,
        revision=arguments.revision,
        private=arguments.private,
        create_pr=arguments.create_pr,
        tag=arguments.tag,
        commit_message=arguments.commit_message or f"Publish the layer order {order}",
    )


def _write_checked(
    folder: Path, steps: Mapping[int, Path], plan: PublishingPlan, arguments: Arguments
) -> None:
    """Writes the folder and those of the checkpoints, and opens them all elsewhere.

    Args:
        folder: An empty folder.
        steps: Where each checkpoint goes, by optimizer step.
        plan: What is published.
        arguments: The command line.

    Raises:
        ValueError: Something must not be published, or does not compute what its source does.
    """
    from .release_folder import check_release, fill_checkpoint, fill_release
    from .reload_check import check_reload
    from .saved_models import open_models, open_tokenizer
    from .searched_model_card import CardOptions

    options = CardOptions(
        repo_id=arguments.repo_id,
        revision=arguments.tag or arguments.revision or "main",
        license=arguments.license,
        language=arguments.language,
        extras=[name for name in ("onnx", "sentence_transformers") if getattr(arguments, name)],
    )
    models = open_models(plan.model_dir)
    tokenizer: PreTrainedTokenizerBase = open_tokenizer(plan.model_dir)
    fill_release(folder, plan, models, tokenizer, options)
    check_release(folder, plan)
    written: dict[Path, Any] = {folder: models}
    for step, place in steps.items():
        written[place] = open_models(plan.checkpoints[step])
        fill_checkpoint(place, written[place], tokenizer)
        check_release(place, plan)
    reloaded = check_reload(written, tokenizer)
    logger.info(
        "opened in a fresh process, offline: %s outputs, largest difference %.1e",
        reloaded.outputs,
        reloaded.largest_difference,
    )


if __name__ == "__main__":
    sys.exit(command_line.run(main))
