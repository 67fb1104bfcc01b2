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
"""Trains the two families' kinds of WordPiece tokenizer on a corpus.

LV-BERT: BERT's own kind, lower-casing, continuations marked by "##". ELC-BERT: the kind of the
authors' files, WordPiece without a continuation mark over byte-level characters, digits one by one,
case kept; unlike theirs, ours adds [CLS] and [SEP] by itself.
"""

import collections
import string
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import datasets
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import BertTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

BERT_SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ELCBERT_SPECIAL_TOKENS = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", "[PAR]", "[TAB]"]

# Bytes of text up to which a vocabulary of that size is taken; ours.
_SIZES = ((16_000_000, 4_096), (128_000_000, 8_192), (1_000_000_000, 16_384))
_LARGEST_SIZE = 30_522
_LARGEST_TRAINED = 10_000_000
_MAX_ALPHABET = 1_000


def choose_vocab_size(documents: datasets.Dataset) -> int:
    """Returns a vocabulary size for a corpus: 4,096 up to 16 MB of text, 30,522 from 1 GB on."""
    num_bytes = documents.data.nbytes
    return next((size for limit, size in _SIZES if num_bytes <= limit), _LARGEST_SIZE)


def check_model_family(model_family: str) -> None:
    """Checks that there is a kind of tokenizer for a family of models.

    Raises:
        ValueError: There is none.
    """
    if model_family not in _TRAINERS:
        raise ValueError(f"model_family {model_family!r}: must be one of {', '.join(_TRAINERS)}")


def check_vocab_size(vocab_size: int) -> None:
    """Checks that a vocabulary to train has room for the alphabet.

    Raises:
        ValueError: It has not.
    """
    # The ELC kind starts from all 256 bytes, the BERT kind from the characters of the text.
    smallest = len(ELCBERT_SPECIAL_TOKENS) + 256
    if not smallest <= vocab_size <= _LARGEST_TRAINED:
        raise ValueError(
            f"vocab_size {vocab_size}: at least {smallest} is needed to train a tokenizer, and at "
            f"most {_LARGEST_TRAINED} is possible"
        )


def train_tokenizer(
    documents: datasets.Dataset, model_family: str, vocab_size: int, model_max_length: int
) -> PreTrainedTokenizerBase:
    """Trains a tokenizer of the family's kind.

    Args:
        documents: Documents with a column `text`.
        model_family: "lvbert" or "elcbert".
        vocab_size: Largest number of tokens, special tokens included; a small corpus may give
            fewer.
        model_max_length: Longest input of the model, tokens.

    Raises:
        ValueError: An unknown family, no room for the alphabet in `vocab_size`, or for a token
            between [CLS] and [SEP] in `model_max_length`.
    """
    check_model_family(model_family)
    check_vocab_size(vocab_size)
    if model_max_length < 3:
        raise ValueError(f"model_max_length {model_max_length}: must be at least 3")
    return _TRAINERS[model_family](documents, vocab_size, model_max_length)


def compute_f95(documents: datasets.Dataset, tokenizer: PreTrainedTokenizerBase) -> int:
    """Returns how often the rarest token occurs that is not among the rarest 5%.

    Of the n tokens that occur at all, from the most frequent on, this is number floor(0.95 n),
    counted from 0, as ELC-BERT's authors have it, who hold that about 100 is good and name
    two tokenizers after it.

    Args:
        documents: Documents with a column `text`, usually those that the tokenizer is from.
        tokenizer: The tokenizer; the special tokens that it adds do not count.

    Raises:
        ValueError: There is no token.
    """
    counts: collections.Counter[int] = collections.Counter()
    for lines in _iterate_texts(documents):
        if lines:
            for ids in tokenizer(lines, add_special_tokens=False, verbose=False)["input_ids"]:
                counts.update(ids)
    if not counts:
        raise ValueError(f"{len(documents)} documents have no token, at least one is needed")
    return sorted(counts.values(), reverse=True)[len(counts) * 95 // 100]


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, output_dir: str) -> None:
    """Saves a tokenizer into a new folder, which appears when it is complete.

    Args:
        tokenizer: The tokenizer.
        output_dir: See `check_output_dir`.
    """
    check_output_dir(output_dir)
    folder = Path(output_dir).absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        complete = Path(temporary, folder.name)
        tokenizer.save_pretrained(complete)
        complete.rename(folder)


