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
"""Names and layouts of LV-BERT's TensorFlow variables and of our parameters, as a table."""

import re
from collections.abc import Iterable

from torch import Tensor

from conversion import formulas_lvbert

SCOPES = {"discriminator": "electra", "generator": "generator"}
MODULES = {
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
SEPARABLE_CONVOLUTION_SCOPE = "dynamic_convolution_layer/convolution/conv_attn_key"
SEPARABLE_CONVOLUTION = {
    "depthwise_kernel": "sublayer.depthwise.weight",
    "pointwise_kernel": "sublayer.pointwise.weight",
    "bias": "sublayer.pointwise.bias",
}
EMBEDDINGS = {
    "electra/embeddings/word_embeddings": "lvbert.embeddings.word_embeddings.weight",
    "electra/embeddings/position_embeddings": "lvbert.embeddings.position_embeddings.weight",
    "electra/embeddings/token_type_embeddings": "lvbert.embeddings.token_type_embeddings.weight",
    "electra/embeddings/LayerNorm/gamma": "lvbert.embeddings.layer_norm.weight",
    "electra/embeddings/LayerNorm/beta": "lvbert.embeddings.layer_norm.bias",
}
DETECTION_HEAD = {
    "discriminator_predictions/dense": "discriminator_predictions.dense",
    "discriminator_predictions/dense_1": "discriminator_predictions.dense_prediction",
}
MASK_HEAD = {
    "generator_predictions/dense": "generator_predictions.dense",
    "generator_predictions/LayerNorm": "generator_predictions.layer_norm",
}
TRAINING_STATE = r"global_step|.+/adam_[mv]"
OTHER_PART = {
    "discriminator": r"(generator|generator_predictions)/.+",
    # The generator has its embeddings in the discriminator's scope.
    "generator": r"electra/(?!embeddings/).+|discriminator_predictions/.+",
}
TASK = re.compile(r"task_specific/([^/]+)/dense/kernel")


def rename_table(
    names: Iterable[str], part: str, layer_order: str, has_projection: bool, task: str | None
) -> dict[str, str | None]:
    """Returns TensorFlow names to ours, None for what is dropped on purpose.

    Args:
        names: Names in the checkpoint: they say what is dropped.
        part: `discriminator` or `generator`.
        layer_order: Letters.
        has_projection: Whether there is a layer between embeddings and encoder.
        task: Fine-tuned task whose head takes the place of the detection head.
    """
    modules: dict[str, str] = {}
    table: dict[str, str | None] = dict(EMBEDDINGS)
    for index, letter in enumerate(layer_order):
        scope = formulas_lvbert.sublayer_scope(SCOPES[part], index)
        layer = f"lvbert.encoder.layers.{index}"
        modules |= {f"{scope}/{name}": f"{layer}.{ours}" for name, ours in MODULES[letter].items()}
        if letter == "d":
            convolution = f"{scope}/{SEPARABLE_CONVOLUTION_SCOPE}"
            for name, ours in SEPARABLE_CONVOLUTION.items():
                table[f"{convolution}/{name}"] = f"{layer}.{ours}"
    if has_projection:
        modules[f"{SCOPES[part]}/embeddings_project"] = "lvbert.embeddings_project"
    dropped = f"{TRAINING_STATE}|{OTHER_PART[part]}"
    if part == "generator":
        modules |= MASK_HEAD
        table["generator_predictions/output_bias"] = "generator_lm_head.bias"
    elif task:
        modules[f"task_specific/{task}/dense"] = "classifier.output"
        dropped += "|discriminator_predictions/.+"
    else:
        modules |= DETECTION_HEAD
    for name, ours in modules.items():
        weight, bias = ("gamma", "beta") if name.endswith("LayerNorm") else ("kernel", "bias")
        table |= {f"{name}/{weight}": f"{ours}.weight", f"{name}/{bias}": f"{ours}.bias"}
    return table | {name: None for name in names if re.fullmatch(dropped, name)}


def to_pytorch_layout(name: str, variable: Tensor) -> Tensor:
    """Returns a variable as PyTorch stores it; one of an unknown shape stays as it is."""
    if name.endswith("/depthwise_kernel") and variable.ndim == 3:
        # (taps, channels, 1) to (channels, 1, taps); both libraries correlate, no tap is mirrored.
        return variable.permute(1, 2, 0)
    if name.endswith("/pointwise_kernel") and variable.ndim == 3:
        # (1, in, out) to (out, in)
        return variable.squeeze(0).T if variable.shape[0] == 1 else variable
    if name.endswith("/kernel") and variable.ndim == 2:
        return variable.T
    return variable
