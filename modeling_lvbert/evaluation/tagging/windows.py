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
"""Windows of the tokens of sentences, in which every word has one token that its tag is read from.

As in BERT (arXiv 1810.04805, section 5.3) a word's first token has its tag. Sentences that are too
long are not cut off but read through overlapping windows.
"""

import json
import logging
from collections.abc import Sequence
from typing import Any

import datasets
from transformers import PreTrainedTokenizerBase

from ..window_trainer import ROW, drop_columns
from .data import Sentence

logger = logging.getLogger(__name__)

IGNORED = -100
# What is needed to bring tags back to words: the sentence's number, the tokens to read and the
# words that they stand for.
SCORING_COLUMNS = ("sentence", "tokens_read", "words_read")
# Share of a window that its neighbour sees as well.
_OVERLAP = 0.25


def build_rows(
    sentences: Sequence[Sentence],
    tokenizer: PreTrainedTokenizerBase,
    labels: Sequence[str],
    longest: int,
    *,
    label_all_tokens: bool,
    trains: bool,
    **map_options: Any,
) -> datasets.Dataset:
    """Builds the rows of sentences, a window each.

    Each word's tag is a label in one window, that which shows most around it. A window without
    labels is left out.

    Args:
        sentences: The sentences; those without tags get no labels.
        tokenizer: A fast tokenizer.
        labels: The tags in the order of their numbers; words with others have no label.
        longest: Tokens of a window at most.
        label_all_tokens: Whether further tokens of a word have a label too, where `trains`.
        trains: Whether to leave out what only scoring needs.
        map_options: Arguments of `Dataset.map`.

    Raises:
        ValueError: A word has no tokens, and the tokenizer no unknown token to stand for it.
    """
    numbers = {label: number for number, label in enumerate(labels)}
    table = datasets.Dataset.from_dict(
        {
            "sentence": range(len(sentences)),
            "words": [list(sentence.words) for sentence in sentences],
            "tags": [[numbers.get(tag, IGNORED) for tag in s.tags or ()] for s in sentences],
        },
        features=datasets.Features(
            {
                "sentence": datasets.Value("int64"),
                "words": datasets.List(datasets.Value("string")),
                "tags": datasets.List(datasets.Value("int64")),
            }
        ),
    )
    followers = list_followers(labels) if label_all_tokens and trains else None
    rows = table.map(
        lambda part: _make_rows(part, tokenizer, longest, followers),
        batched=True,
        batch_size=100,
        remove_columns=table.column_names,
        desc="Tokenizing",
        **map_options,
    )
    num_long = len(rows) - len(set(rows["sentence"])) if len(rows) else 0
    if num_long:
        logger.warning(
            "some sentences have more than %s tokens: %s further windows show the rest of them",
            longest,
            num_long,
        )
    if trains:
        return drop_columns(rows, SCORING_COLUMNS)
    if sentences[0].tags is None:
        rows = rows.remove_columns(["labels"])
    return rows.add_column(ROW, list(range(len(rows))))


def list_followers(labels: Sequence[str]) -> list[int]:
    """Returns the label of a word's further tokens, by that of its first: I- after B-, if known."""
    numbers = {label: number for number, label in enumerate(labels)}
    return [
        numbers.get(f"I-{label[2:]}", number) if label.startswith("B-") else number
        for number, label in enumerate(labels)
    ]