def check_output_dir(output_dir: str) -> None:
    """Checks that there is no file and no filled folder of that name, nor a file on the way to it.

    Raises:
        ValueError: There is one.
    """
    folder = Path(output_dir).absolute()
    lowest = next(path for path in (folder, *folder.parents) if path.exists())
    if not lowest.is_dir():
        raise ValueError(f"output_dir {output_dir!r}: {str(lowest)!r} is a file, no folder")
    if lowest == folder and any(folder.iterdir()):
        raise ValueError(f"output_dir {output_dir!r} is not empty: take a new folder")


def _iterate_texts(documents: datasets.Dataset) -> Iterator[list[str]]:
    for start in range(0, len(documents), 100):
        texts = documents[start : start + 100]["text"]
        yield [line for text in texts for line in text.splitlines()]


def _find_alphabet(documents: datasets.Dataset, normalizer: normalizers.Normalizer) -> list[str]:
    """Returns the most frequent characters of a normalized corpus and all of ASCII, ascending.

    ASCII is there whole: a small corpus may lack a digit, or have quotes in their typographic form
    only.
    """
    counts: collections.Counter[str] = collections.Counter()
    for lines in _iterate_texts(documents):
        counts.update(normalizer.normalize_str(" ".join(lines)))
    frequent = sorted(counts, key=lambda char: (-counts[char], char))[:_MAX_ALPHABET]
    ascii_characters = {*string.ascii_lowercase, *string.digits, *string.punctuation}
    return sorted({char for char in frequent if not char.isspace()} | ascii_characters)


def _train_bert_tokenizer(
    documents: datasets.Dataset, vocab_size: int, model_max_length: int
) -> BertTokenizer:
    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    alphabet = _find_alphabet(documents, backend.normalizer)
    inner = [
        char for char in alphabet if len(backend.pre_tokenizer.pre_tokenize_str(f"a{char}")) == 1
    ]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        # Left to itself, the trainer numbers characters within words at random, and breaks ties
        # between merges by these numbers.
        special_tokens=[*BERT_SPECIAL_TOKENS, *(f"##{char}" for char in inner)],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    backend.train_from_iterator(_iterate_texts(documents), trainer)
    return BertTokenizer(
        vocab=backend.get_vocab(), do_lower_case=True, model_max_length=model_max_length
    )


def _train_elcbert_tokenizer(
    documents: datasets.Dataset, vocab_size: int, model_max_length: int
) -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.WordPiece(unk_token="[UNK]", continuing_subword_prefix=""))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.ByteLevel(add_prefix_space=True),
            pre_tokenizers.Digits(individual_digits=True),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        # [MASK] takes the blank before it, which is part of the word that it stands for.
        special_tokens=[
            AddedToken(t, lstrip=t == "[MASK]", special=True) for t in ELCBERT_SPECIAL_TOKENS
        ],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        continuing_subword_prefix="",
        show_progress=False,
    )
    # [TAB] is a token of its own; training, unlike tokenizing, would take it for a word.
    texts = ([line.removeprefix("[TAB] ") for line in lines] for lines in _iterate_texts(documents))
    backend.train_from_iterator(texts, trainer)
    template = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, backend.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    # The first leaves the blank before a word out of its offsets.
    backend.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=True), template]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        mask_token=AddedToken("[MASK]", lstrip=True, special=True),
        extra_special_tokens=["[PAR]", "[TAB]"],
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=model_max_length,
    )


_TRAINERS: dict[str, Callable[[datasets.Dataset, int, int], PreTrainedTokenizerBase]] = {
    "lvbert": _train_bert_tokenizer,
    "elcbert": _train_elcbert_tokenizer,
}
