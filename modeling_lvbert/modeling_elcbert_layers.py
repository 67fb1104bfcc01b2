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
"""ELC-BERT's layers on the LTG-BERT backbone (arXiv 2311.02265, arXiv 2303.09859).

Norms lie around the layers as in NormFormer, attention has relative positions in logarithmic
buckets, the feed-forward is gated. A word of layers runs as one residual stream and is one unit of
the layer selection. `LAYER_TYPES` maps the letters of a layer order to the layers.
"""

import math
from typing import Any

import torch
from torch import nn
from transformers.modeling_layers import GradientCheckpointingLayer

from .configuration_elcbert import ELCBertConfig
from .modeling_attention import ScaledDotProductAttention
from .modeling_dynamic_convolution import DynamicConvolution
from .modeling_initialization import DepthScaledLinear


def relative_position_rows(
    length: int, bucket_size: int, max_position: int, device: torch.device | None = None
) -> torch.Tensor:
    """Returns the row of the relative embeddings for every query and key, (length, length).

    Distances up to half the bucket size have a row each; farther ones share rows whose width grows
    with the logarithm of the distance up to `max_position`; beyond it all share the last (DeBERTa,
    arXiv 2006.03654; LTG-BERT, section 3). Nothing is remembered between calls.

    Args:
        length: Tokens in the sequence.
        bucket_size: Size b of the table of 2b - 1 rows.
        max_position: Distance in tokens that the last row begins at.
        device: Where the result lies.
    """
    positions = torch.arange(length, device=device)
    # (length, length), query minus key
    distances = positions[:, None] - positions[None, :]
    nearest = bucket_size // 2
    magnitude = distances.abs().clamp(min=nearest, max=max_position - 1)
    # float32 as in the released code, whose rounding decides at bucket borders
    share = torch.log(magnitude.float() / nearest) / math.log((max_position - 1) / nearest)
    buckets = torch.ceil(share * (nearest - 1)).long() + nearest
    rows = torch.where(distances.abs() <= nearest, distances, buckets * distances.sign())
    return rows + bucket_size - 1


class LayerSelection(nn.Module):
    """Mixes all earlier outputs with learned weights that sum to one (ELC-BERT, section 3)."""

    def __init__(self, num_inputs: int) -> None:
        super().__init__()
        self.prev_layer_weights = nn.Parameter(torch.zeros(num_inputs))

    def weights(self) -> torch.Tensor:
        """Returns the softmax weights, (inputs,), the embedding output's first."""
        dtype = torch.promote_types(self.prev_layer_weights.dtype, torch.float32)
        return nn.functional.softmax(self.prev_layer_weights, dim=0, dtype=dtype)

    def forward(self, states: list[torch.Tensor]) -> torch.Tensor:
        """Returns the weighted sum, (batch, seq, hidden), of that many tensors of its shape."""
        weights = self.weights().to(states[0].dtype)
        mixed = weights[0] * states[0]
        for weight, state in zip(weights[1:], states[1:], strict=True):
            mixed = mixed + weight * state
        return mixed


class OutputSelection(LayerSelection):
    """The selection after the last word that variant `weighted_output` adds."""


