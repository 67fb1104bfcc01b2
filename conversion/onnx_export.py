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
"""Exports a model to ONNX with free batch size and length, and compares it in ONNX Runtime."""

import copy
import importlib.util
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from .hub_folder import example_inputs
from .saved_models import compute_outputs

FILE = "onnx/model.onnx"
NEEDED = ("onnx", "onnxruntime", "onnxscript")
# Other than those of the export: rows, longest row in tokens.
_CHECKED_SHAPES = ((3, 11), (1, 5), (2, 17))
_TOLERANCE = 1e-4
_OUTPUTS = {
    "Model": ["last_hidden_state"],
    "ForQuestionAnswering": ["start_logits", "end_logits"],
}


def check_installed() -> None:
    """Checks that the packages for the export are there.

    Raises:
        ImportError: One is not.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(f"onnx: needs {', '.join(NEEDED)}: pip install {' '.join(missing)}")


class _Outputs(nn.Module):
    """A model whose inputs are two tensors and whose outputs are a tuple."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        """Returns the model's outputs; see there."""
        outputs = self.model(input_ids=input_ids, attention_mask=attention_mask)
        return tuple(outputs.to_tuple())


def export(model: PreTrainedModel, folder: Path) -> float:
    """Writes `onnx/model.onnx` into a folder and returns its largest difference to the model.

    Args:
        model: The model.
        folder: The folder.

    Raises:
        ImportError: A package is not installed.
        ValueError: The model cannot be exported, or its export computes something else.
    """
    check_installed()
    name = type(model).__name__
    if name.endswith("ForMultipleChoice"):
        raise ValueError(f"onnx: a {name} has no inputs of (batch, seq): leave the option out")
    model = copy.deepcopy(model).float().eval()
    names = next((outputs for end, outputs in _OUTPUTS.items() if name.endswith(end)), ["logits"])
    inputs = example_inputs(model.config.vocab_size, model.config.max_position_embeddings)
    path = folder / FILE
    path.parent.mkdir(parents=True)
    dimensions = {0: "batch", 1: "length"}
    with _quiet():
        program: Any = torch.onnx.export(
            _Outputs(model),
            (),
            kwargs=inputs,
            dynamic_shapes=dict.fromkeys(inputs, dimensions),
            output_names=names,
            dynamo=True,
            verbose=False,
        )
        _remove_traces(program.model)
        program.save(str(path), external_data=False)
    return _compare(model, path)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps the exporter's remarks on packages that are not needed from the user."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _remove_traces(model: Any) -> None:
    """Takes off what tells where the model's code lies on this machine: a trace at every node."""
    model.metadata_props.clear()
    for graph in (model.graph, *model.functions.values()):
        graph.metadata_props.clear()
        for node in graph.all_nodes():
            node.metadata_props.clear()
            for value in node.outputs:
                value.metadata_props.clear()


def _compare(model: PreTrainedModel, path: Path) -> float:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    largest = 0.0
    longest = model.config.max_position_embeddings
    for rows, width in _CHECKED_SHAPES:
        inputs = {
            name: value[:rows]
            for name, value in example_inputs(model.config.vocab_size, min(width, longest)).items()
        }
        got = session.run(None, {name: value.numpy() for name, value in inputs.items()})
        for array, expected in zip(got, compute_outputs(model, inputs), strict=True):
            value, wanted = torch.from_numpy(array), expected
            if wanted.shape[:2] == inputs["input_ids"].shape:
                real = inputs["attention_mask"].bool()
                value, wanted = value[real], wanted[real]
            difference = (value - wanted).abs().max().item()
            # Written so that NaN fails too.
            if not difference <= _TOLERANCE * max(1.0, wanted.abs().max().item()):
                raise ValueError(f"onnx: the export differs from the model by {difference:.1e}")
            largest = max(largest, difference)
    return largest
