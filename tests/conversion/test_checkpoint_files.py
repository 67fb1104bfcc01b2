import sys
import zipfile
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from conversion import checkpoint_files

needs_tensorflow = pytest.mark.skipif(
    find_spec("tensorflow") is None,
    reason="reading TensorFlow checkpoints needs the extra `convert`",
)


@pytest.fixture
def interleaved(golden):
    return golden("lvbert_interleaved")


@pytest.fixture
def tensors(golden):
    return {name: tensor.float() for name, tensor in golden("elc_zero").arrays("model").items()}


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]


@needs_tensorflow
@pytest.mark.parametrize("damage", [cut, flip, lambda data: b""], ids=["cut", "flipped", "empty"])
@pytest.mark.parametrize("ending", ["index", "data-00000-of-00001"])
def test_a_damaged_tensorflow_checkpoint_is_an_error(
    tensorflow_checkpoints, tmp_path, damage, ending
):
    for path in (tensorflow_checkpoints / "lvbert_interleaved").iterdir():
        content = path.read_bytes()
        changed = damage(content) if path.name.endswith(ending) else content
        (tmp_path / path.name).write_bytes(changed)
    with pytest.raises(ValueError, match="model.ckpt-1 cannot be read"):
        checkpoint_files.read_tensorflow(str(tmp_path / "model.ckpt-1"))


def test_without_tensorflow_the_message_names_the_extra(tensorflow_checkpoints, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ImportError, match=r"pip install 'lvbert\[convert\]'"):
        checkpoint_files.read_tensorflow(
            str(tensorflow_checkpoints / "lvbert_interleaved" / "model.ckpt-1")
        )


@pytest.mark.parametrize("damage", [cut, flip, lambda data: b"", lambda data: b"text"])
def test_a_damaged_npz_is_an_error(interleaved, tmp_path, damage):
    path = tmp_path / "weights.npz"
    path.write_bytes(damage((interleaved.folder / "weights.npz").read_bytes()))
    with pytest.raises(ValueError, match="weights.npz cannot be read"):
        checkpoint_files.read_tensorflow(str(path))


def test_an_absent_checkpoint_names_those_that_are_there(tensorflow_checkpoints):
    with pytest.raises(ValueError, match=r"no checkpoint .*ckpt-2.*'model.ckpt-1'"):
        checkpoint_files.read_tensorflow(
            str(tensorflow_checkpoints / "lvbert_interleaved" / "model.ckpt-2")
        )


def test_harmless_classes_beside_the_tensors_are_read(tensors, tmp_path):
    content = {"model": tensors, "scheduler": [np.float64(1.5), np.float32(1), np.arange(4)]}
    torch.save(content, tmp_path / "model.bin")
    read = checkpoint_files.read_pytorch(tmp_path / "model.bin")
    assert read.keys() == tensors.keys()


def test_numpy_scalars_of_old_files_are_read(tensors, tmp_path):
    torch.save({"model": tensors, "lr": np.float64(1.5)}, tmp_path / "new.bin")
    with (
        zipfile.ZipFile(tmp_path / "new.bin") as new,
        zipfile.ZipFile(tmp_path / "model.bin", "w") as old,
    ):
        for name in new.namelist():
            data = new.read(name)
            if name.endswith("data.pkl"):
                assert b"numpy" in data
                data = data.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
            old.writestr(name, data)
    read = checkpoint_files.read_pytorch(tmp_path / "model.bin")
    assert read.keys() == tensors.keys()


@pytest.mark.parametrize("size", [0, 100, 0.5, -1])
@pytest.mark.parametrize("name", ["model.bin", "model.safetensors"])
def test_a_truncated_file_is_an_error(tensors, tmp_path, name, size):
    path = tmp_path / name
    if name == "model.bin":
        torch.save({"model": tensors}, path)
    else:
        save_file(tensors, path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * size) if isinstance(size, float) else size])
    with pytest.raises(ValueError, match=name):
        checkpoint_files.read_pytorch(path)


@pytest.mark.parametrize("content", [[1, 2], {"model": 3}, {"model": {}}, {"a": 1}, torch.ones(2)])
def test_a_file_without_a_model_is_an_error(tmp_path, content):
    torch.save(content, tmp_path / "model.bin")
    with pytest.raises(ValueError, match="holds no model"):
        checkpoint_files.read_pytorch(tmp_path / "model.bin")
