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
"""Dynamic convolution, the `d` layer of both families (LV-BERT, arXiv 2106.11740).

Wu et al. 2019 (arXiv 1901.10430) predict a kernel for each token and head from that token alone.
LV-BERT predicts it from the token's neighbourhood, by a separable convolution of the gated values.
ConvBERT (arXiv 2008.02496) has no gate and multiplies these features by the attention's query.
Unlike the original code, padding takes no part unless `conv_mask_padding` is False.
"""

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig

from .modeling_initialization import GlorotLinear

# Positions that share one matrix product: the fastest of 16 to 64 on a CPU, backward pass included.
BLOCK_SIZE = 16


def dynamic_convolution(values: Tensor, kernel: Tensor) -> Tensor:
    """Returns each head's weighted sum over neighbours, (batch, seq, hidden) (Wu et al. 2019).

    `out[b, t, h*D + c] = sum_j kernel[b, t, h, j] * values[b, t + j - k//2, h*D + c]`, where D is
    hidden / heads, k the number of taps, and values outside the sequence are zero. The k shifted
    copies of `values` that the original code and ConvBERT's unfold make are never held.

    Args:
        values: What is summed, (batch, seq, hidden); head h owns channels h*D to (h + 1)*D.
        kernel: One weight a tap, already normalised, (batch, seq, heads, k), k odd.
    """
    if _is_captured():
        return _convolve_by_taps(values, kernel)
    return _convolve_by_blocks(values, kernel)


def _is_captured() -> bool:
    """Returns whether a compiler, an exporter or a tracer is recording.

    A compiler makes one pass over the data of a loop over taps, whatever the sequence's length.
    An exported or traced graph must not hold the number of blocks of its example.
    """
    return torch.compiler.is_compiling() or torch.jit.is_tracing()


