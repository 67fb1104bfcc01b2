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
"""ELC-BERT (arXiv 2311.02265) and LTG-BERT (arXiv 2303.09859) restated in float64.

The converter compares its result with this. It shares nothing with the package: names are those of
the official PyTorch checkpoints, tensors are (batch, seq, ...), and nothing is optimised.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

State = Mapping[str, Tensor]


@dataclass(frozen=True)
class SourceSettings:
    """What the formulas need besides the tensors; names as in the official configuration files."""

    variant: str
    position_layout: str
    num_hidden_layers: int
    num_attention_heads: int
    position_bucket_size: int
    max_position_embeddings: int
    layer_norm_eps: float


def position_rows(length: int, bucket_size: int, max_position: int) -> Tensor:
    """Returns the row of the relative table for every (query, key), (length, length), int64.

    Distances below half the bucket size have a row each; larger ones share rows on a logarithmic
    scale that ends at `max_position` tokens. The logarithm is float32, as in the original.
    """
    offset = torch.arange(length)[:, None] - torch.arange(length)[None, :]
    middle = bucket_size // 2
    distance = offset.abs().clamp(min=middle, max=max_position - 1).float()
    fraction = torch.log(distance / middle) / math.log((max_position - 1) / middle)
    bucket = torch.ceil(fraction * (middle - 1)).long() + middle
    bucket = torch.where(offset.abs() <= middle, offset, bucket * offset.sign())
    return bucket_size - 1 + bucket


def encode(
    state: State, settings: SourceSettings, input_ids: Tensor, attention_mask: Tensor
) -> Tensor:
    """Returns the encoder's output, (batch, seq, hidden).

    Args:
        state: Official names to float64 tensors.
        settings: Variant, layout and sizes.
        input_ids: (batch, seq).
        attention_mask: 1 for a real token, 0 for padding, (batch, seq).
    """
    eps = settings.layer_norm_eps
    table = F.layer_norm(
        state["embedding.relative_embedding"],
        state["embedding.relative_embedding"].shape[-1:],
        state["embedding.relative_layer_norm.weight"],
        state["embedding.relative_layer_norm.bias"],
        eps,
    )
    rows = position_rows(
        input_ids.shape[1], settings.position_bucket_size, settings.max_position_embeddings
    )
    outputs = [_plain_norm(state["embedding.word_embedding.weight"][input_ids], eps)]
    for index in range(settings.num_hidden_layers):
        layer = f"transformer.layers.{index}"
        if settings.variant == "ltg":
            inputs = outputs[-1]
        else:
            inputs = _mix(state[f"{layer}.prev_layer_weights"], outputs)
        attended = _attention(state, settings, layer, inputs, attention_mask, table, rows)
        if settings.variant == "ltg":
            stream = inputs + attended
            output = stream + _feed_forward(state, layer, stream, eps)
        elif settings.variant == "base":
            output = attended + _feed_forward(state, layer, attended, eps)
        else:
            output = attended + _feed_forward(state, layer, inputs + attended, eps)
        if settings.variant == "normalized":
            output = _plain_norm(output, eps)
        outputs.append(output)
    if settings.variant == "weighted_output":
        return _mix(state["transformer.prev_layer_weights"], outputs)
    return outputs[-1]


def head_logits(state: State, head: str, hidden: Tensor, eps: float) -> Tensor:
    """Returns the logits of `classifier` (mask) or `head` (a fine-tuned task), (..., outputs)."""
    hidden = _linear(state, f"{head}.nonlinearity.1", _plain_norm(hidden, eps))
    return _linear(state, f"{head}.nonlinearity.5", _plain_norm(F.gelu(hidden), eps))


def _plain_norm(inputs: Tensor, eps: float) -> Tensor:
    return F.layer_norm(inputs, inputs.shape[-1:], eps=eps)


def _linear(state: State, name: str, inputs: Tensor) -> Tensor:
    return F.linear(inputs, state[f"{name}.weight"], state[f"{name}.bias"])


def _mix(weights: Tensor, outputs: list[Tensor]) -> Tensor:
    return torch.einsum("n,nbsh->bsh", weights.softmax(0), torch.stack(outputs))


def _feed_forward(state: State, layer: str, inputs: Tensor, eps: float) -> Tensor:
    inner = F.linear(_plain_norm(inputs, eps), state[f"{layer}.mlp.mlp.1.weight"])
    value, gate = inner.chunk(2, -1)
    gated = value * F.gelu(gate, approximate="tanh")
    return F.linear(_plain_norm(gated, eps), state[f"{layer}.mlp.mlp.4.weight"])


def _attention(
    state: State,
    settings: SourceSettings,
    layer: str,
    inputs: Tensor,
    attention_mask: Tensor,
    table: Tensor,
    rows: Tensor,
) -> Tensor:
    heads, eps = settings.num_attention_heads, settings.layer_norm_eps
    batch, seq, hidden = inputs.shape
    head_size = hidden // heads
    inputs = _plain_norm(inputs, eps)
    # (batch, seq, heads, head size)
    query, key = (
        part.view(batch, seq, heads, head_size)
        for part in _linear(state, f"{layer}.attention.in_proj_qk", inputs).chunk(2, -1)
    )
    value = _linear(state, f"{layer}.attention.in_proj_v", inputs)
    value = value.view(batch, seq, heads, head_size)

    positions = _linear(state, f"{layer}.attention.in_proj_qk", table)
    if settings.position_layout == "per_head":
        query_rows, key_rows = positions.view(-1, heads, 2 * head_size).chunk(2, -1)
    else:
        query_rows, key_rows = (part.view(-1, heads, head_size) for part in positions.chunk(2, -1))

    # (batch, heads, query, key)
    scores = torch.einsum("bqhd,bkhd->bhqk", query, key)
    scores = scores + torch.einsum("bqhd,qkhd->bhqk", query, key_rows[rows])
    scores = scores + torch.einsum("bkhd,qkhd->bhqk", key, query_rows[rows])
    scores = scores / math.sqrt(3 * head_size)
    keep = attention_mask.bool()[:, None, None, :]
    # A row without any real token has no finite score: its attention is zero, not NaN.
    probabilities = scores.masked_fill(~keep, -torch.inf).softmax(-1).masked_fill(~keep, 0.0)

    context = torch.einsum("bhqk,bkhd->bqhd", probabilities, value).flatten(2)
    output = _linear(state, f"{layer}.attention.out_proj", context)
    norm = f"{layer}.attention.post_layer_norm"
    return F.layer_norm(
        output, output.shape[-1:], state[f"{norm}.weight"], state[f"{norm}.bias"], eps
    )
