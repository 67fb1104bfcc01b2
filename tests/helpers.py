"""Slow restatements of the papers' formulas: what the fast code must equal."""

import torch
from torch import Tensor


def naive_dynamic_convolution(values: Tensor, kernel: Tensor) -> Tensor:
    """Returns the sum over taps of weights times neighbours (Wu et al. 2019), (batch, seq, hidden).

    Args:
        values: What is summed, (batch, seq, hidden).
        kernel: One weight a tap, (batch, seq, heads, k).
    """
    batch_size, seq_length, hidden_size = values.shape
    num_heads, num_taps = kernel.shape[2:]
    by_head = values.reshape(batch_size, seq_length, num_heads, hidden_size // num_heads)
    outputs = []
    for position in range(seq_length):
        total = torch.zeros_like(by_head[:, position])
        for tap in range(num_taps):
            neighbour = position + tap - num_taps // 2
            if 0 <= neighbour < seq_length:
                weight = kernel[:, position, :, tap].unsqueeze(-1)
                total = total + weight * by_head[:, neighbour]
        outputs.append(total.reshape(batch_size, hidden_size))
    return torch.stack(outputs, dim=1)