def encode_words(
    sentences: Sequence[Sequence[str]], tokenizer: PreTrainedTokenizerBase
) -> list[tuple[dict[str, list[int]], list[int | None]]]:
    """Encodes sentences so that every word has a token.

    Args:
        sentences: The words of each.
        tokenizer: A fast tokenizer. Words of which it makes nothing, as control characters, become
            its unknown token.

    Returns:
        The model's inputs, uncut, and for each token its word, None for special tokens.

    Raises:
        ValueError: A word has no tokens, and the tokenizer no unknown token.
    """
    blank = " " if _needs_blank(tokenizer) else ""
    prepared = [[blank + word for word in words] for words in sentences]
    encoded = tokenizer(prepared, is_split_into_words=True, verbose=False)
    wordless = False
    for number, words in enumerate(sentences):
        for word in set(range(len(words))) - set(encoded.word_ids(number)):
            if tokenizer.unk_token is None:
                raise ValueError(
                    f"the tokenizer makes nothing of the word {words[word]!r}, and has no unknown "
                    "token for it"
                )
            prepared[number][word] = tokenizer.unk_token
            wordless = True
    if wordless:
        encoded = tokenizer(prepared, is_split_into_words=True, verbose=False)
    return [
        ({name: encoded[name][number] for name in encoded}, encoded.word_ids(number))
        for number in range(len(sentences))
    ]


def _needs_blank(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Returns whether a byte-level tokenizer takes a word without a blank for a part of a word."""
    state = json.loads(tokenizer.backend_tokenizer.to_str())["pre_tokenizer"] or {}
    return any(
        step["type"] == "ByteLevel" and not step["add_prefix_space"]
        for step in state.get("pretokenizers", [state])
        if step
    )


def choose_windows(windows: Sequence[Sequence[int]]) -> list[set[int]]:
    """Chooses for each unit of a text the window that shows most of what is around it.

    That is the window whose nearer border is farthest away, the first of several.

    Args:
        windows: Numbers of the units (characters, words) at the tokens of each window, ascending.

    Returns:
        The units that each window is best for; every unit is in one of the sets.
    """
    best: dict[int, tuple[int, int]] = {}
    for number, units in enumerate(windows):
        for position, unit in enumerate(units):
            margin = min(position, len(units) - 1 - position)
            if unit not in best or margin > best[unit][0]:
                best[unit] = (margin, number)
    chosen: list[set[int]] = [set() for _ in windows]
    for unit, (_, number) in best.items():
        chosen[number].add(unit)
    return chosen


def _make_rows(
    part: dict[str, list[Any]],
    tokenizer: PreTrainedTokenizerBase,
    longest: int,
    followers: Sequence[int] | None,
) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {}
    filled = [number for number, words in enumerate(part["words"]) if words]
    encodings = encode_words([part["words"][n] for n in filled], tokenizer) if filled else []
    for number, (inputs, words) in zip(filled, encodings, strict=True):
        tags = part["tags"][number] or [IGNORED] * len(part["words"][number])
        for row in _cut_windows(inputs, words, tags, longest, followers):
            for name, value in {**row, "sentence": part["sentence"][number]}.items():
                columns.setdefault(name, []).append(value)
    if not columns:
        names = (*tokenizer.model_input_names, "labels", *SCORING_COLUMNS)
        columns = {name: [] for name in names}
    return columns


def _cut_windows(
    inputs: dict[str, list[int]],
    words: list[int | None],
    tags: list[int],
    longest: int,
    followers: Sequence[int] | None,
) -> list[dict[str, list[int]]]:
    inside = [place for place, word in enumerate(words) if word is not None]
    begin, end = inside[0], inside[-1] + 1
    room = longest - begin - (len(words) - end)
    step = room - int(room * _OVERLAP)
    starts = range(begin, max(begin + 1, end - room + step), step)
    windows = [range(start, min(start + room, end)) for start in starts]
    rows = []
    for window, best in zip(windows, choose_windows(windows), strict=True):
        places = [*range(begin), *window, *range(end, len(words))]
        row = {name: [values[place] for place in places] for name, values in inputs.items()}
        row |= {"labels": [IGNORED] * len(places), "tokens_read": [], "words_read": []}
        for token, place in enumerate(window, start=begin):
            word = words[place]
            if word is None or place not in best:
                continue
            if place == begin or words[place - 1] != word:
                row["labels"][token] = tags[word]
                row["tokens_read"].append(token)
                row["words_read"].append(word)
            elif followers is not None and tags[word] != IGNORED:
                row["labels"][token] = followers[tags[word]]
        if row["tokens_read"] or any(label != IGNORED for label in row["labels"]):
            rows.append(row)
    return rows
