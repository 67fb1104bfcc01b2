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
"""Rows as the two papers' code packs them: ELECTRA's pairs of segments, ELC-BERT's sentences.

Both gather whole sentences of one document. ELECTRA (arXiv 2003.10555; LV-BERT uses its code) cuts
an example off at the row's end and loses the rest of its last sentence. ELC-BERT (arXiv 2311.02265)
cuts a sentence that does not fit and begins the next row with it from its start: nothing is lost,
what came before the cut is there twice.

What differs from their code: a line is split into sentences for both; a sentence longer than a row
is first cut into pieces as long as a row (theirs keep its first piece alone, and ELC-BERT's writes
that one twice); random choices depend on the seed and the document's number alone. As in ELECTRA's
code, a sentence that still fits into the first segment goes there even after the second has begun.
"""

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice, pairwise
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from .corpus import split_sentences
from .counter_hash import draw_fractions, hash_counters, make_row_keys
from .masking import NO_WORD

PARAGRAPH_TOKEN = "[PAR]"

SHORTEST_RANDOM_LENGTH = 5

# The stream of random numbers of `shorten_rows`; masking has its own with the same keys.
_SHORTENING = 1001


def cut_segments(
    sentences: Iterable[Sequence[int]],
    max_seq_length: int,
    rng: random.Random,
    short_sequence_probability: float = 0.05,
    single_segment_probability: float = 0.1,
) -> Iterator[tuple[list[int], list[int]]]:
    """Yields the examples of one document: a first segment and a second, which may be empty.

    An example gathers sentences until it has a full row of tokens, [CLS] and [SEP] not counted, or
    a random number of them.

    Args:
        sentences: The document's sentences, each a sequence of tokens.
        max_seq_length: Longest row, tokens, with room for [CLS] and a [SEP] behind each segment.
        rng: Source of all choices.
        short_sequence_probability: Share of the examples of a random length, 5 tokens at least.
        single_segment_probability: Share of the examples that go into the first segment alone.
    """

    def draw_length() -> int:
        if rng.random() < short_sequence_probability:
            return rng.randint(SHORTEST_RANDOM_LENGTH, max_seq_length)
        return max_seq_length

    def draw_share(target: int) -> float:
        return math.inf if rng.random() < single_segment_probability else (target - 3) // 2

    gathered: list[Sequence[int]] = []
    num_gathered, target = 0, draw_length()
    for sentence in sentences:
        gathered.append(sentence)
        num_gathered += len(sentence)
        if num_gathered >= target:
            yield _part_sentences(gathered, draw_share(target), max_seq_length, rng)
            gathered = []
            num_gathered, target = 0, draw_length()
    if num_gathered:
        yield _part_sentences(gathered, draw_share(target), max_seq_length, rng)


def _part_sentences(
    sentences: list[Sequence[int]], share: float, max_seq_length: int, rng: random.Random
) -> tuple[list[int], list[int]]:
    """Parts sentences at about `share` tokens: half of the time the first segment exceeds it."""
    first: list[int] = []
    second: list[int] = []
    for sentence in sentences:
        fits = len(first) + len(sentence) < share
        may_exceed = not second and len(first) < share
        if not first or fits or (may_exceed and rng.random() < 0.5):
            first += sentence
        else:
            second += sentence
    first = first[: max_seq_length - 2]
    return first, second[: max(0, max_seq_length - 3 - len(first))]


def fill_rows(sentences: Iterable[Sequence[int]], room: int) -> Iterator[list[int]]:
    """Yields the rows of one document, without [CLS] and [SEP].

    Args:
        sentences: The document's sentences, each a sequence of at most `room` tokens.
        room: Tokens of a full row.
    """
    row: list[int] = []
    for sentence in sentences:
        row += sentence
        if len(row) > room:
            yield row[:room]
            row = list(sentence)
    if row:
        yield row


class _TokenizedText:
    """Documents as sentences of places in one long table of tokens.

    Packing shifts places about, so that what a row says of a token (id, word) is looked up at the
    end, whatever it is. Special tokens have places behind all others.
    """

    def __init__(
        self,
        texts: list[str],
        tokenizer: PreTrainedTokenizerBase,
        with_word_ids: bool,
        paragraph_id: int | None = None,
    ) -> None:
        lines = [
            [split_sentences(line) for line in text.splitlines() if line.strip()] for text in texts
        ]
        flat = [sentence for text in lines for line in text for sentence in line]
        encoding = tokenizer(
            flat or [""],
            add_special_tokens=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )
        special = [tokenizer.cls_token_id, tokenizer.sep_token_id]
        special += [] if paragraph_id is None else [paragraph_id]
        tokens = [token for ids in encoding["input_ids"] for token in ids]
        self.cls, self.sep = len(tokens), len(tokens) + 1
        self.columns = {"input_ids": np.array(tokens + special)}
        if with_word_ids:
            words = number_words(encoding.word_ids(i) for i in range(len(flat)))
            self.columns["word_ids"] = np.array(words + [NO_WORD] * len(special))
        borders = accumulate((len(ids) for ids in encoding["input_ids"]), initial=0)
        places = (range(*ends) for ends in pairwise(borders))
        # (documents, sentences, tokens)
        self.documents: list[list[Sequence[int]]] = []
        for text in lines:
            sentences: list[Sequence[int]] = []
            for line in text:
                sentences += islice(places, len(line))
                if paragraph_id is not None:
                    sentences[-1] = [*sentences[-1], len(tokens) + 2]
            self.documents.append(sentences)

    def look_up(self, rows: list[list[int]]) -> dict[str, list[list[int]]]:
        """Returns the columns of rows of places."""
        return {
            name: [values[row].tolist() for row in rows] for name, values in self.columns.items()
        }


