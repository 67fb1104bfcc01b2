"""Folders are opened in processes that know nothing of the package."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from conversion import reload_check
from tests.families import FAMILIES, HEADS

from .published_runs import make_tokenizer, save_model


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_head_and_both_halves_compute_the_same_elsewhere(family, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_not_for_the_child")
    folders = {}
    for head in HEADS.values():
        folder = tmp_path / head
        folders[folder] = {"": save_model(folder, family, head)}
    if family == "LVBert":
        half = save_model(tmp_path / "ForPreTraining" / "generator", hidden_size=16)
        folders[tmp_path / "ForPreTraining"]["generator"] = half
    result = reload_check.check_reload(folders, make_tokenizer())
    assert result.outputs == 2 * len(HEADS) + (2 if family == "LVBert" else 0)
    assert result.largest_difference <= 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["weights", "missing weights", "code", "order", "tokenizer"])
def test_whatever_is_wrong_with_a_folder_is_noticed(tmp_path, fault):
    model = save_model(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    name = "lvbert.encoder.layers.0.sublayer.output.weight"
    if fault == "weights":
        weights[name][0, 0] += 0.5
    elif fault == "missing weights":
        del weights[name]
    elif fault == "code":
        (tmp_path / "modeling_attention.py").unlink()
    elif fault == "order":
        config = json.loads((tmp_path / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps({**config, "layer_order": "dsfsf"}))
    else:
        tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
        vocabulary = tokenizer["model"]["vocab"]
        vocabulary["cat"], vocabulary["mat"] = vocabulary["mat"], vocabulary["cat"]
        (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    save_file(weights, path, metadata={"format": "pt"})
    messages = {
        "weights": "computes something else than its source",
        "missing weights": "weights are missing",
        "code": "does not open in a fresh process",
        "order": "the configuration has the order 'dsfsf'",
        "tokenizer": "the tokenizer gives other ids",
    }
    with pytest.raises(ValueError, match=messages[fault]):
        reload_check.check_reload({tmp_path: {"": model}}, make_tokenizer())


def test_nan_and_other_shapes_are_no_match():
    value = torch.ones(2, 3)
    with pytest.raises(ValueError, match="computes something else"):
        reload_check._compare({"a": value}, {"a": value * torch.nan})
    with pytest.raises(ValueError, match="have the shape"):
        reload_check._compare({"a": value}, {"a": value[:1]})
    with pytest.raises(ValueError, match="its source"):
        reload_check._compare({"a": value}, {})
