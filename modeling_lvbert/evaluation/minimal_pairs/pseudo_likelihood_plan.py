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
"""What has to be computed for the scores of sentences: a model's inputs, and the terms of each sum.

A sentence's score is a sum over its tokens, special ones left out, of the logarithm of

- `pll`: the token's probability where it alone is masked (Salazar et al. 2020, arXiv 1910.14659);
- `within_word_l2r`: the same, with the later tokens of its word masked too (Kauf and Ivanova 2023,
  arXiv 2305.10588);
- `causal`: a decoder's probability of the token after the ones before it;
- `rtd`: the probability that ELECTRA's discriminator gives to the token's being original.

An input that is needed more than once, as where the two sentences of a pair differ in the masked
token alone, is computed once.
"""

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

METRICS = ("pll", "within_word_l2r", "causal", "rtd")
MASKING_METRICS = ("pll", "within_word_l2r")

# A word, a sign or a run of blanks; each word or sign may take the blanks before it.
_WORDS_AND_SIGNS = re.compile(r"\s*(?:\w+|[^\w\s])")
_BETWEEN_BLANKS = re.compile(r"\s*\S+")


@dataclass(frozen=True)
class EncodedSentence:
    """A sentence as a model takes it.

    Attributes:
        ids: Token ids, special ones included.
        scored: Positions of the tokens that the score is a sum over.
        words: Number of the word that each token is of, None for special tokens.
    """

    ids: tuple[int, ...]
    scored: tuple[int, ...]
    words: tuple[int | None, ...] | None = None


@dataclass(frozen=True)
class ScoringPlan:
    """Inputs, each there once, and the terms of the sentences' scores.

    Attributes:
        rows: Token ids of each input.
        term_rows: Input of each term, (terms,); ascending.
        term_positions: Position of the logits that a term is read off, (terms,).
        term_tokens: The token whose probability it is, (terms,).
        term_sentences: The sentence that it is of, (terms,).
    """

    rows: list[tuple[int, ...]]
    term_rows: np.ndarray
    term_positions: np.ndarray
    term_tokens: np.ndarray
    term_sentences: np.ndarray

    def select_terms(self, rows: np.ndarray) -> np.ndarray:
        """Returns the terms that are read off some inputs, (terms of them,)."""
        starts = np.searchsorted(self.term_rows, rows, side="left")
        ends = np.searchsorted(self.term_rows, rows, side="right")
        return np.concatenate([np.arange(*span) for span in zip(starts, ends, strict=True)])


def check_special_tokens(tokenizer: PreTrainedTokenizerBase, metric: str) -> None:
    """Warns of special tokens that a tokenizer has, but does not put around a sentence.

    Raises:
        ValueError: The metric masks tokens and the tokenizer has no mask token.
    """
    if metric in MASKING_METRICS and tokenizer.mask_token_id is None:
        raise ValueError(
            f"metric {metric!r} masks tokens, and the tokenizer has no mask token; a decoder is "
            "scored with metric 'causal'"
        )
    if metric == "causal":
        if tokenizer.bos_token_id is None and not tokenizer.num_special_tokens_to_add():
            logger.warning(
                "the tokenizer has no token that begins a text: the first token of a sentence has "
                "nothing before it and is not scored"
            )
        return
    added = tokenizer("a").input_ids
    absent = [
        token
        for token, number in (
            (tokenizer.cls_token, tokenizer.cls_token_id),
            (tokenizer.sep_token, tokenizer.sep_token_id),
        )
        if number is not None and number not in added
    ]
    if absent:
        logger.warning(
            "the tokenizer has %s, but does not put it around a text: sentences are scored "
            "without it; if the model was trained with it, give the tokenizer a template",
            " and ".join(map(str, absent)),
        )


def _find_words(tokenizer: PreTrainedTokenizerBase, text: str, ids: Sequence[int]) -> list[int]:
    """Returns each token's word where the tokenizer does not tell: from the pieces of the text.

    Args:
        tokenizer: A tokenizer written in Python.
        text: The sentence.
        ids: Its token ids, without special tokens.

    Raises:
        ValueError: No way to cut the text into words gives these ids.
    """
    for pattern in (_WORDS_AND_SIGNS, _BETWEEN_BLANKS):
        pieces = [
            tokenizer(piece, add_special_tokens=False).input_ids for piece in pattern.findall(text)
        ]
        if [number for piece in pieces for number in piece] == list(ids):
            return [word for word, piece in enumerate(pieces) for _ in piece]
    raise ValueError(
        f"{text!r}: the tokenizer does not tell which tokens make a word, which metric "
        "'within_word_l2r' needs; take a fast tokenizer, or metric 'pll'"
    )


