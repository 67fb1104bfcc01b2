"""Recorded runs of the originals, and converters called as from their command lines."""

import json
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from conversion import command_line

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"


class Golden:
    """One folder of recorded inputs and outputs; `run` names the model file of two-file sets."""

    def __init__(self, name: str, run: str = ""):
        self.folder = FIXTURES / "goldens" / name
        self.run = run
        self.config = json.loads((self.folder / "config.json").read_text())

    def arrays(self, stem: str) -> dict[str, torch.Tensor]:
        npz = self.folder / f"{stem}.npz"
        if npz.exists():
            with np.load(npz) as arrays:
                return {name: torch.from_numpy(arrays[name]) for name in arrays.files}
        # Both model files of such a set run the same weights.
        run = "" if stem == "model" else self.run
        return load_file(self.folder / f"{stem}{run}.safetensors")

    @property
    def layer_order(self) -> str:
        return "".join("dsf"[number] for number in self.config["layer_order"])


@pytest.fixture
def golden():
    return Golden


@pytest.fixture
def tensorflow_checkpoints() -> Path:
    return FIXTURES / "conversion"


@pytest.fixture
def official_file(tmp_path):
    """Writes a training checkpoint as the official scripts do, position tables included."""

    def write(golden: Golden, **changes: torch.Tensor | None) -> Path:
        model = {name: tensor.float() for name, tensor in golden.arrays("model").items()}
        model["classifier.nonlinearity.5.weight"] = model["embedding.word_embedding.weight"]
        rows = golden.arrays("outputs")["position_index_by_offset"].long()
        length = golden.config["max_position_embeddings"]
        offsets = torch.arange(length)[:, None] - torch.arange(length)[None, :]
        for layer in range(golden.config["num_hidden_layers"]):
            name = f"transformer.layers.{layer}.attention.position_indices"
            model[name] = rows[offsets + length - 1]
        model.update(changes)
        path = tmp_path / "model.bin"
        content = {
            "model": {name: tensor for name, tensor in model.items() if tensor is not None},
            "optimizer": {"state": {0: {"exp_avg": torch.zeros(3)}}, "param_groups": []},
            "scheduler": {"_last_lr": [np.float64(0.002)], "seen": np.arange(3)},
            "global_step": 14062,
            "args": Namespace(learning_rate=0.002, checkpoint_path=None),
        }
        torch.save(content, path)
        return path

    return write


@pytest.fixture
def convert(monkeypatch, capsys):
    """Runs a converter on flags and returns exit code, output and errors."""

    def call(converter, **flags) -> tuple[int, str, str]:
        argv = [f"--{name}={value}" for name, value in flags.items()]
        monkeypatch.setattr(sys, "argv", ["converter", *argv])
        code = command_line.run(converter.main)
        return code, *capsys.readouterr()

    return call
