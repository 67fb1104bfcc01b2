"""Reads the recorded originals in fixtures/goldens and renames their tensors for our models.

The tables are written a second time here, apart from those of conversion/, so that a slip in one
of them shows.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from modeling_lvbert import ELCBertConfig, LVBertConfig

GOLDENS = Path(__file__).parent / "fixtures" / "goldens"
LETTERS = "dsf"

LVBERT_SUBLAYERS = {
    "d": {
        "dynamic_convolution_layer/convolution/glu_l": "sublayer.glu_value",
        "dynamic_convolution_layer/convolution/glu_g": "sublayer.glu_gate",
        "dynamic_convolution_layer/convolution/conv_attn_kernel": "sublayer.kernel",
        "dynamic_convolution_layer/output/dense": "sublayer.output",
        "dynamic_convolution_layer/output/LayerNorm": "layer_norm",
    },
    "s": {
        "attention/self/query": "sublayer.query",
        "attention/self/key": "sublayer.key",
        "attention/self/value": "sublayer.value",
        "attention/output/dense": "sublayer.output",
        "attention/output/LayerNorm": "layer_norm",
    },
    "f": {
        "intermediate/dense": "sublayer.intermediate",
        "output/dense": "sublayer.output",
        "output/LayerNorm": "layer_norm",
    },
}


def read_arrays(path: Path) -> dict[str, torch.Tensor]:
    """Returns all arrays of an npz or safetensors file as tensors."""
    if path.suffix == ".safetensors":
        return load_file(path)
    with np.load(path) as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}


def read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def _take_dense(variables: dict, source: str, target: str, state: dict) -> None:
    if f"{source}/kernel" in variables:
        state[f"{target}.weight"] = variables.pop(f"{source}/kernel").T
        state[f"{target}.bias"] = variables.pop(f"{source}/bias")
    else:
        state[f"{target}.weight"] = variables.pop(f"{source}/gamma")
        state[f"{target}.bias"] = variables.pop(f"{source}/beta")


def lvbert_state(variables: dict[str, torch.Tensor], order: str, part: str) -> dict:
    """Returns the state of `LVBertForPreTraining` or `LVBertForMaskedLM` from TensorFlow names."""
    variables = dict(variables)
    scope = {"discriminator": "electra", "generator": "generator"}[part]
    state: dict[str, torch.Tensor] = {}
    for name in ("word_embeddings", "position_embeddings", "token_type_embeddings"):
        state[f"lvbert.embeddings.{name}.weight"] = variables.pop(f"electra/embeddings/{name}")
    _take_dense(variables, "electra/embeddings/LayerNorm", "lvbert.embeddings.layer_norm", state)
    _take_dense(variables, f"{scope}/embeddings_project", "lvbert.embeddings_project", state)
    for index, letter in enumerate(order):
        slot = ("first", "second")[index % 2]
        source = f"{scope}/encoder/layer_{index // 2}/{slot}_submodule"
        target = f"lvbert.encoder.layers.{index}"
        for their_name, our_name in LVBERT_SUBLAYERS[letter].items():
            _take_dense(variables, f"{source}/{their_name}", f"{target}.{our_name}", state)
        if letter == "d":
            source = f"{source}/dynamic_convolution_layer/convolution/conv_attn_key"
            target = f"{target}.sublayer"
            depthwise = variables.pop(f"{source}/depthwise_kernel")
            state[f"{target}.depthwise.weight"] = depthwise.permute(1, 2, 0)
            state[f"{target}.pointwise.weight"] = variables.pop(f"{source}/pointwise_kernel")[0].T
            state[f"{target}.pointwise.bias"] = variables.pop(f"{source}/bias")
    if part == "discriminator":
        head = "discriminator_predictions"
        _take_dense(variables, f"{head}/dense", f"{head}.dense", state)
        _take_dense(variables, f"{head}/dense_1", f"{head}.dense_prediction", state)
    else:
        head = "generator_predictions"
        _take_dense(variables, f"{head}/dense", f"{head}.dense", state)
        _take_dense(variables, f"{head}/LayerNorm", f"{head}.layer_norm", state)
        state["generator_lm_head.bias"] = variables.pop(f"{head}/output_bias")
        state["generator_lm_head.weight"] = state["lvbert.embeddings.word_embeddings.weight"]
    return {name: tensor.contiguous() for name, tensor in state.items()}


def lvbert_config(golden: str, part: str) -> LVBertConfig:
    """Returns the configuration of a recorded LV-BERT's half."""
    recorded = read_json(GOLDENS / golden / "config.json")
    sizes = recorded[f"{part}_config"]
    return LVBertConfig(
        layer_order="".join(LETTERS[code] for code in recorded["layer_order"]),
        embedding_size=recorded["resolved_embedding_size"],
        conv_mask_padding=False,
        **{
            name: sizes[name]
            for name in (
                "vocab_size",
                "hidden_size",
                "num_attention_heads",
                "intermediate_size",
                "max_position_embeddings",
                "type_vocab_size",
            )
        },
    )


ELC_NAMES = {
    "embedding.word_embedding.weight": "elcbert.embeddings.word_embeddings.weight",
    "embedding.relative_embedding": "elcbert.embeddings.relative_embeddings.weight",
    "embedding.relative_layer_norm.": "elcbert.embeddings.relative_layer_norm.",
    "transformer.prev_layer_weights": "elcbert.encoder.output_selection.prev_layer_weights",
    "classifier.nonlinearity.1.": "predictions.dense.",
    "classifier.nonlinearity.5.": "predictions.decoder.",
}
ELC_LAYER_NAMES = {
    "attention.in_proj_qk.": "layers.0.query_key.",
    "attention.in_proj_v.": "layers.0.value.",
    "attention.out_proj.": "layers.0.output.",
    "attention.post_layer_norm.": "layers.0.post_layer_norm.",
    "mlp.mlp.1.": "layers.1.intermediate.",
    "mlp.mlp.4.": "layers.1.output.",
}


def elcbert_name(name: str) -> str:
    """Returns our name of a parameter of the original `sf sf …` models."""
    for theirs, ours in ELC_NAMES.items():
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    index, rest = name.removeprefix("transformer.layers.").split(".", 1)
    if rest == "prev_layer_weights":
        return f"elcbert.encoder.layer_selections.{index}.prev_layer_weights"
    for theirs, ours in ELC_LAYER_NAMES.items():
        if rest.startswith(theirs):
            return f"elcbert.encoder.words.{index}.{ours}{rest.removeprefix(theirs)}"
    raise KeyError(name)


def elcbert_state(golden: str) -> dict[str, torch.Tensor]:
    """Returns the state of `ELCBertForMaskedLM` from the original's names."""
    tensors = load_file(GOLDENS / golden / "model.safetensors")
    state = {elcbert_name(name): tensor.float() for name, tensor in tensors.items()}
    state["predictions.decoder.weight"] = state["elcbert.embeddings.word_embeddings.weight"]
    return state


def elcbert_config(golden: str, variant: str, **fields: Any) -> ELCBertConfig:
    """Returns the configuration of a recorded ELC-BERT or LTG-BERT."""
    recorded = read_json(GOLDENS / golden / "config.json")
    num_layers = recorded.pop("num_hidden_layers")
    return ELCBertConfig(
        layer_order=" ".join(["sf"] * num_layers), variant=variant, **{**recorded, **fields}
    )
