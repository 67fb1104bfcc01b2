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
"""LV-BERT (arXiv 2106.11740) restated in float64 over the variables of its TensorFlow code.

The converter compares its result with this. It shares nothing with the package: names are those of
the TensorFlow checkpoint, dense kernels are (in, out), and nothing is optimised.
"""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

LAYER_NORM_EPS = 1e-12
SUBMODULES = ("first_submodule", "second_submodule")

Variables = Mapping[str, Tensor]


def sublayer_scope(scope: str, index: int) -> str:
    """Returns where the official code keeps the layer at 0-based `index`: two layers to a block."""
    return f"{scope}/encoder/layer_{index // 2}/{SUBMODULES[index % 2]}"


def encode(
    variables: Variables,
    scope: str,
    layer_order: str,
    num_attention_heads: int,
    input_ids: Tensor,
    attention_mask: Tensor,
    token_type_ids: Tensor,
) -> Tensor:
    """Returns the encoder's last layer, (batch, seq, hidden).

    Args:
        variables: TensorFlow names to float64 tensors.
        scope: `electra` (discriminator) or `generator`; the embeddings are `electra`'s in both.
        layer_order: Letters, first layer first.
        num_attention_heads: Heads of the attention and of the convolution's kernels.
        input_ids: (batch, seq).
        attention_mask: 1 for a real token, 0 for padding, (batch, seq).
        token_type_ids: (batch, seq).
    """
    embeddings = "electra/embeddings"
    hidden = (
        variables[f"{embeddings}/word_embeddings"][input_ids]
        + variables[f"{embeddings}/token_type_embeddings"][token_type_ids]
        + variables[f"{embeddings}/position_embeddings"][: input_ids.shape[1]]
    )
    hidden = _layer_norm(variables, f"{embeddings}/LayerNorm", hidden)
    if f"{scope}/embeddings_project/kernel" in variables:
        hidden = _dense(variables, f"{scope}/embeddings_project", hidden)
    for index, letter in enumerate(layer_order):
        layer = sublayer_scope(scope, index)
        if letter == "s":
            output = _self_attention(variables, layer, num_attention_heads, hidden, attention_mask)
            norm = f"{layer}/attention/output/LayerNorm"
        elif letter == "f":
            output = _dense(variables, f"{layer}/intermediate/dense", hidden)
            output = _dense(variables, f"{layer}/output/dense", F.gelu(output))
            norm = f"{layer}/output/LayerNorm"
        else:
            layer = f"{layer}/dynamic_convolution_layer"
            output = _dynamic_convolution(variables, layer, num_attention_heads, hidden)
            norm = f"{layer}/output/LayerNorm"
        hidden = _layer_norm(variables, norm, hidden + output)
    return hidden


def detection_logits(variables: Variables, hidden: Tensor) -> Tensor:
    """Returns the discriminator's logits (positive: replaced), (batch, seq)."""
    hidden = F.gelu(_dense(variables, "discriminator_predictions/dense", hidden))
    return _dense(variables, "discriminator_predictions/dense_1", hidden).squeeze(-1)


def mask_logits(variables: Variables, hidden: Tensor) -> Tensor:
    """Returns the generator's logits at every token, (batch, seq, vocab)."""
    hidden = F.gelu(_dense(variables, "generator_predictions/dense", hidden))
    hidden = _layer_norm(variables, "generator_predictions/LayerNorm", hidden)
    table = variables["electra/embeddings/word_embeddings"]
    return hidden @ table.T + variables["generator_predictions/output_bias"]


def classification_logits(variables: Variables, task: str, hidden: Tensor) -> Tensor:
    """Returns the logits of a fine-tuned task from the first token, (batch, labels)."""
    return _dense(variables, f"task_specific/{task}/dense", hidden[:, 0])


def _dense(variables: Variables, scope: str, inputs: Tensor) -> Tensor:
    return inputs @ variables[f"{scope}/kernel"] + variables[f"{scope}/bias"]


def _layer_norm(variables: Variables, scope: str, inputs: Tensor) -> Tensor:
    centred = inputs - inputs.mean(-1, keepdim=True)
    scale = (centred.square().mean(-1, keepdim=True) + LAYER_NORM_EPS).rsqrt()
    return centred * scale * variables[f"{scope}/gamma"] + variables[f"{scope}/beta"]


def _split_heads(inputs: Tensor, num_heads: int) -> Tensor:
    batch, seq, hidden = inputs.shape
    # (batch, heads, seq, head size)
    return inputs.view(batch, seq, num_heads, hidden // num_heads).transpose(1, 2)


def _self_attention(
    variables: Variables, layer: str, num_heads: int, hidden: Tensor, attention_mask: Tensor
) -> Tensor:
    query, key, value = (
        _split_heads(_dense(variables, f"{layer}/attention/self/{name}", hidden), num_heads)
        for name in ("query", "key", "value")
    )
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    scores = scores - 10000.0 * (1 - attention_mask[:, None, None, :].to(scores.dtype))
    context = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
    return _dense(variables, f"{layer}/attention/output/dense", context)


def _dynamic_convolution(
    variables: Variables, layer: str, num_heads: int, hidden: Tensor
) -> Tensor:
    convolution = f"{layer}/convolution"
    gate = _dense(variables, f"{convolution}/glu_g", hidden).sigmoid()
    values = _dense(variables, f"{convolution}/glu_l", hidden) * gate

    # (taps, channels, multiplier 1) and (1, in, out); one bias, after the pointwise step.
    depthwise = variables[f"{convolution}/conv_attn_key/depthwise_kernel"].squeeze(-1)
    pointwise = variables[f"{convolution}/conv_attn_key/pointwise_kernel"].squeeze(0)
    windows = _windows(values, depthwise.shape[0])
    keys = (windows * depthwise).sum(2) @ pointwise + variables[f"{convolution}/conv_attn_key/bias"]

    batch, seq, channels = values.shape
    kernels = _dense(variables, f"{convolution}/conv_attn_kernel", keys)
    # (batch, seq, heads, taps)
    kernels = kernels.view(batch, seq, num_heads, depthwise.shape[0]).softmax(-1)
    windows = windows.view(batch, seq, -1, num_heads, channels // num_heads)
    mixed = torch.einsum("blthd,blht->blhd", windows, kernels).flatten(2)
    return _dense(variables, f"{layer}/output/dense", mixed)


def _windows(values: Tensor, taps: int) -> Tensor:
    """Returns each token's neighbourhood, (batch, seq, taps, channels); zeros beyond both ends."""
    seq = values.shape[1]
    padded = F.pad(values, (0, 0, taps // 2, taps // 2))
    return torch.stack([padded[:, tap : tap + seq] for tap in range(taps)], dim=2)
