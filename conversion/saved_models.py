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
"""Opens the models of a run, and writes each as a folder that opens under every Auto class."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

import modeling_lvbert
from modeling_lvbert.pretraining.electra import ElectraForPreTraining

from .hub_folder import check_tokenizer
from .publishing_plan import HALVES_FOLDER, read_json

_FAMILIES = {"lvbert": "LVBert", "elcbert": "ELCBert"}
_ELECTRA = "lvbert_electra"
# What transformers notes about where a tokenizer was opened: nobody else's business.
_OWN_PLACES = (
    "_name_or_path",
    "name_or_path",
    "is_local",
    "local_files_only",
    "tokenizer_file",
    "vocab_file",
)


def open_models(folder: Path) -> dict[str, PreTrainedModel]:
    """Returns the models in a folder by their place in the published one, "" for its root.

    A folder of ELECTRA holds the discriminator in its root and the generator in `generator`; a
    checkpoint of ELECTRA holds both in one file.

    Args:
        folder: Folder of a saved model.

    Raises:
        ValueError: It is none of these families, or its weights are not complete.
    """
    model_type = read_json(folder / "config.json").get("model_type")
    if model_type == _ELECTRA:
        both = _load(ElectraForPreTraining, folder)
        return {"": _stand_alone(both.discriminator), HALVES_FOLDER: _stand_alone(both.generator)}
    models = {"": _load(_find_class(folder), folder)}
    half = folder / HALVES_FOLDER
    if (half / "config.json").is_file():
        models[HALVES_FOLDER] = _load(_find_class(half), half)
    return models


def _find_class(folder: Path) -> type[PreTrainedModel]:
    config = read_json(folder / "config.json")
    family = _FAMILIES.get(str(config.get("model_type")))
    if family is None:
        raise ValueError(
            f"{str(folder)!r} holds a model of the type {config.get('model_type')!r}; known: "
            f"{', '.join(_FAMILIES)}"
        )
    name = str((config.get("architectures") or [f"{family}Model"])[0])
    if name not in modeling_lvbert.__all__ or not name.startswith(family):
        raise ValueError(
            f"{str(folder)!r} holds a {name!r}, which is no model of {family}: a supernet is not "
            "published, the search's best order is"
        )
    model_class: type[PreTrainedModel] = getattr(modeling_lvbert, name)
    return model_class


def _load(model_class: type[PreTrainedModel], folder: Path) -> Any:
    loaded: Any = model_class.from_pretrained(
        folder,
        output_loading_info=True,
        local_files_only=True,
        use_safetensors=True,
        dtype="auto",
    )
    model, loading = loaded
    faults = {kind: sorted(map(str, names)) for kind, names in loading.items() if names}
    if faults:
        raise ValueError(f"{str(folder)!r} does not load completely: {faults}")
    wrong = [name for name, value in model.state_dict().items() if not value.isfinite().all()]
    if wrong:
        raise ValueError(f"{str(folder)!r}: not all numbers are finite in {', '.join(wrong[:5])}")
    return model.eval()


def _stand_alone(half: PreTrainedModel) -> PreTrainedModel:
    """Returns a half of ELECTRA that shares no weights with the other, and ties its own."""
    model: Any = type(half)(half.config)
    model.to(half.dtype).load_state_dict(half.state_dict())
    stand_alone: PreTrainedModel = model.eval()
    return stand_alone


def open_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Returns the tokenizer in a folder; runs no code from there."""
    return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def write_models(
    models: dict[str, PreTrainedModel], tokenizer: PreTrainedTokenizerBase, folder: Path
) -> None:
    """Writes weights, configuration, code and tokenizer of every model.

    Args:
        models: Result of `open_models`.
        tokenizer: Of all of them.
        folder: Where to.

    Raises:
        ValueError: The tokenizer does not fit a model.
    """
    for place, model in models.items():
        target = folder / place
        # Whatever was opened, the code beside it is this package's and needs no other repository.
        model.config.auto_map = dict(model.config.auto_classes)
        model.save_pretrained(target)
        tokenizer.save_pretrained(target)
        _clean(target)
        for weights in target.glob("model*.safetensors"):
            # safetensors makes its files readable for their owner only.
            shutil.copymode(target / "config.json", weights)
        check_tokenizer(target, model)


def _clean(folder: Path) -> None:
    """Takes off what says where model and tokenizer were opened."""
    for name in ("config.json", "tokenizer_config.json"):
        path = folder / name
        content = json.loads(path.read_text(encoding="utf-8"))
        kept = {key: value for key, value in content.items() if key not in _OWN_PLACES}
        text = json.dumps(kept, indent=2, ensure_ascii=False)
        path.write_text(f"{text}\n", encoding="utf-8")


@torch.no_grad()
def compute_outputs(model: PreTrainedModel, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """Returns a model's outputs in float32, for multiple choice with one choice a row.

    Args:
        model: The model, which is turned to float32.
        inputs: Token ids and masks, (batch, seq).
    """
    if type(model).__name__.endswith("ForMultipleChoice"):
        inputs = {name: value[:, None] for name, value in inputs.items()}
    return list(model.float().eval()(**inputs).to_tuple())