def number_words(sentences: Iterable[list[int | None]]) -> list[int]:
    """Numbers the words of several texts through.

    Args:
        sentences: The word of each token of each text, None outside words.
    """
    words: list[int] = []
    offset = 0
    for sentence in sentences:
        words += [NO_WORD if word is None else offset + word for word in sentence]
        offset += 1 + max((word for word in sentence if word is not None), default=-1)
    return words


def _cut_long(sentences: Iterable[Sequence[int]], room: int) -> Iterator[Sequence[int]]:
    for sentence in sentences:
        for start in range(0, len(sentence), room):
            yield sentence[start : start + room]


def pack_segment_pairs(
    documents: dict[str, list[str]],
    numbers: list[int],
    tokenizer: PreTrainedTokenizerBase,
    max_seq_length: int,
    with_word_ids: bool = False,
    seed: int = 0,
    short_sequence_probability: float = 0.05,
    single_segment_probability: float = 0.1,
) -> dict[str, list[list[int]]]:
    """Packs documents into ELECTRA's rows, `[CLS] first [SEP] second [SEP]`.

    Args:
        documents: `{"text": [...]}`, one string a document, its paragraphs on lines of their own.
        numbers: The documents' numbers in the corpus.
        tokenizer: Fast if `with_word_ids`.
        max_seq_length: Longest row, tokens.
        with_word_ids: Also return `word_ids`, see `pack_documents`.
        seed: Seed of the lengths and cuts.
        short_sequence_probability: See `cut_segments`.
        single_segment_probability: See `cut_segments`.

    Returns:
        `input_ids`, `token_type_ids` (0 up to the first [SEP], 1 from there on) and, where asked
        for, `word_ids`.
    """
    text = _TokenizedText(documents["text"], tokenizer, with_word_ids)
    rows: list[list[int]] = []
    segments: list[list[int]] = []
    for number, sentences in zip(numbers, text.documents, strict=True):
        rng = random.Random(f"{seed} {number}")
        pieces = _cut_long(sentences, max_seq_length - 2)
        for first, second in cut_segments(
            pieces, max_seq_length, rng, short_sequence_probability, single_segment_probability
        ):
            ending = [*second, text.sep] if second else []
            rows.append([text.cls, *first, text.sep, *ending])
            segments.append([0] * (len(first) + 2) + [1] * len(ending))
    return {**text.look_up(rows), "token_type_ids": segments}


def pack_sentences(
    documents: dict[str, list[str]],
    tokenizer: PreTrainedTokenizerBase,
    max_seq_length: int,
    with_word_ids: bool = False,
) -> dict[str, list[list[int]]]:
    """Packs documents into ELC-BERT's rows, `[CLS] sentences [SEP]`, [PAR] at each line's end.

    Args:
        documents: `{"text": [...]}`, one string a document, its paragraphs on lines of their own.
        tokenizer: Knows [PAR]; fast if `with_word_ids`.
        max_seq_length: Longest row, tokens.
        with_word_ids: Also return `word_ids`, see `pack_documents`.

    Returns:
        `input_ids` and, where asked for, `word_ids`.
    """
    paragraph_id = find_paragraph_id(tokenizer)
    text = _TokenizedText(documents["text"], tokenizer, with_word_ids, paragraph_id)
    room = max_seq_length - 2
    return text.look_up(
        [
            [text.cls, *row, text.sep]
            for sentences in text.documents
            for row in fill_rows(_cut_long(sentences, room), room)
        ]
    )


def find_paragraph_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """Returns the id of [PAR].

    Raises:
        ValueError: The tokenizer has no such token.
    """
    number = tokenizer.get_vocab().get(PARAGRAPH_TOKEN)
    if number is None:
        raise ValueError(
            f"tokenizer {tokenizer.name_or_path!r} has no {PARAGRAPH_TOKEN}, which packing "
            "'sentences' ends a paragraph with: add it as a special token, or take another packing"
        )
    return number


def shorten_rows(
    rows: list[dict[str, Any]], max_seq_length: int, probability: float = 0.1
) -> list[dict[str, Any]]:
    """Cuts some rows of one segment to a random length, for this epoch, as ELC-BERT does.

    A shortened row keeps [CLS], its first 1 to `max_seq_length - 3` tokens, and [SEP].

    Args:
        rows: Rows of `PackedRows`; all of a row depends on its own `mask_key`.
        max_seq_length: Longest row, tokens.
        probability: Share of the rows to shorten.
    """
    if probability == 0 or max_seq_length <= 3:
        return rows
    keys = make_row_keys([row["mask_key"] for row in rows])
    # (batch, 2)
    draws = draw_fractions(hash_counters(keys, torch.tensor(_SHORTENING)), torch.arange(2))
    lengths = 1 + (draws[:, 1] * (max_seq_length - 3)).long()
    return [
        _shorten(row, length) if draw < probability else row
        for row, draw, length in zip(rows, draws[:, 0].tolist(), lengths.tolist(), strict=True)
    ]


def _shorten(row: dict[str, Any], num_tokens: int) -> dict[str, Any]:
    if num_tokens + 2 >= len(row["input_ids"]):
        return row
    return {
        name: [*values[: num_tokens + 1], values[-1]] if isinstance(values, list) else values
        for name, values in row.items()
    }