def _spread_words(
    tokenizer: PreTrainedTokenizerBase, text: str, ids: list[int], scored: Sequence[int]
) -> tuple[int | None, ...]:
    words: list[int | None] = [None] * len(ids)
    found = _find_words(tokenizer, text, [ids[position] for position in scored])
    for position, word in zip(scored, found, strict=True):
        words[position] = word
    return tuple(words)


def encode_sentences(
    tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str], metric: str
) -> list[EncodedSentence]:
    """Encodes sentences with the special tokens that the tokenizer puts around a text.

    Only `causal` adds one: the token that begins a text, where the tokenizer has it and does not
    put it there itself, so that the first token is scored too.

    Args:
        tokenizer: Any tokenizer.
        sentences: Plain text.
        metric: One of `METRICS`.

    Raises:
        ValueError: The metric needs words, and they cannot be told.
    """
    encodings = tokenizer(list(sentences), return_attention_mask=False)
    special = {
        tokenizer.pad_token_id,
        tokenizer.cls_token_id,
        tokenizer.sep_token_id,
        tokenizer.bos_token_id,
        tokenizer.eos_token_id,
    }
    encoded = []
    for number, ids in enumerate(encodings["input_ids"]):
        if metric == "causal":
            if tokenizer.bos_token_id is not None and ids[:1] != [tokenizer.bos_token_id]:
                ids = [tokenizer.bos_token_id, *ids]
            encoded.append(EncodedSentence(tuple(ids), tuple(range(1, len(ids)))))
            continue
        scored = [position for position, token in enumerate(ids) if token not in special]
        words = None
        if metric == "within_word_l2r" and tokenizer.is_fast:
            words = tuple(encodings.word_ids(number))
        elif metric == "within_word_l2r":
            words = _spread_words(tokenizer, sentences[number], ids, scored)
        encoded.append(EncodedSentence(tuple(ids), tuple(scored), words))
    return encoded


def _list_masked(sentence: EncodedSentence, position: int) -> list[int]:
    """Returns the positions that are masked where the token at one of them is scored."""
    words = sentence.words
    if words is None or words[position] is None:
        return [position]
    later = [other for other in sentence.scored if other > position]
    return [position, *(other for other in later if words[other] == words[position])]


def _list_inputs(
    sentence: EncodedSentence, metric: str, mask_id: int | None
) -> Iterable[tuple[tuple[int, ...], int, int]]:
    """Yields input, position of the logits and token of each term of a sentence's score."""
    for position in sentence.scored:
        token = sentence.ids[position]
        if metric in MASKING_METRICS and mask_id is not None:
            row = list(sentence.ids)
            for masked in _list_masked(sentence, position):
                row[masked] = mask_id
            yield tuple(row), position, token
        else:
            yield sentence.ids, position - (metric == "causal"), token


def plan_scoring(
    sentences: Sequence[EncodedSentence], metric: str, mask_id: int | None
) -> ScoringPlan:
    """Returns what has to be computed for the scores of sentences.

    Args:
        sentences: The sentences.
        metric: One of `METRICS`.
        mask_id: Id of the mask token.
    """
    numbers: dict[tuple[int, ...], int] = {}
    terms = []
    for number, sentence in enumerate(sentences):
        for row, position, token in _list_inputs(sentence, metric, mask_id):
            terms.append((numbers.setdefault(row, len(numbers)), position, token, number))
    columns = np.array(sorted(terms), dtype=np.int64).reshape(-1, 4).T
    return ScoringPlan(list(numbers), *columns)


def make_batches(rows: Sequence[Sequence[int]], batch_size: int) -> list[np.ndarray]:
    """Returns batches of inputs of equal length: so there is no padding.

    They do not depend on how many processes share them.

    Args:
        rows: Token ids of each input.
        batch_size: Tokens of a batch; an input that is longer makes one alone.

    Returns:
        Numbers of the inputs of each batch, long ones first.
    """
    lengths = np.array([len(row) for row in rows])
    batches = []
    for length in np.unique(lengths)[::-1]:
        group = np.flatnonzero(lengths == length)
        num_rows = max(1, batch_size // int(length))
        batches += np.array_split(group, -(-len(group) // num_rows))
    return batches
