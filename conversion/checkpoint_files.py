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
"""Reads the originals' checkpoint files: TensorFlow's, safetensors and PyTorch's pickles.

Nothing in a file is executed: a pickle that asks for more than tensors and plain values is refused.
"""

import argparse
import os
import pickle
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

# What `DistributedDataParallel` and `torch.compile` put into names.
WRAPPERS = {"module", "_orig_mod"}
READABLE_TYPES = {
    *(torch.float64, torch.float32, torch.bfloat16, torch.float16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
}


def read_tensorflow(checkpoint: str) -> dict[str, Tensor]:
    """Returns all variables of a TensorFlow checkpoint, or of an .npz with the same names.

    Raises:
        ValueError: There is no such checkpoint, or it is damaged.
        ImportError: TensorFlow is not installed.
    """
    if checkpoint.endswith(".npz"):
        return _read_npz(Path(checkpoint))
    if not Path(f"{checkpoint}.index").is_file():
        folder = Path(checkpoint).parent
        found = sorted(path.name.removesuffix(".index") for path in folder.glob("*.index"))
        raise ValueError(
            f"no checkpoint {checkpoint}: there is no {checkpoint}.index; "
            f"checkpoints in {folder}: {found}"
        )
    return _read_tensorflow(checkpoint)


def _read_npz(path: Path) -> dict[str, Tensor]:
    with path.open("rb") as file:
        try:
            with np.load(file) as arrays:
                return {name: torch.from_numpy(arrays[name]) for name in arrays.files}
        # numpy reports damage as errors of many classes, those of zlib and zipfile among them.
        except Exception as error:
            raise ValueError(f"{path} cannot be read: {error}") from error


def _read_tensorflow(checkpoint: str) -> dict[str, Tensor]:
    # TensorFlow's notices about the processor would bury the result; nothing is computed with it.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    try:
        import tensorflow
    except ImportError as error:
        raise ImportError(
            "reading a TensorFlow checkpoint needs TensorFlow, which is not installed: "
            "pip install 'lvbert[convert]'"
        ) from error
    try:
        reader = tensorflow.train.load_checkpoint(checkpoint)
        names = sorted(reader.get_variable_to_shape_map())
        return {name: torch.from_numpy(np.asarray(reader.get_tensor(name))) for name in names}
    # TensorFlow reports damage as errors of many classes, IndexError among them.
    except Exception as error:
        raise ValueError(f"{checkpoint} cannot be read: {error}") from error


def read_pytorch(path: Path) -> dict[str, Tensor]:
    """Returns the model's tensors from a safetensors file or a training checkpoint.

    A pickle is read by torch's restricted reader: it may hold tensors, plain values and the
    harmless classes of `_allowed_globals`; one that names anything else is refused unread.

    Raises:
        ValueError: The file is damaged, of another form, or would run code.
    """
    if path.suffix == ".safetensors":
        try:
            return _strip_wrappers(load_file(path))
        except SafetensorError as error:
            raise ValueError(f"{path} cannot be read: {error}") from error
    if not path.is_file():
        raise ValueError(f"no checkpoint file {path}")
    _check_archive(path)
    try:
        with torch.serialization.safe_globals(_allowed_globals()):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(_describe_refusal(path, str(error))) from error
    # torch reports damage as errors of many classes, AssertionError and KeyError among them.
    except Exception as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    return _strip_wrappers(_find_model(path, content))


def _find_model(path: Path, content: Any) -> Mapping[str, Tensor]:
    model = content.get("model", content) if isinstance(content, Mapping) else content
    if not isinstance(model, Mapping):
        raise ValueError(
            f"{path} holds no model: expected named tensors, got {type(model).__name__}"
        )
    others = sorted(
        str(name)
        for name, value in model.items()
        if not isinstance(value, Tensor) or not isinstance(name, str)
    )
    if others or not model:
        raise ValueError(f"{path} holds no model: not named tensors: {others}")
    odd = sorted(
        f"{name} ({value.layout}, {value.dtype}, {value.device})"
        for name, value in model.items()
        if value.layout != torch.strided or value.is_meta or value.dtype not in READABLE_TYPES
    )
    if odd:
        raise ValueError(f"{path} holds tensors that are no plain numbers: {odd}")
    return model


def _check_archive(path: Path) -> None:
    """Checks the sums that a checkpoint's archive holds of its parts; torch does not.

    Raises:
        ValueError: A part has changed since it was written.
    """
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except (zipfile.BadZipFile, NotImplementedError, OSError, RuntimeError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if damaged is not None:
        raise ValueError(f"{path} is damaged: its part {damaged} does not have the sum it had")


def _allowed_globals() -> list[Any]:
    """Classes that training scripts save beside tensors and that run nothing when they are read."""
    reconstruct: Any = np.zeros(1).__reduce__()[0]
    scalar: Any = np.float64(0).__reduce__()[0]
    dtypes = {type(np.dtype(kind)) for kind in "?bBhHiIlLqQefdgSU"}
    # Files written with numpy 1 name the same functions in `numpy.core`.
    old_names = [
        (function, f"numpy.core.multiarray.{function.__name__}")
        for function in (reconstruct, scalar)
    ]
    numpy_classes = [np.ndarray, np.dtype, *dtypes, reconstruct, scalar, *old_names]
    return [argparse.Namespace, *numpy_classes]


def _describe_refusal(path: Path, message: str) -> str:
    named = re.search(r"GLOBAL ([\w.]+)", message)
    if named:
        return (
            f"{path} was not read: its pickle calls {named[1]}, which is not among the harmless "
            "classes that a checkpoint may hold. Nothing in it was executed"
        )
    return f"{path} is no checkpoint that can be read safely: {message.splitlines()[0]}"


def _strip_wrappers(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    stripped: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        plain = ".".join(part for part in name.split(".") if part not in WRAPPERS)
        if plain in stripped:
            raise ValueError(
                f"the checkpoint has {plain} more than once, with and without a wrapper"
            )
        stripped[plain] = tensor
    return stripped
