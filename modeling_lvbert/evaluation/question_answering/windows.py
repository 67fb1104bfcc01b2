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
"""Windows of question and context, and from a model's scores back to answers.

As in BERT (arXiv 1810.04805, section 4.2 and 4.3): a context that is too long is cut into
overlapping windows, an answer's score is the sum of those of its first and last token, and silence
has the score of the [CLS] token at both.
"""

import logging
from collections.abc import Sequence
from typing import Any

import datasets
from transformers import BatchEncoding, PreTrainedTokenizerBase

from ..window_trainer import ROW
from .data import Question

logger = logging.getLogger(__name__)

# Columns that answers are made with: the question's number, places of the context's tokens in it as
# pairs of characters (other tokens have two equal numbers), the token that stands for silence.
SCORING_COLUMNS = ("question", "offsets", "null_position")
_TARGETS = ("start_positions", "end_positions")


def build_windows(
    questions: Sequence[Question],
    tokenizer: PreTrainedTokenizerBase,
    longest: int,
    overlap: int,
    *,
    trains: bool,
    **map_options: Any,
) -> datasets.Dataset:
    """Builds the rows of questions, a window each.

    Args:
        questions: The questions.
        tokenizer: A fast tokenizer.
        longest: Tokens of a window at most.
        overlap: Tokens that neighbouring windows share; questions of which no more than this fits
            beside are cut.
        trains: Whether the columns are `start_positions` and `end_positions`, both [CLS] where the
            window does not have the whole answer, or else those that answers are made with.
        map_options: Arguments of `Dataset.map`.

    Raises:
        ValueError: No room for question and context beside the overlap.
    """
    num_special = tokenizer.num_special_tokens_to_add(pair=True)
    room = longest - num_special - overlap - 1
    if overlap < 0 or room < 1:
        raise ValueError(
            f"doc_stride {overlap}: must be at least 0 and at most {longest - num_special - 2}, "
            f"for windows of {longest} tokens, {num_special} of them special, must have room for "
            "the question and go on"
        )
    texts, num_cut = shorten_questions([question.text for question in questions], tokenizer, room)
    if num_cut:
        logger.warning("%s of %s questions are cut at %s tokens", num_cut, len(questions), room)
    table = datasets.Dataset.from_dict(
        {
            "question": range(len(questions)),
            "text": texts,
            "context": [question.context for question in questions],
            "span": [question.span for question in questions],
        }
    )
    rows = table.map(
        lambda part: _make_rows(part, tokenizer, longest, overlap, trains),
        batched=True,
        batch_size=100,
        remove_columns=table.column_names,
        desc="Tokenizing",
        **map_options,
    )
    return rows if trains else rows.add_column(ROW, list(range(len(rows))))


def shorten_questions(
    texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, longest: int
) -> tuple[list[str], int]:
    """Cuts questions that have too many tokens, between characters.

    Returns:
        The questions, and how many were cut.
    """
    encoded = tokenizer(list(texts), add_special_tokens=False, verbose=False)
    shortened, num_cut = list(texts), 0
    for number, tokens in enumerate(encoded["input_ids"]):
        if len(tokens) > longest:
            shortened[number] = _shorten(texts[number], tokenizer, longest)
            num_cut += 1
    return shortened, num_cut


def _shorten(text: str, tokenizer: PreTrainedTokenizerBase, longest: int) -> str:
    while text:
        encoded = tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        offsets = encoded["offset_mapping"]
        if len(offsets) <= longest:
            break
        # A character may have several tokens, and a token no character.
        text = text[: min(offsets[longest][0], len(text) - 1)]
    return text


def _make_rows(
    part: dict[str, list[Any]],
    tokenizer: PreTrainedTokenizerBase,
    longest: int,
    overlap: int,
    trains: bool,
) -> dict[str, list[Any]]:
    # Where padding is on the left, models were trained with the context first.
    question_first = tokenizer.padding_side == "right"
    pair = (part["text"], part["context"]) if question_first else (part["context"], part["text"])
    encoded = tokenizer(
        *pair,
        truncation="only_second" if question_first else "only_first",
        max_length=longest,
        stride=overlap,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    owners = encoded.pop("overflow_to_sample_mapping")
    all_offsets = encoded.pop("offset_mapping")
    added: dict[str, list[Any]] = {name: [] for name in (_TARGETS if trains else SCORING_COLUMNS)}
    for number, owner in enumerate(owners):
        offsets = trim_offsets(
            all_offsets[number],
            [segment == int(question_first) for segment in encoded.sequence_ids(number)],
            part["context"][owner],
        )
        null = _find_null_position(encoded, number, tokenizer)
        if trains:
            values: tuple[Any, ...] = find_target(offsets, part["span"][owner]) or (null, null)
        else:
            values = (part["question"][owner], offsets, null)
        for name, value in zip(added, values, strict=True):
            added[name].append(value)
    return {**encoded, **added}


def trim_offsets(
    offsets: Sequence[tuple[int, int]], is_context: Sequence[bool], context: str
) -> list[tuple[int, int]]:
    """Returns the places of tokens in a context without the blanks around them.

    Byte-level tokenizers count the blank before a word as a part of it.

    Args:
        offsets: First character of each token, and the one after its last.
        is_context: Whether the token is one of the context.
        context: The context.

    Returns:
        The places; two equal numbers for tokens of blanks only and for those of other texts.
    """
    trimmed = []
    for (start, end), inside in zip(offsets, is_context, strict=True):
        if not inside:
            end = start
        while start < end and context[start].isspace():
            start += 1
        while start < end and context[end - 1].isspace():
            end -= 1
        trimmed.append((start, end))
    return trimmed


def find_target(
    offsets: Sequence[tuple[int, int]], span: tuple[int, int] | None
) -> tuple[int, int] | None:
    """Returns the first and last token of an answer, None if the window does not have it whole.

    Args:
        offsets: Result of `trim_offsets`.
        span: First character of the answer and the one after its last; None without answer.
    """
    if span is None:
        return None
    start, end = span
    inside = [number for number, (first, last) in enumerate(offsets) if first < last]
    if not inside or start < offsets[inside[0]][0] or end > offsets[inside[-1]][1]:
        return None
    touching = [number for number in inside if offsets[number][1] > start]
    touching = [number for number in touching if offsets[number][0] < end]
    return (touching[0], touching[-1]) if touching else None


def _find_null_position(
    encoded: BatchEncoding, number: int, tokenizer: PreTrainedTokenizerBase
) -> int:
    """Returns the place of [CLS] or, in models without it, of the first token."""
    segments = encoded.sequence_ids(number)
    for position, token in enumerate(encoded["input_ids"][number]):
        if token == tokenizer.cls_token_id and segments[position] is None:
            return position
    return 0
