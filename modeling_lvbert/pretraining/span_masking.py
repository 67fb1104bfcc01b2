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
"""Span masking of ELC-BERT (arXiv 2311.02265) for a whole batch at once.

A row's target is a binomial number of its candidates. Spans fall one after the other at random
places, also partly outside the row, until they cover the target or 100 have fallen. Lengths are
geometric with p = 1/3 modulo 10 (0 to 9, 2.74 tokens in the mean), special tokens within a span
stay as they are, and a later span decides for the tokens that it shares with an earlier one. As the
last span counts in full, a target of 15 % covers 16 %.

What differs from ELC-BERT's code: places are drawn over the row without its padding, so the length
of the padding plays no part; a row's last token has no exception (there it is [SEP] or padding); a
row with candidates has a target of at least 1 (theirs is 0 in 0.4 % of the rows); random words are
drawn from the ordinary tokens alone (theirs begin at id 5, which is [PAR], and [TAB] counts as
ordinary).
"""

import torch
from torch import Tensor

from .counter_hash import draw_fractions, hash_counters

MAX_SPANS = 100
SUCCESS_PROBABILITY = 1 / 3
LENGTH_MODULUS = 10

# One stream of random numbers for each decision.
_TARGET, _LENGTH, _PLACE = 1, 2, 3


def _accumulate_length_probabilities() -> list[float]:
    """Returns the probabilities that a span has at most 0, 1, ... 8 tokens."""
    failure = 1 - SUCCESS_PROBABILITY
    # The share of a length among those that are equal modulo the modulus.
    scale = SUCCESS_PROBABILITY / (1 - failure**LENGTH_MODULUS)
    # Length 0 stands for 10, 20 and so on.
    exponents = [LENGTH_MODULUS - 1, *range(LENGTH_MODULUS - 1)]
    probabilities = [scale * failure**exponent for exponent in exponents]
    return [sum(probabilities[: i + 1]) for i in range(LENGTH_MODULUS - 1)]


_LENGTH_THRESHOLDS = torch.tensor(_accumulate_length_probabilities(), dtype=torch.float64)
# What the positions of a span of 0, 1, ... 9 tokens are from its start.
_OFFSETS = torch.tensor(
    [
        [max(0, min(offset, length - 1)) for offset in range(LENGTH_MODULUS - 1)]
        for length in range(LENGTH_MODULUS)
    ]
)
# Spans begin and end at most this far from the row.
_MARGIN = LENGTH_MODULUS - 1


def choose_spans(
    candidates: Tensor, row_lengths: Tensor, keys: Tensor, fraction: float
) -> tuple[Tensor, Tensor]:
    """Chooses spans of candidates; all that a row gets depends on its own candidates and key.

    Args:
        candidates: Tokens that may be chosen, bool, (batch, seq).
        row_lengths: Tokens of each row without padding, int64, (batch, 1).
        keys: One key for each row, int64, (batch, 1).
        fraction: Share of the candidates, from 0 to 1.

    Returns:
        The chosen tokens, bool, and the number of the span that decides for each of them, int64
        (anything from 0 elsewhere); both (batch, seq).
    """
    positions = torch.arange(candidates.shape[1], device=candidates.device)
    hits = draw_fractions(hash_counters(keys, positions.new_tensor(_TARGET)), positions) < fraction
    targets = (candidates & hits).sum(dim=1, keepdim=True)
    targets = torch.maximum(targets, candidates.any(dim=1, keepdim=True).long())
    # Enough for nearly every row; the few others take all of their spans.
    num_spans = min(MAX_SPANS, 12 + int(0.6 * fraction * candidates.shape[1]))
    chosen, owners, is_done = _drop_spans(candidates, row_lengths, keys, targets, num_spans)
    if num_spans < MAX_SPANS and not is_done.all():
        rest = (~is_done).nonzero().squeeze(1)
        chosen[rest], owners[rest], _ = _drop_spans(
            candidates[rest], row_lengths[rest], keys[rest], targets[rest], MAX_SPANS
        )
    return chosen, owners


def _drop_spans(
    candidates: Tensor, row_lengths: Tensor, keys: Tensor, targets: Tensor, num_spans: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Lets `num_spans` spans fall and forgets those after the target.

    Returns:
        See `choose_spans`; third whether the target was reached, bool, (batch,).
    """
    numbers = torch.arange(num_spans, device=candidates.device)
    # Margins take what falls outside the row.
    row = slice(_MARGIN, _MARGIN + candidates.shape[1])
    grid = numbers.new_full((len(candidates), row.stop + _MARGIN), num_spans)
    # (batch, spans * longest length)
    places = _place_spans(row_lengths, keys, numbers).flatten(1).add_(_MARGIN)
    span_of_place = numbers.repeat_interleave(LENGTH_MODULUS - 1).expand_as(places)
    first_spans = grid.scatter_reduce(1, places, span_of_place, "amin")[:, row]
    first_spans = torch.where(candidates, first_spans, num_spans)
    # (batch, spans + 1): how many candidates each span is the first to cover
    news = numbers.new_zeros(len(candidates), num_spans + 1)
    news.scatter_add_(1, first_spans, torch.ones_like(first_spans))
    covered = news[:, :-1].cumsum(dim=1)
    # The spans that fell before the target was reached.
    num_fallen = 1 + (covered < targets).sum(dim=1, keepdim=True)
    last_spans = torch.where(span_of_place < num_fallen, span_of_place, 0)
    owners = torch.zeros_like(grid).scatter_reduce(1, places, last_spans, "amax")[:, row]
    chosen = first_spans < num_fallen.clamp(max=num_spans)
    return chosen, owners, (num_fallen <= num_spans).squeeze(1)


def _place_spans(row_lengths: Tensor, keys: Tensor, numbers: Tensor) -> Tensor:
    """Returns the positions that each span covers, int64, (batch, spans, longest length).

    A shorter span repeats its last position, an empty one has the position behind the row alone.

    Args:
        row_lengths: Tokens of each row, (batch, 1).
        keys: One key for each row, (batch, 1).
        numbers: Numbers of the spans, (spans,).
    """
    length_keys, place_keys = (
        hash_counters(keys, numbers.new_tensor(stream)) for stream in (_LENGTH, _PLACE)
    )
    # (batch, spans)
    lengths = torch.bucketize(
        draw_fractions(length_keys, numbers), _LENGTH_THRESHOLDS.to(keys.device), right=True
    )
    # A span of n tokens begins from n - 1 places before the first token to n behind the last.
    num_places = row_lengths + 2 * lengths - 1
    starts = (draw_fractions(place_keys, numbers) * num_places).long() - (lengths - 1)
    starts = torch.minimum(torch.where(lengths > 0, starts, row_lengths), row_lengths)
    return starts.unsqueeze(2) + _OFFSETS.to(keys.device)[lengths]
