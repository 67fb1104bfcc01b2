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
"""Rows of tokens out of documents.

By default a row is `[CLS] tokens [SEP]`, cut from one document, so it never crosses a document's
border; the remainder of a document is a shorter row. `published_packing` has the papers' own ways.
The rows live in a memory-mapped `datasets` cache named by their content.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import datasets
from datasets.fingerprint import Hasher
from transformers import PreTrainedTokenizerBase

from .code_hash import hash_code
from .corpus import split_sentences
from .masking import NO_WORD, count_token_ids
from .published_packing import (
    SHORTEST_RANDOM_LENGTH,
    find_paragraph_id,
    number_words,
    pack_segment_pairs,
    pack_sentences,
)

# How documents become rows, and the shortest row that each needs, tokens.
PACKINGS = {"documents": 3, "segment_pairs": SHORTEST_RANDOM_LENGTH, "sentences": 3}

# Bytes of text that are kept together in the cache: a minute's work or a few.
_CHUNK_SIZE = 128_000_000
# Bytes of text packed at once: a tokenizer's account of a text is much larger than its tokens.
_BATCH_SIZE = 1_000_000

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


def bind_packing(
    tokenizer: PreTrainedTokenizerBase,
    max_seq_length: int,
    with_word_ids: bool = False,
    packing: str = "documents",
    pair_settings: dict[str, Any] | None = None,
) -> partial[dict[str, list[list[int]]]]:
    """Returns the function that packs documents, given them and their numbers in the corpus.

    What it makes of a document depends on the document and its number alone.

    Args:
        tokenizer: The tokenizer, checked by `check_tokenizer`.
        max_seq_length: Longest row, tokens.
        with_word_ids: See `pack_documents`.
        packing: "documents" (see `pack_documents`), "segment_pairs" (ELECTRA's, with
            `token_type_ids`) or "sentences" (ELC-BERT's, with [PAR]).
        pair_settings: Seed and probabilities of "segment_pairs", see `pack_segment_pairs`.

    Raises:
        ValueError: Unknown packing, rows too short to hold a token, word ids from a slow
            tokenizer, or a tokenizer without [PAR].
    """
    check_packing(packing, max_seq_length)
    _check_tokenizer_for(packing, tokenizer, with_word_ids)
    return partial(
        _pack,
        tokenizer=tokenizer,
        max_seq_length=max_seq_length,
        with_word_ids=with_word_ids,
        packing=packing,
        pair_settings=dict(pair_settings or {}) if packing == "segment_pairs" else {},
    )


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

    A large corpus is packed in chunks, each kept when it is ready: what was interrupted goes on
    with the chunk that it was at, with any number of processes.

    Args:
        documents: Documents with a column `text`.
        tokenizer: See `bind_packing`, as all but the next two.
        max_seq_length: Longest row, tokens.
        with_word_ids: See `pack_documents`.
        num_proc: Number of processes.
        description: Title of the progress bar.
        packing: Kind of packing.
        pair_settings: Seed and probabilities of "segment_pairs".

    Raises:
        ValueError: See `bind_packing`; or there is no row at all.
    """
    pack = bind_packing(tokenizer, max_seq_length, with_word_ids, packing, pair_settings)
    columns = {"input_ids": datasets.Sequence(datasets.Value("int32"))}
    if with_word_ids:
        columns["word_ids"] = datasets.Sequence(datasets.Value("int32"))
    if packing == "segment_pairs":
        columns["token_type_ids"] = datasets.Sequence(datasets.Value("int8"))
    # Named by hand: the state of a fast tokenizer changes with use, so its pickle is no stable
    # name, and `datasets` knows a function by its name alone.
    content = [
        hash_code(__name__, pack_sentences.__module__, split_sentences.__module__),
        documents._fingerprint,
        _describe_tokenizer(tokenizer),
        sorted((name, value) for name, value in pack.keywords.items() if name != "tokenizer"),
    ]
    document_size = max(1, documents.data.nbytes // max(1, documents.data.num_rows))
    chunks = _cut_chunks(len(documents), max(1, _CHUNK_SIZE // document_size))
    parts = [
        documents.select(chunk).map(
            _pack_chunk,
            batched=True,
            with_indices=True,
            batch_size=min(1000, max(1, _BATCH_SIZE // document_size)),
            remove_columns=documents.column_names,
            features=datasets.Features(columns),
            fn_kwargs={"pack": pack, "first": chunk.start},
            num_proc=num_proc if num_proc and num_proc > 1 else None,
            new_fingerprint=Hasher.hash([*content, chunk.start, chunk.stop]),
            desc=description if len(chunks) == 1 else f"{description} {number}/{len(chunks)}",
        )
        for number, chunk in enumerate(chunks, start=1)
    ]
    rows = datasets.concatenate_datasets(parts)
    if len(rows) == 0:
        raise ValueError(
            f"{len(documents)} documents gave no row: the tokenizer found no token in them, "
            "at least one is needed"
        )
    return rows


def _cut_chunks(num_documents: int, size: int) -> list[range]:
    starts = range(0, max(1, num_documents), size)
    return [range(start, min(start + size, num_documents)) for start in starts]


def _pack_chunk(
    documents: dict[str, list[str]],
    numbers: list[int],
    pack: Callable[[dict[str, list[str]], list[int]], dict[str, list[list[int]]]],
    first: int,
) -> dict[str, list[list[int]]]:
    return pack(documents, [first + number for number in numbers])


def _describe_tokenizer(tokenizer: PreTrainedTokenizerBase) -> list[Any]:
    backend = {}
    if tokenizer.is_fast:
        backend = json.loads(tokenizer.backend_tokenizer.to_str())
        # The last call's settings.
        backend.update(truncation=None, padding=None)
    vocabulary = sorted(tokenizer.get_vocab().items())
    roles = [tokenizer.cls_token_id, tokenizer.sep_token_id]
    return [type(tokenizer).__name__, json.dumps(backend), vocabulary, roles]
