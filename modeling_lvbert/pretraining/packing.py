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
"""Rows of tokens out of documents, and the order in which training sees them.

By default a row is `[CLS] tokens [SEP]`, cut from one document, so it never crosses a document's
border; the remainder of a document is a shorter row. `published_packing` has the papers' own ways.
The rows live in a memory-mapped `datasets` cache named by their content.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import datasets
import torch
from datasets.fingerprint import Hasher
from torch.utils.data import Dataset, Sampler
from transformers import PreTrainedTokenizerBase

from .masking import NO_WORD, count_token_ids
from .published_packing import (
    SHORTEST_RANDOM_LENGTH,
    find_paragraph_id,
    number_words,
    pack_segment_pairs,
    pack_sentences,
    shorten_rows,
)

# How documents become rows, and the shortest row that each needs, tokens.
PACKINGS = {"documents": 3, "segment_pairs": SHORTEST_RANDOM_LENGTH, "sentences": 3}

REQUIRED_TOKENS = ("mask_token", "cls_token", "sep_token", "pad_token")


def check_tokenizer(tokenizer: PreTrainedTokenizerBase, vocab_size: int | None = None) -> None:
    """Checks that a tokenizer serves masked language modelling.

    Args:
        tokenizer: The tokenizer.
        vocab_size: Number of rows of the model's embedding table, if it is known already.

    Raises:
        ValueError: A special token has no role, or the tokenizer has more tokens than the model.
    """
    missing = [name for name in REQUIRED_TOKENS if getattr(tokenizer, name) is None]
    if missing:
        raise ValueError(
            f"tokenizer {tokenizer.name_or_path!r} has no {', '.join(missing)}: "
            f"{', '.join(REQUIRED_TOKENS)} are all needed"
        )
    needed = count_token_ids(tokenizer)
    if vocab_size is not None and needed > vocab_size:
        raise ValueError(
            f"vocab_size {vocab_size}: at least {needed} is needed for the tokenizer's ids"
        )


def pack_documents(
    documents: dict[str, list[str]],
    tokenizer: PreTrainedTokenizerBase,
    max_seq_length: int,
    with_word_ids: bool,
) -> dict[str, list[list[int]]]:
    """Cuts documents into rows of at most `max_seq_length` tokens, `[CLS]` and `[SEP]` included.

    Args:
        documents: `{"text": [...]}`, one string a document, its paragraphs on lines of their own.
        tokenizer: Fast if `with_word_ids`.
        max_seq_length: Longest row, tokens.
        with_word_ids: Also return `word_ids`: the number of each token's word, `NO_WORD` for
            special tokens.
    """
    lines = [[line for line in text.splitlines() if line.strip()] for text in documents["text"]]
    flat = [line for document in lines for line in document]
    if not flat:
        return {"input_ids": [], **({"word_ids": []} if with_word_ids else {})}
    encoding = tokenizer(
        flat,
        add_special_tokens=False,
        return_attention_mask=False,
        return_token_type_ids=False,
        verbose=False,
    )
    room = max_seq_length - 2
    rows: dict[str, list[list[int]]] = {
        "input_ids": [],
        **({"word_ids": []} if with_word_ids else {}),
    }
    first = 0
    for document in lines:
        numbers = range(first, first + len(document))
        first += len(document)
        tokens = [token for number in numbers for token in encoding["input_ids"][number]]
        for start in range(0, len(tokens), room):
            row = tokens[start : start + room]
            rows["input_ids"].append([tokenizer.cls_token_id, *row, tokenizer.sep_token_id])
        if with_word_ids:
            words = number_words([encoding.word_ids(number) for number in numbers])
            for start in range(0, len(words), room):
                rows["word_ids"].append([NO_WORD, *words[start : start + room], NO_WORD])
    return rows


def _pack(
    documents: dict[str, list[str]],
    numbers: list[int],
    packing: str,
    pair_settings: dict[str, Any],
    **settings: Any,
) -> dict[str, list[list[int]]]:
    if packing == "segment_pairs":
        return pack_segment_pairs(documents, numbers, **pair_settings, **settings)
    if packing == "sentences":
        return pack_sentences(documents, **settings)
    return pack_documents(documents, **settings)


def check_packing(packing: str, max_seq_length: int) -> None:
    """Checks a kind of packing and a length of rows.

    Raises:
        ValueError: Unknown packing, or rows too short to hold a token.
    """
    if packing not in PACKINGS:
        raise ValueError(f"packing {packing!r}: must be one of {', '.join(PACKINGS)}")
    if max_seq_length < PACKINGS[packing]:
        raise ValueError(
            f"max_seq_length {max_seq_length}: at least {PACKINGS[packing]} is needed for packing "
            f"{packing!r} ([CLS], a token, [SEP])"
        )


def _check_tokenizer_for(
    packing: str, tokenizer: PreTrainedTokenizerBase, with_word_ids: bool
) -> None:
    if with_word_ids and not tokenizer.is_fast:
        raise ValueError("masking_unit 'whole_word' needs a fast tokenizer: 'token' works with any")
    if packing == "sentences":
        find_paragraph_id(tokenizer)


def pack_corpus(
    documents: datasets.Dataset,
    tokenizer: PreTrainedTokenizerBase,
    max_seq_length: int,
    with_word_ids: bool = False,
    num_proc: int | None = None,
    description: str = "Packing",
    packing: str = "documents",
    pair_settings: dict[str, Any] | None = None,
) -> datasets.Dataset:
    """Tokenizes and packs a corpus; the result is kept in the cache and found again by content.

    Args:
        documents: Documents with a column `text`.
        tokenizer: The tokenizer, checked by `check_tokenizer`.
        max_seq_length: Longest row, tokens.
        with_word_ids: See `pack_documents`.
        num_proc: Number of processes.
        description: Title of the progress bar.
        packing: "documents" (see `pack_documents`), "segment_pairs" (ELECTRA's, with
            `token_type_ids`) or "sentences" (ELC-BERT's, with [PAR]).
        pair_settings: Seed and probabilities of "segment_pairs", see `pack_segment_pairs`.

    Raises:
        ValueError: Unknown packing, rows too short to hold a token, word ids from a slow
            tokenizer, a tokenizer without [PAR], or no row at all.
    """
    check_packing(packing, max_seq_length)
    _check_tokenizer_for(packing, tokenizer, with_word_ids)
    columns = {"input_ids": datasets.Sequence(datasets.Value("int32"))}
    if with_word_ids:
        columns["word_ids"] = datasets.Sequence(datasets.Value("int32"))
    if packing == "segment_pairs":
        columns["token_type_ids"] = datasets.Sequence(datasets.Value("int8"))
    pair_settings = dict(pair_settings or {}) if packing == "segment_pairs" else {}
    # Named by hand: the state of a fast tokenizer changes with use, so its pickle is no stable
    # name.
    content = [
        documents._fingerprint,
        _describe_tokenizer(tokenizer),
        max_seq_length,
        with_word_ids,
        packing,
        sorted(pair_settings.items()),
    ]
    rows = documents.map(
        _pack,
        batched=True,
        with_indices=True,
        batch_size=100,
        remove_columns=documents.column_names,
        features=datasets.Features(columns),
        fn_kwargs={
            "tokenizer": tokenizer,
            "max_seq_length": max_seq_length,
            "with_word_ids": with_word_ids,
            "packing": packing,
            "pair_settings": pair_settings,
        },
        num_proc=num_proc if num_proc and num_proc > 1 else None,
        new_fingerprint=Hasher.hash([_pack, *content]),
        desc=description,
    )
    if len(rows) == 0:
        raise ValueError(
            f"{len(documents)} documents gave no row: the tokenizer found no token in them, "
            "at least one is needed"
        )
    return rows


def _describe_tokenizer(tokenizer: PreTrainedTokenizerBase) -> list[Any]:
    backend = {}
    if tokenizer.is_fast:
        backend = json.loads(tokenizer.backend_tokenizer.to_str())
        # The last call's settings.
        backend.update(truncation=None, padding=None)
    vocabulary = sorted(tokenizer.get_vocab().items())
    roles = [tokenizer.cls_token_id, tokenizer.sep_token_id]
    return [type(tokenizer).__name__, json.dumps(backend), vocabulary, roles]


class PackedRows(Dataset):
    """Packed rows that carry their own key for masking.

    Index `epoch * len(rows) + row` is row `row` in epoch `epoch`: all that masking needs travels
    with the index, so neither workers nor ranks have a state to keep.
    """

    def __init__(
        self,
        rows: datasets.Dataset,
        seed: int,
        short_sequence_probability: float = 0.0,
        max_seq_length: int = 0,
    ) -> None:
        """Wraps the rows.

        Args:
            rows: Result of `pack_corpus`.
            seed: Seed of the masks.
            short_sequence_probability: Share of the rows to shorten, see `shorten_rows`.
            max_seq_length: Longest row, tokens, where rows are shortened.

        Raises:
            ValueError: A share outside [0, 1], or rows of two segments to shorten.
        """
        if not 0 <= short_sequence_probability <= 1:
            raise ValueError(
                f"short_sequence_probability {short_sequence_probability}: must be from 0 to 1"
            )
        if short_sequence_probability and "token_type_ids" in rows.column_names:
            raise ValueError(
                f"short_sequence_probability {short_sequence_probability}: must be 0 for rows of "
                "two segments, which are shortened when they are packed"
            )
        self.rows = rows
        self.seed = seed
        self.short_sequence_probability = short_sequence_probability
        self.max_seq_length = max_seq_length

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Returns several rows in one read; torch's DataLoader calls it with a batch's indices."""
        places = [divmod(index, len(self.rows)) for index in indices]
        columns = self.rows[[row for _, row in places]]
        rows = [
            {
                "mask_key": (self.seed, epoch, row),
                **{name: values[i] for name, values in columns.items()},
            }
            for i, (epoch, row) in enumerate(places)
        ]
        return shorten_rows(rows, self.max_seq_length, self.short_sequence_probability)


class RowStream(Sampler[int]):
    """An endless stream of shuffled passes over the rows; an epoch takes whole global batches.

    The stream is the concatenation of seeded permutations. An epoch is the next `ceil(num_rows /
    global_batch_size)` batches, so every step has a full batch, no row is dropped, and step `k`
    consists of the same rows however the batch is split over devices and accumulation.
    """

    def __init__(self, num_rows: int, global_batch_size: int, seed: int) -> None:
        """Describes the stream.

        Args:
            num_rows: Number of rows.
            global_batch_size: Rows of one optimizer step, over all devices and accumulation steps.
            seed: Seed of the permutations.
        """
        self.num_rows = num_rows
        self.seed = seed
        self.epoch = 0
        self._length = -(-num_rows // global_batch_size) * global_batch_size

    def __len__(self) -> int:
        return self._length

    def set_epoch(self, epoch: int) -> None:
        """Moves to the beginning of an epoch, counted from 0."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        position, end = self.epoch * self._length, (self.epoch + 1) * self._length
        while position < end:
            current_pass, offset = divmod(position, self.num_rows)
            generator = torch.Generator().manual_seed((self.seed << 32) + current_pass)
            rows = torch.randperm(self.num_rows, generator=generator)[
                offset : offset + end - position
            ]
            yield from (rows + current_pass * self.num_rows).tolist()
            position += len(rows)
