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
"""Masked-token corruption as a pure function of seed, epoch, row and position.

The choices come from `counter_hash`, not from a generator with a state: a row's mask is the same on
every rank, in every worker and batch, and after every restart. 15 % of a row's tokens are chosen,
and of these 80 % become the mask token, 10 % a random token, 10 % stay (BERT, arXiv 1810.04805,
section 3.1); of a span all do the same.
"""

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from .counter_hash import draw_fractions, hash_counters, make_row_keys, shift_right
from .span_masking import choose_spans

MASKING_UNITS = ("token", "whole_word", "span")
IGNORED_LABEL = -100
# Word index of tokens that belong to no word: special tokens and padding.
NO_WORD = -1

# One stream of random numbers for each decision.
_CHOICE, _ACTION, _REPLACEMENT, _SAMPLE = 1, 2, 3, 4


def find_special_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Returns the ids of all special tokens, also of those without a role, ascending."""
    added = {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    return sorted(added | set(tokenizer.all_special_ids))


def count_token_ids(tokenizer: PreTrainedTokenizerBase) -> int:
    """Returns the size of the smallest embedding table that has a row for every id."""
    # Not the number of tokens: a vocabulary may have gaps.
    return max(tokenizer.get_vocab().values()) + 1


def find_unit_starts(word_ids: Tensor) -> Tensor:
    """Returns for each token the position of the first token of its word, (batch, seq).

    Args:
        word_ids: Word index of each token, `NO_WORD` for tokens outside words, (batch, seq).
    """
    positions = torch.arange(word_ids.shape[1], device=word_ids.device).expand_as(word_ids)
    begins = torch.ones_like(word_ids, dtype=torch.bool)
    begins[:, 1:] = (word_ids[:, 1:] != word_ids[:, :-1]) | (word_ids[:, 1:] == NO_WORD)
    return torch.where(begins, positions, 0).cummax(dim=1).values


def choose_tokens(candidates: Tensor, unit_starts: Tensor, keys: Tensor, fraction: float) -> Tensor:
    """Chooses `fraction` of each row's candidates in whole units, at least one; bool, (batch, seq).

    Units are taken in random order until the row's budget, `fraction` of its candidates rounded up
    or down at random, is reached; only the last unit may exceed it.

    Args:
        candidates: Tokens that may be chosen, bool, (batch, seq).
        unit_starts: Position of the first token of each token's unit, (batch, seq).
        keys: One key for each row, int64, (batch, 1).
        fraction: Share of the candidates, from 0 to 1.
    """
    # A token only ever meets the key of its own unit, so the padding's length plays no part.
    order_keys = hash_counters(keys, unit_starts).masked_fill(
        ~candidates, torch.iinfo(torch.int64).max
    )
    order = order_keys.argsort(dim=1, stable=True)
    ranks = torch.empty_like(order).scatter_(
        1, order, torch.arange(order.shape[1]).expand_as(order)
    )
    # No position is called -1. Rounding at random keeps the mean, which short rows would shift.
    rounding = draw_fractions(keys, torch.tensor(-1))
    budget = (candidates.sum(dim=1, keepdim=True) * fraction + rounding).floor().clamp(min=1)
    return candidates & (ranks.gather(1, unit_starts) < budget)


def check_masking(masking_unit: str, mask_fraction: float) -> None:
    """Checks a unit of masking and a share of tokens to mask.

    Raises:
        ValueError: An unknown unit, or a share that is not above 0 and at most 1.
    """
    if masking_unit not in MASKING_UNITS:
        raise ValueError(
            f"masking_unit {masking_unit!r}: must be one of {', '.join(MASKING_UNITS)}"
        )
    if not 0 < mask_fraction <= 1:
        raise ValueError(f"mask_fraction {mask_fraction}: must be above 0 and at most 1")


@dataclass
class MaskingCollator:
    """Pads rows to the longest of the batch and masks them.

    Attributes:
        tokenizer: Gives the ids of the special tokens, which are never masked nor drawn as
            replacements.
        masking_unit: "token", "whole_word", which needs rows packed with `word_ids`, or "span".
        mask_fraction: Share of a row's tokens to predict.
        mask_token_fraction: Share of these that become the mask token.
        random_token_fraction: Share of these that become a random token; the rest keeps its token.
        pad_to_length: Pad to this many tokens instead of the longest row's.
        with_sample_fractions: Also give `sample_fractions`: where ELECTRA's draw of a replacement
            falls at each position, from 0 to below 1, (batch, seq).
    """

    tokenizer: PreTrainedTokenizerBase
    masking_unit: str = "token"
    mask_fraction: float = 0.15
    mask_token_fraction: float = 0.8
    random_token_fraction: float = 0.1
    pad_to_length: int | None = None
    with_sample_fractions: bool = False

    def __post_init__(self) -> None:
        """Checks the settings.

        Raises:
            ValueError: An unknown unit, or a fraction outside its range.
        """
        check_masking(self.masking_unit, self.mask_fraction)
        shares = (self.mask_token_fraction, self.random_token_fraction)
        if min(shares) < 0 or sum(shares) > 1:
            raise ValueError(
                f"mask_token_fraction {shares[0]}, random_token_fraction {shares[1]}: "
                "neither may be negative, their sum may be at most 1"
            )
        ordinary = torch.zeros(count_token_ids(self.tokenizer), dtype=torch.bool)
        ordinary[list(self.tokenizer.get_vocab().values())] = True
        ordinary[find_special_ids(self.tokenizer)] = False
        self._is_special = ~ordinary
        self._ordinary_ids = ordinary.nonzero().squeeze(1)

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        """Returns `input_ids`, `attention_mask` and `labels` (-100: no prediction), (batch, seq).

        Rows of two segments also give `token_type_ids`.

        Args:
            rows: Rows of `PackedRows`: `input_ids`, `mask_key` (seed, epoch and row number), for
                whole words `word_ids`, for two segments `token_type_ids`, and `mask_fraction` where
                the share changes during a run.
        """
        length = self.pad_to_length or max(len(row["input_ids"]) for row in rows)
        input_ids = _pad(rows, "input_ids", length, self.tokenizer.pad_token_id)
        row_lengths = torch.tensor([[len(row["input_ids"])] for row in rows])
        word_ids = (
            _pad(rows, "word_ids", length, NO_WORD) if self.masking_unit == "whole_word" else None
        )
        keys = make_row_keys([row["mask_key"] for row in rows])
        # One step's rows have one share.
        fraction = rows[0].get("mask_fraction", self.mask_fraction)
        corrupted, labels = self.mask_tokens(input_ids, row_lengths, keys, word_ids, fraction)
        batch = {
            "input_ids": corrupted,
            "attention_mask": (torch.arange(length) < row_lengths).long(),
            "labels": labels,
        }
        if self.with_sample_fractions:
            sample_keys = hash_counters(keys, torch.tensor(_SAMPLE))
            batch["sample_fractions"] = draw_fractions(sample_keys, torch.arange(length))
        if "token_type_ids" in rows[0]:
            batch["token_type_ids"] = _pad(rows, "token_type_ids", length, 0)
        return batch

    def mask_tokens(
        self,
        input_ids: Tensor,
        row_lengths: Tensor,
        keys: Tensor,
        word_ids: Tensor | None = None,
        mask_fraction: float | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Returns the masked ids and the labels of padded rows, (batch, seq).

        Args:
            input_ids: Padded rows, (batch, seq).
            row_lengths: Their tokens without padding, (batch, 1).
            keys: Their keys, see `make_row_keys`, (batch, 1).
            word_ids: For whole words the word of each token, (batch, seq).
            mask_fraction: Share of a row's tokens to predict; the collator's own if None.
        """
        fraction = self.mask_fraction if mask_fraction is None else mask_fraction
        positions = torch.arange(input_ids.shape[1])
        candidates = (positions < row_lengths) & ~self._is_special[input_ids]
        choice_keys = hash_counters(keys, torch.tensor(_CHOICE))
        # One action for each owner: a span, else a token.
        owners = positions.expand_as(input_ids)
        if self.masking_unit == "span":
            chosen, owners = choose_spans(candidates, row_lengths, choice_keys, fraction)
        else:
            unit_starts = owners if word_ids is None else find_unit_starts(word_ids)
            chosen = choose_tokens(candidates, unit_starts, choice_keys, fraction)
        corrupted = self._corrupt(input_ids, chosen, owners, keys)
        return corrupted, input_ids.masked_fill(~chosen, IGNORED_LABEL)

    def _corrupt(self, input_ids: Tensor, chosen: Tensor, owners: Tensor, keys: Tensor) -> Tensor:
        rows, positions = chosen.nonzero(as_tuple=True)
        keys = keys[rows, 0]

        def stream(number: int) -> Tensor:
            return hash_counters(keys, torch.tensor(number))

        # (tokens,): only what is chosen needs random numbers
        action = draw_fractions(stream(_ACTION), owners[rows, positions])
        words = shift_right(hash_counters(stream(_REPLACEMENT), positions), 1)
        words = self._ordinary_ids[words % len(self._ordinary_ids)]
        is_random = action < self.mask_token_fraction + self.random_token_fraction
        replacements = torch.where(is_random, words, input_ids[rows, positions])
        replacements[action < self.mask_token_fraction] = self.tokenizer.mask_token_id
        return input_ids.index_put((rows, positions), replacements)


def _pad(rows: list[dict[str, Any]], column: str, length: int, value: int) -> Tensor:
    """Returns a column of the rows, filled up to one length, (batch, length)."""
    columns = [row[column] for row in rows]
    lengths = np.array([len(values) for values in columns])
    padded = np.full((len(rows), length), value)
    padded[np.arange(length) < lengths[:, None]] = np.fromiter(
        chain.from_iterable(columns), dtype=np.int64, count=lengths.sum()
    )
    return torch.from_numpy(padded)
