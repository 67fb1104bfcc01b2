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
"""Opens a folder in a fresh process, offline and without this package, and compares the outputs.

What that process sees is what a stranger has: the folder, transformers and PyTorch.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .hub_folder import example_inputs
from .saved_models import compute_outputs

_TEXT = "The cat sat on the mat, and 17 others did not."
_TOLERANCE = 1e-5
# A process that loads PyTorch on a busy machine, and opens a large model twice.
_TIMEOUT = 1800
_SCRIPT = """
import importlib.util, json, sys
package, tasks, inputs_file, outputs_file, threads = sys.argv[1:]
# An editable install is found by a finder or a path of its own.
sys.meta_path[:] = [finder for finder in sys.meta_path if "__editable__" not in repr(finder)]
sys.path[:] = [path for path in sys.path if path != package]
sys.modules["modeling_lvbert"] = None
import torch, transformers
from safetensors.torch import load_file, save_file
torch.set_num_threads(int(threads))
inputs = load_file(inputs_file)
outputs = {}
for number, task in enumerate(json.loads(tasks)):
    where = {"subfolder": task["subfolder"], "trust_remote_code": True}
    config = transformers.AutoConfig.from_pretrained(task["folder"], **where)
    if config.layer_order != task["layer_order"]:
        sys.exit(f"the configuration has the order {config.layer_order!r}")
    tokenizer = transformers.AutoTokenizer.from_pretrained(task["folder"], **where)
    if tokenizer(task["text"])["input_ids"] != task["input_ids"]:
        sys.exit("the tokenizer gives other ids")
    for auto in task["autos"]:
        model, report = getattr(transformers, auto).from_pretrained(
            task["folder"], output_loading_info=True, dtype=torch.float32, **where
        )
        if report["missing_keys"] or report["mismatched_keys"]:
            sys.exit(f"{auto}: weights are missing: {report}")
        batch = {name.partition(".")[2]: value for name, value in inputs.items()
                 if name.startswith(f"{number}.")}
        if type(model).__name__.endswith("ForMultipleChoice"):
            batch = {name: value[:, None] for name, value in batch.items()}
        with torch.no_grad():
            values = model.eval()(**batch).to_tuple()
        for place, value in enumerate(values):
            outputs[f"{number}.{auto}.{place}"] = value.contiguous()
save_file(outputs, outputs_file)
"""


@dataclass(frozen=True)
class Reloaded:
    """What was compared.

    Attributes:
        largest_difference: Between outputs of the source and of the reloaded folder.
        outputs: How many tensors were compared.
    """

    largest_difference: float
    outputs: int


def check_reload(
    folders: Mapping[Path, Mapping[str, PreTrainedModel]], tokenizer: PreTrainedTokenizerBase
) -> Reloaded:
    """Checks that folders compute elsewhere what their source models compute here.

    Args:
        folders: For each folder the source models, by subfolder.
        tokenizer: Of all of them.

    Raises:
        ValueError: A folder does not open, or computes something else.
    """
    tasks: list[dict[str, object]] = []
    inputs: dict[str, Tensor] = {}
    expected: dict[str, Tensor] = {}
    for folder, models in folders.items():
        for subfolder, model in models.items():
            number = len(tasks)
            batch = example_inputs(model.config.vocab_size, model.config.max_position_embeddings)
            inputs |= {f"{number}.{name}": value for name, value in batch.items()}
            outputs = _compute(model, batch)
            expected |= {f"{number}.{name}": value for name, value in outputs.items()}
            tasks.append(
                {
                    "folder": str(folder.absolute()),
                    "subfolder": subfolder,
                    "layer_order": model.config.layer_order,
                    "autos": sorted({name.partition(".")[0] for name in outputs}),
                    "text": _TEXT,
                    "input_ids": tokenizer(_TEXT)["input_ids"],
                }
            )
    with tempfile.TemporaryDirectory() as scratch:
        got = _open_elsewhere(tasks, inputs, Path(scratch))
    return _compare(expected, got)


def _compute(model: PreTrainedModel, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns outputs under every Auto class that the weights are complete for."""
    autos: dict[str, Any] = {"AutoModel": model.base_model}
    name = type(model).__name__
    for auto, entry in model.config.auto_map.items():
        if entry.rpartition(".")[2] == name:
            autos[auto] = model
    return {
        f"{auto}.{place}": value
        for auto, part in autos.items()
        for place, value in enumerate(compute_outputs(part, batch))
    }


def _open_elsewhere(
    tasks: list[dict[str, object]], inputs: dict[str, Tensor], scratch: Path
) -> dict[str, Tensor]:
    save_file(inputs, scratch / "inputs.safetensors")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HF_", "HUGGING", "PYTHON", "TRANSFORMERS_"))
    }
    # The token too stays here.
    environment = {
        **kept,
        "HF_HOME": str(scratch),
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "TRANSFORMERS_VERBOSITY": "error",
    }
    arguments = [
        str(Path(__file__).resolve().parent.parent),
        json.dumps(tasks),
        str(scratch / "inputs.safetensors"),
        str(scratch / "outputs.safetensors"),
        str(torch.get_num_threads()),
    ]
    result = subprocess.run(
        [sys.executable, "-I", "-W", "ignore", "-c", _SCRIPT, *arguments],
        cwd=scratch,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )
    if result.returncode:
        told = result.stderr.strip().splitlines() or [f"exit code {result.returncode}"]
        raise ValueError(f"the folder does not open in a fresh process: {told[-1]}")
    return load_file(scratch / "outputs.safetensors")


def _compare(expected: dict[str, Tensor], got: dict[str, Tensor]) -> Reloaded:
    if expected.keys() != got.keys():
        raise ValueError(f"the folder gives {sorted(got)}, its source {sorted(expected)}")
    largest = 0.0
    for name, value in expected.items():
        if got[name].shape != value.shape:
            raise ValueError(
                f"the folder's outputs have the shape {tuple(got[name].shape)}, the source's "
                f"{tuple(value.shape)}"
            )
        difference = (got[name] - value).abs().max().item()
        allowed = _TOLERANCE * max(1.0, value.abs().max().item())
        # Written so that NaN fails too.
        if not difference <= allowed:
            raise ValueError(
                f"the folder computes something else than its source: {name} differs by "
                f"{difference:.1e}, allowed {allowed:.1e}"
            )
        largest = max(largest, difference)
    return Reloaded(largest, len(expected))
