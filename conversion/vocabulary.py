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
"""Turns the originals' vocabularies into complete fast tokenizers."""

import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, processors
from transformers import BertTokenizer, PreTrainedTokenizerFast

logger = logging.getLogger(__name__)

SPECIAL_TOKENS: dict[str, Any] = {
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "mask_token": "[MASK]",
}


def wordpiece_tokenizer(vocab_file: Path, model_max_length: int) -> BertTokenizer:
    """Returns the lower-casing BERT tokenizer of a `vocab.txt`, the line number being the id.

    Args:
        vocab_file: One entry a line; either line end will do.
        model_max_length: Longest input of the model, in tokens.

    Raises:
        ValueError: The file is no UTF-8 text, has an empty line or lacks a special token.
    """
    entries = _make_distinct(_read_entries(vocab_file), vocab_file)
    vocabulary = {entry: index for index, entry in enumerate(entries)}
    _check_special_tokens(vocabulary, vocab_file)
    return BertTokenizer(
        vocab=vocabulary, do_lower_case=True, model_max_length=model_max_length, **SPECIAL_TOKENS
    )


def _read_entries(vocab_file: Path) -> list[str]:
    try:
        text = vocab_file.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{vocab_file}: not UTF-8 text: {error}") from error
    # str.splitlines would also split at characters that are entries of their own.
    entries = [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]
    if empty := [number for number, entry in enumerate(entries, 1) if not entry]:
        raise ValueError(f"{vocab_file}: empty lines {empty[:10]}; every line is an entry")
    return entries


def _make_distinct(entries: list[str], vocab_file: Path) -> list[str]:
    """Replaces entries that occur more than once: no text may become the id of the wrong one.

    The substitutes hold a bracket before letters. The tokenizer parts words at punctuation, so no
    word of any text matches them.
    """
    counts = Counter(entries)
    repeated = sum(count for count in counts.values() if count > 1)
    if not repeated:
        return entries
    logger.warning(
        "%s is damaged: %d of its %d lines occur more than once, %d are not plain ASCII. Ids stay "
        "as they are and the repeated entries match no text, so text beyond ASCII is tokenized "
        "badly. The published LV-BERT vocabulary has this fault; it is the bert-base-uncased list "
        "with mangled characters: pass that list instead",
        vocab_file,
        repeated,
        len(entries),
        sum(not entry.isascii() for entry in entries),
    )
    return [
        _substitute(entry, index) if counts[entry] > 1 else entry
        for index, entry in enumerate(entries)
    ]


def _substitute(entry: str, index: int) -> str:
    if entry in SPECIAL_TOKENS.values():
        raise ValueError(f"special token {entry} occurs more than once in the vocabulary")
    return f"{'##' if entry.startswith('##') else ''}[repeated{index}]"


def _check_special_tokens(vocabulary: dict[str, int], source: Path) -> None:
    if missing := sorted(set(SPECIAL_TOKENS.values()) - set(vocabulary)):
        raise ValueError(f"{source}: special tokens {missing} are not in the vocabulary")


def elc_tokenizer(tokenizer_file: Path, model_max_length: int) -> PreTrainedTokenizerFast:
    """Returns the tokenizer of an official `tokenizer.json`, with what the file leaves out.

    [CLS] and [SEP] are put around a text or a pair, [MASK] takes the blank before it, and only
    special tokens of the vocabulary are declared ([BOS] and [EOS], which the original's side file
    names, are not in it).

    Args:
        tokenizer_file: A `tokenizers` JSON file.
        model_max_length: Longest input that the model was trained for, in tokens.

    Raises:
        ValueError: The file is none, or lacks a special token.
    """
    tokenizer = _read_tokenizer(tokenizer_file)
    vocabulary = tokenizer.get_vocab()
    _check_special_tokens(vocabulary, tokenizer_file)
    ids = tokenizer.encode("a").ids
    if (ids[:1], ids[-1:]) != ([vocabulary["[CLS]"]], [vocabulary["[SEP]"]]):
        template = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
        )
        # The byte-level processor stays: it keeps blanks out of the offsets.
        present = tokenizer.post_processor
        steps = [template] if present is None else [present, template]
        tokenizer.post_processor = processors.Sequence(steps)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=model_max_length,
        # The model has no segments.
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        **SPECIAL_TOKENS,
    )


def _read_tokenizer(tokenizer_file: Path) -> Tokenizer:
    text = tokenizer_file.read_bytes()
    try:
        content = json.loads(text)
        for token in content["added_tokens"]:
            if token["content"] == SPECIAL_TOKENS["mask_token"]:
                token["lstrip"] = True
        return Tokenizer.from_str(json.dumps(content))
    # `tokenizers` raises plain Exception for a file of another form.
    except Exception as error:
        raise ValueError(f"{tokenizer_file}: not a tokenizers JSON file: {error}") from error
