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
"""Scaled dot-product attention through transformers' attention interface, for both families.

Padding is never attended to, and a query that may look at nothing gets zeros: with every
implementation, in every precision. The layers add their own projections and position terms.
"""

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


def eager_attention_forward(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float = 1.0,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the context, (batch, seq, heads, head size), and the probabilities before dropout.

    Args:
        module: The calling module, for its training mode.
        query: (batch, heads, seq, head size).
        key: The same shape.
        value: The same shape.
        attention_mask: True to keep, or added to the scores with the dtype's minimum to drop;
            (batch, 1 or heads, seq, seq).
        dropout: Probability of dropping an attention probability.
        scaling: Factor of the products of query and key.
        kwargs: What other implementations take.
    """
    scores = torch.matmul(query, key.transpose(-1, -2)) * scaling
    # Half precision would overflow where a mask's minimum is added to a negative score.
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    dropped = None
    if attention_mask is not None:
        if attention_mask.dtype == torch.bool:
            dropped = ~attention_mask
        else:
            dropped = attention_mask <= torch.finfo(attention_mask.dtype).min
            scores = scores + attention_mask.masked_fill(dropped, 0.0)
        scores = scores.masked_fill(dropped, torch.finfo(scores.dtype).min)
    probabilities = nn.functional.softmax(scores, dim=-1)
    if dropped is not None:
        probabilities = probabilities.masked_fill(dropped, 0.0)
    probabilities = probabilities.to(query.dtype)
    context = torch.matmul(
        nn.functional.dropout(probabilities, p=dropout, training=module.training), value
    )
    return context.transpose(1, 2), probabilities


def join_masks(position_bias: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
    """Returns the bias with the dtype's minimum wherever the mask drops a key.

    Args:
        position_bias: (batch, heads, seq, seq).
        attention_mask: True to keep, or additive; (batch, 1 or heads, seq, seq), or None.
    """
    if attention_mask is None:
        return position_bias
    minimum = torch.finfo(position_bias.dtype).min
    if attention_mask.dtype == torch.bool:
        return position_bias.masked_fill(~attention_mask, minimum)
    # The sum of two large negative numbers would overflow.
    dropped = attention_mask <= torch.finfo(attention_mask.dtype).min
    return (position_bias + attention_mask.masked_fill(dropped, 0.0)).masked_fill(dropped, minimum)


def visible_keys(attention_mask: torch.Tensor) -> torch.Tensor:
    """Returns which tokens are real, (batch, seq), from a mask of two or four dimensions.

    Args:
        attention_mask: 1 or True for real tokens, (batch, seq); or as attention takes it,
            (batch, 1 or heads, seq, seq), boolean or additive.
    """
    if attention_mask.ndim == 2:
        return attention_mask.bool()
    if attention_mask.dtype != torch.bool:
        attention_mask = attention_mask > torch.finfo(attention_mask.dtype).min
    return attention_mask.flatten(1, 2).any(dim=1)


class ScaledDotProductAttention(nn.Module):
    """Dispatches to the implementation that the configuration names; has no parameters.

    Its outputs are what `output_attentions` records: one entry for every self-attention layer.
    """

    def __init__(self, config: PreTrainedConfig, scaling: float) -> None:
        super().__init__()
        self.config = config
        self.scaling = scaling
        self.dropout = config.attention_probs_dropout_prob
        self.is_causal = False

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: Any,
        padding_mask: torch.Tensor | None,
        position_bias: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Returns the context, (batch, seq, hidden), and the probabilities where they are computed.

        Args:
            query: (batch, heads, seq, head size).
            key: The same shape.
            value: The same shape.
            attention_mask: The mask in the implementation's form, or None.
            padding_mask: 1 for real tokens, (batch, seq), or None where all are.
            position_bias: Added to the scaled scores, (batch, heads, seq, seq).
            kwargs: Further arguments of the implementation.

        Raises:
            ValueError: Attention probabilities are asked of flex attention.
        """
        implementation = self.config._attn_implementation
        if kwargs.get("output_attentions"):
            if implementation == "flex_attention":
                raise ValueError(
                    "output_attentions needs attn_implementation 'eager' or 'sdpa', got "
                    "'flex_attention', which has no attention probabilities to return"
                )
            implementation = "eager"
        if position_bias is not None:
            if implementation == "flex_attention":
                kwargs["position_bias"] = position_bias
            else:
                attention_mask = join_masks(position_bias, attention_mask)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(implementation, eager_attention_forward)
        context, probabilities = attend(
            self,
            query,
            key,
            value,
            attention_mask,
            dropout=self.dropout if self.training else 0.0,
            scaling=self.scaling,
            **kwargs,
        )
        if torch.compiler.is_exporting():
            # A view would fix the strides of the fused kernel, which exported graphs do not keep.
            context = context.clone(memory_format=torch.contiguous_format)
        # (batch, seq, hidden)
        context = context.reshape(*context.shape[:2], -1)
        if padding_mask is not None:
            nothing_to_attend = ~padding_mask.bool().any(dim=-1)
            context = context.masked_fill(nothing_to_attend[:, None, None], 0.0)
        return context, probabilities