def _convolve_by_taps(values: Tensor, kernel: Tensor) -> Tensor:
    """As `dynamic_convolution`: adds up k shifted views, one tap at a time.

    The kernel's batch and seq may be 1: one kernel for all.
    """
    seq_length = values.shape[1]
    num_heads, num_taps = kernel.shape[2:]
    # (batch, seq + k - 1, heads, head size)
    padded = _pad_positions(values, num_taps // 2, num_taps // 2).unflatten(-1, (num_heads, -1))
    output = padded[:, :seq_length] * kernel[..., :1]
    for tap in range(1, num_taps):
        output = output + padded[:, tap : tap + seq_length] * kernel[..., tap : tap + 1]
    return output.flatten(2)


def _convolve_by_blocks(values: Tensor, kernel: Tensor) -> Tensor:
    """As `dynamic_convolution`: multiplies windows of positions by band matrices of kernels."""
    batch_size, seq_length, hidden_size = values.shape
    num_heads, num_taps = kernel.shape[2:]
    # At least k - 1, so that a window ends in the next block.
    block_size = max(BLOCK_SIZE, num_taps - 1)
    num_blocks = -(-seq_length // block_size)
    num_missing = num_blocks * block_size - seq_length

    # (batch, blocks + 1, heads, block, head size), one block more for the last window's end
    blocks = _pad_positions(values, num_taps // 2, num_missing + block_size - num_taps // 2)
    blocks = blocks.view(batch_size, num_blocks + 1, block_size, hidden_size)
    blocks = blocks.unflatten(-1, (num_heads, -1)).transpose(2, 3)
    # Joined from two pieces, since the backward pass of overlapping strided views is slow.
    # (batch, blocks, heads, block + k - 1, head size)
    windows = torch.cat((blocks[:, :-1], blocks[:, 1:, :, : num_taps - 1]), dim=3)

    kernel = nn.functional.pad(kernel, (0, 0, 0, 0, 0, num_missing))
    kernel = kernel.view(batch_size, num_blocks, block_size, num_heads, num_taps).transpose(2, 3)
    # Row p of a band holds the block's p-th kernel from column p on: rows of k weights and `block`
    # zeros, read as rows one element shorter, start one column later each.
    num_columns = block_size + num_taps - 1
    bands = nn.functional.pad(kernel, (0, block_size)).flatten(3)[..., : block_size * num_columns]
    # (batch, blocks, heads, block, block + k - 1)
    bands = bands.unflatten(-1, (block_size, num_columns))

    output = torch.matmul(bands, windows).transpose(2, 3)
    return output.reshape(batch_size, num_blocks * block_size, hidden_size)[:, :seq_length]


def _pad_positions(values: Tensor, num_before: int, num_after: int) -> Tensor:
    """Returns the values between zero positions, (batch, before + seq + after, hidden)."""
    return nn.functional.pad(values, (0, 0, num_before, num_after))


class DepthwiseConvolution(nn.Conv1d):
    """`nn.Conv1d` with one filter a channel, no bias, and as many positions out as in.

    The arithmetic is the same. (batch, seq, hidden) seen through `transpose(1, 2)` is read in place
    here, as an image one position high; `nn.Conv1d` copies it, and takes two to four times as long
    on a CPU, backward pass included.
    """

    def __init__(self, num_channels: int, kernel_size: int) -> None:
        super().__init__(
            num_channels,
            num_channels,
            kernel_size,
            padding=kernel_size // 2,
            groups=num_channels,
            bias=False,
        )

    def forward(self, input: Tensor) -> Tensor:
        """Returns the filtered channels, (batch, channels, seq).

        Args:
            input: What is filtered, (batch, channels, seq).
        """
        if _is_captured():
            # (1, 1, channels, k): a dynamic convolution with heads of one channel
            kernel = self.weight.to(input.dtype).transpose(0, 1).unsqueeze(0)
            return _convolve_by_taps(input.transpose(1, 2), kernel).transpose(1, 2)
        image, filters = input.unsqueeze(2), self.weight.unsqueeze(2)
        padding = (0, self.kernel_size[0] // 2)
        return nn.functional.conv2d(image, filters, padding=padding, groups=self.groups).squeeze(2)


class DynamicConvolution(nn.Module):
    """Mixes each token's neighbours with a kernel predicted from them (LV-BERT, arXiv 2106.11740).

    Our `num_attention_heads` is H of Wu et al. 2019, `conv_kernel_size` (tokens, odd) their k.
    Residual, norm and dropout belong to the family's layer around this one.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.mask_padding = config.conv_mask_padding
        hidden_size, kernel_size = config.hidden_size, config.conv_kernel_size
        self.glu_value = nn.Linear(hidden_size, hidden_size)
        self.glu_gate = nn.Linear(hidden_size, hidden_size)
        self.depthwise = DepthwiseConvolution(hidden_size, kernel_size)
        self.pointwise = nn.Linear(hidden_size, hidden_size)
        self.kernel = GlorotLinear(hidden_size, self.num_heads * kernel_size)
        self.output = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """Returns the layer's output, (batch, seq, hidden).

        Args:
            hidden_states: Output of the layer below, (batch, seq, hidden).
            padding_mask: 1 or True at real tokens, (batch, seq); None if all are real. Has no
                effect with `conv_mask_padding=False`, as in the original code.
        """
        values = self.glu_value(hidden_states) * torch.sigmoid(self.glu_gate(hidden_states))
        if padding_mask is not None and self.mask_padding:
            # No product: 0 * nan is nan.
            values = values.masked_fill(~padding_mask.bool().unsqueeze(-1), 0.0)
        return self.output(dynamic_convolution(values, self._predict_kernel(values)))

    def _predict_kernel(self, values: Tensor) -> Tensor:
        """Returns weights that sum to 1 over the taps, (batch, seq, heads, k)."""
        features = self.pointwise(self.depthwise(values.transpose(1, 2)).transpose(1, 2))
        logits = self.kernel(features).unflatten(-1, (self.num_heads, -1))
        softmax_dtype = torch.promote_types(logits.dtype, torch.float32)
        return torch.softmax(logits, dim=-1, dtype=softmax_dtype).to(logits.dtype)
