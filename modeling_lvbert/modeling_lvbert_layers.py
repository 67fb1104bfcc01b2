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
"""LV-BERT's layers (arXiv 2106.11740): self-attention, feed-forward and dynamic convolution.

Every layer has its own residual connection and a layer norm after it, so layers of any type can
follow each other in any order. `LAYER_TYPES` maps the letters of a layer order to them.
"""

from typing import Any

import torch
from torch import nn
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer

from .configuration_lvbert import LVBertConfig
from .modeling_attention import ScaledDotProductAttention
from .modeling_dynamic_convolution import DynamicConvolution


class LVBertSelfAttention(nn.Module):
    """Multi-head self-attention without position terms (Vaswani et al. 2017, section 3.2)."""

    def __init__(self, config: LVBertConfig) -> None:
        super().__init__()
        self.head_size = config.head_size
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.attention = ScaledDotProductAttention(config, scaling=self.head_size**-0.5)
        self.output = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: Any,
        padding_mask: torch.Tensor | None,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Returns the layer's output, (batch, seq, hidden); see `LVBertLayer.forward`."""
        heads = (*hidden_states.shape[:2], -1, self.head_size)
        context, _ = self.attention(
            self.query(hidden_states).view(heads).transpose(1, 2),
            self.key(hidden_states).view(heads).transpose(1, 2),
            self.value(hidden_states).view(heads).transpose(1, 2),
            attention_mask,
            padding_mask,
            **kwargs,
        )
        return self.output(context)


class LVBertFeedForward(nn.Module):
    """Two dense layers with an activation between them, the same for every token."""

    def __init__(self, config: LVBertConfig) -> None:
        super().__init__()
        self.intermediate = nn.Linear(config.hidden_size, config.intermediate_size)
        self.activation = ACT2FN[config.hidden_act]
        self.output = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: Any,
        padding_mask: torch.Tensor | None,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Returns the layer's output, (batch, seq, hidden); see `LVBertLayer.forward`."""
        return self.output(self.activation(self.intermediate(hidden_states)))


class LVBertDynamicConvolution(DynamicConvolution):
    """The convolution of both families with the signature of a layer."""

    def forward(  # type: ignore[override]
        self,
        hidden_states: torch.Tensor,
        attention_mask: Any,
        padding_mask: torch.Tensor | None,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Returns the layer's output, (batch, seq, hidden); see `LVBertLayer.forward`."""
        return super().forward(hidden_states, padding_mask)


LAYER_TYPES: dict[str, type[nn.Module]] = {
    "d": LVBertDynamicConvolution,
    "f": LVBertFeedForward,
    "s": LVBertSelfAttention,
}


class LVBertLayer(GradientCheckpointingLayer):
    """One letter of the order: `LayerNorm(x + Dropout(sublayer(x)))` (LV-BERT, section 3)."""

    def __init__(self, config: LVBertConfig, letter: str) -> None:
        super().__init__()
        self.sublayer = LAYER_TYPES[letter](config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: Any = None,
        padding_mask: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Returns the layer's output, (batch, seq, hidden).

        Args:
            hidden_states: Output of the layer below, (batch, seq, hidden).
            attention_mask: The mask in the form of the attention implementation, or None.
            padding_mask: 1 for real tokens, (batch, seq), or None where all are.
            kwargs: Further arguments of the attention implementation.
        """
        output = self.sublayer(hidden_states, attention_mask, padding_mask, **kwargs)
        return self.layer_norm(hidden_states + self.dropout(output))