class ELCBertSelfAttention(nn.Module):
    """Disentangled self-attention between two layer norms (LTG-BERT, section 3).

    A score sums content to content, content to position and position to content, scaled by
    1 / sqrt(3 · head size); positions pass through the same projection as the content.
    """

    def __init__(self, config: ELCBertConfig) -> None:
        super().__init__()
        self.config = config
        self.head_size = config.head_size
        self.num_heads = config.hidden_size // config.head_size
        self.scaling = (3 * self.head_size) ** -0.5
        self.pre_layer_norm = nn.LayerNorm(
            config.hidden_size, eps=config.layer_norm_eps, elementwise_affine=False
        )
        self.query_key = nn.Linear(config.hidden_size, 2 * config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.attention = ScaledDotProductAttention(config, scaling=self.scaling)
        self.output = nn.Linear(config.hidden_size, config.hidden_size)
        self.post_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(
        self,
        hidden_states: torch.Tensor,
        relative_embeddings: torch.Tensor,
        position_rows: torch.Tensor,
        attention_mask: Any,
        padding_mask: torch.Tensor | None,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Returns the layer's output, (batch, seq, hidden); see `ELCBertWord.forward`."""
        heads = (*hidden_states.shape[:2], self.num_heads, self.head_size)
        hidden_states = self.pre_layer_norm(hidden_states)
        query, key = self.query_key(hidden_states).chunk(2, dim=-1)
        query = query.view(heads).transpose(1, 2)
        key = key.view(heads).transpose(1, 2)
        value = self.value(hidden_states).view(heads).transpose(1, 2)
        position_bias = self._position_bias(query, key, relative_embeddings, position_rows)
        context, _ = self.attention(
            query,
            key,
            value,
            attention_mask,
            padding_mask,
            position_bias=position_bias,
            **kwargs,
        )
        return self.dropout(self.post_layer_norm(self.output(context)))

    def _position_bias(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        relative_embeddings: torch.Tensor,
        position_rows: torch.Tensor,
    ) -> torch.Tensor:
        """Returns both position terms of the scores, scaled, (batch, heads, seq, seq)."""
        positions = self.query_key(self.dropout(relative_embeddings))
        # (rows, heads, head size) each
        # CODEPATH: per_head is LTG-BERT's first training code, halves all other checkpoints.
        if self.config.position_layout == "per_head":
            positions = positions.view(-1, self.num_heads, 2 * self.head_size)
            query_positions, key_positions = positions.chunk(2, dim=-1)
        else:
            positions = positions.view(-1, 2 * self.num_heads, self.head_size)
            query_positions, key_positions = positions.chunk(2, dim=1)
        index = position_rows.expand(*query.shape[:2], -1, -1)
        # (batch, heads, seq, rows), then a row for every pair
        content_to_position = torch.matmul(query, key_positions.permute(1, 2, 0)).gather(3, index)
        position_to_content = torch.matmul(key, query_positions.permute(1, 2, 0)).gather(
            3, index.transpose(2, 3)
        )
        return (content_to_position + position_to_content.transpose(2, 3)) * self.scaling


class ELCBertFeedForward(nn.Module):
    """Gated feed-forward without biases: norm, GEGLU, norm, dense (LTG-BERT, section 3)."""

    def __init__(self, config: ELCBertConfig, word_index: int) -> None:
        super().__init__()
        self.pre_layer_norm = nn.LayerNorm(
            config.hidden_size, eps=config.layer_norm_eps, elementwise_affine=False
        )
        self.intermediate = DepthScaledLinear(
            config.hidden_size, 2 * config.intermediate_size, depth=word_index
        )
        self.inner_layer_norm = nn.LayerNorm(
            config.intermediate_size, eps=config.layer_norm_eps, elementwise_affine=False
        )
        self.output = DepthScaledLinear(
            config.intermediate_size, config.hidden_size, depth=word_index
        )
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        """Returns the layer's output, (batch, seq, hidden); see `ELCBertWord.forward`."""
        value, gate = self.intermediate(self.pre_layer_norm(hidden_states)).chunk(2, dim=-1)
        gated = value * nn.functional.gelu(gate, approximate="tanh")
        return self.dropout(self.output(self.inner_layer_norm(gated)))


class ELCBertDynamicConvolution(nn.Module):
    """The dynamic convolution of both families between the norms of this family's attention."""

    def __init__(self, config: ELCBertConfig) -> None:
        super().__init__()
        self.pre_layer_norm = nn.LayerNorm(
            config.hidden_size, eps=config.layer_norm_eps, elementwise_affine=False
        )
        self.convolution = DynamicConvolution(config)
        self.post_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(
        self, hidden_states: torch.Tensor, padding_mask: torch.Tensor | None, **kwargs: Any
    ) -> torch.Tensor:
        """Returns the layer's output, (batch, seq, hidden); see `ELCBertWord.forward`."""
        convolved = self.convolution(self.pre_layer_norm(hidden_states), padding_mask)
        return self.dropout(self.post_layer_norm(convolved))


def build_layer(config: ELCBertConfig, letter: str, word_index: int) -> nn.Module:
    """Returns a new layer of that letter; the feed-forward's initial values depend on its depth."""
    if letter == "f":
        return ELCBertFeedForward(config, word_index)
    return LAYER_TYPES[letter](config)


LAYER_TYPES: dict[str, type[nn.Module]] = {
    "d": ELCBertDynamicConvolution,
    "f": ELCBertFeedForward,
    "s": ELCBertSelfAttention,
}


class ELCBertWord(GradientCheckpointingLayer):
    """One word of layers as a residual stream: the unit of layer selection.

    With the word's input x and the layers' outputs o_1 … o_k, layer j reads x + o_1 + … + o_{j-1}
    (variant `base`: without x) and the word returns o_1 + … + o_k (variant `ltg`: plus x).
    """

    def __init__(self, config: ELCBertConfig, word: str, word_index: int) -> None:
        super().__init__()
        self.variant = config.variant
        self.layers = nn.ModuleList(build_layer(config, letter, word_index) for letter in word)
        self.layer_norm = None
        # CODEPATH: the checkpoints of variant normalized.
        if config.variant == "normalized":
            self.layer_norm = nn.LayerNorm(
                config.hidden_size, eps=config.layer_norm_eps, elementwise_affine=False
            )

    def forward(
        self,
        hidden_states: torch.Tensor,
        relative_embeddings: torch.Tensor | None,
        position_rows: torch.Tensor | None,
        attention_mask: Any = None,
        padding_mask: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Returns the word's output, (batch, seq, hidden).

        Args:
            hidden_states: The selected input, (batch, seq, hidden).
            relative_embeddings: Normalized relative embeddings, (2 · bucket size - 1, hidden), or
                None in a model without self-attention.
            position_rows: See `relative_position_rows`, (seq, seq).
            attention_mask: The mask in the form of the attention implementation, or None.
            padding_mask: 1 for real tokens, (batch, seq), or None where all are.
            kwargs: Further arguments of the attention implementation.
        """
        context = {
            "relative_embeddings": relative_embeddings,
            "position_rows": position_rows,
            "attention_mask": attention_mask,
            "padding_mask": padding_mask,
            **kwargs,
        }
        output = self.layers[0](hidden_states, **context)
        for layer in self.layers[1:]:
            stream = self.read_stream(hidden_states, output)
            output = output + layer(stream, **context)
        return self.finish(hidden_states, output)

    def read_stream(self, hidden_states: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
        """Returns what the next layer reads, (batch, seq, hidden).

        Args:
            hidden_states: The selected input, (batch, seq, hidden).
            output: Sum of the outputs so far, (batch, seq, hidden).
        """
        return output if self.variant == "base" else hidden_states + output

    def finish(self, hidden_states: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
        """Returns the word's output from the sum of its layers' outputs, (batch, seq, hidden).

        Args:
            hidden_states: The selected input, (batch, seq, hidden).
            output: Sum of the layers' outputs, (batch, seq, hidden).
        """
        if self.variant == "ltg":
            output = hidden_states + output
        if self.layer_norm is not None:
            output = self.layer_norm(output)
        return output
