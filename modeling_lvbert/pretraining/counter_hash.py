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
"""Random numbers without a state: each is a function of a key and of its own number.

SplitMix64 (Steele et al. 2014). What a row gets depends on the keys made from its seed, epoch and
number, and so neither on rank and worker, nor on the batch around it, nor on a restart.
"""

import torch
from torch import Tensor


def shift_right(values: Tensor, bits: int) -> Tensor:
    """Shifts int64 values as if they had no sign, filling with zeros from the left."""
    return (values >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def hash_counters(keys: Tensor, counters: Tensor) -> Tensor:
    """Returns 64 random bits for each pair of key and counter, int64, in their broadcast shape.

    This is output number `counter` of a SplitMix64 generator with seed `key`.

    Args:
        keys: int64 of any shape, e.g. an earlier result.
        counters: int64, broadcastable with `keys`.
    """
    # SplitMix64's three constants as signed 64-bit numbers; products wrap around. In place: fresh
    # memory would cost more than the arithmetic.
    bits = keys + (counters + 1) * -0x61C8864680B583EB
    bits.bitwise_xor_(shift_right(bits, 30)).mul_(-0x40A7B892E31B1A47)
    bits.bitwise_xor_(shift_right(bits, 27)).mul_(-0x6B2FB644ECCEEE15)
    return bits.bitwise_xor_(shift_right(bits, 31))


def draw_fractions(keys: Tensor, counters: Tensor) -> Tensor:
    """Returns `hash_counters` as fractions from 0 to below 1, float64."""
    # 53 random bits are an exact fraction in float64.
    return shift_right(hash_counters(keys, counters), 11).double().div_(2**53)


def make_row_keys(mask_keys: list[tuple[int, ...]]) -> Tensor:
    """Returns one key for each row of a batch, int64, (batch, 1).

    Args:
        mask_keys: For each row its seed, epoch and number.
    """
    keys = torch.zeros(len(mask_keys), dtype=torch.int64)
    # (batch, 3)
    for counters in torch.tensor(mask_keys, dtype=torch.int64).unbind(dim=1):
        keys = hash_counters(keys, counters)
    return keys.unsqueeze(1)
