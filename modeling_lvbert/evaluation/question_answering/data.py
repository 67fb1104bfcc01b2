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
"""Questions about texts, from files in SQuAD's nested form or in the flat form of `datasets`.

Nested: `{"data": [{"paragraphs": [{"context", "qas": [{"id", "question", "answers":
[{"text", "answer_start"}]}]}]}]}`. Flat: records of `id`, `context`, `question`, `answers`, which
is `{"text": [...], "answer_start": [...]}`; a list, one a line, or under `data`.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..tables import check_file

logger = logging.getLogger(__name__)

_ANSWER_FORMS = (
    'a list of {"text": ..., "answer_start": ...} or {"text": [...], "answer_start": [...]}'
)


@dataclass(frozen=True)
class Question:
    """A question about a text.

    Attributes:
        name: Its `id`.
        text: The question, without blanks around it.
        context: What it is about, as it stands in the data.
        golds: The right answers, none if there is no answer; None if the data do not say.
        span: First character of the first right answer that the context has, and the one after its
            last; None if there is none.
    """

    name: str
    text: str
    context: str
    golds: tuple[str, ...] | None
    span: tuple[int, int] | None


def read_questions(option: str, path: str) -> list[Question]:
    """Reads the questions of a file.

    Args:
        option: The option that named the file, for messages.
        path: A `.json` or `.jsonl` file in one of the module's forms.

    Raises:
        ValueError: The file is missing, of another kind, damaged or empty, or see
            `parse_questions`.
    """
    file = Path(path)
    if file.suffix.lower() not in (".json", ".jsonl"):
        raise ValueError(f"{option} {path!r}: the name must end in .json or .jsonl")
    check_file(option, path)
    try:
        records = _read_records(file)
    except (OSError, ValueError) as error:
        raise ValueError(f"{option} {path!r}: cannot be read ({error})") from None
    return parse_questions(f"{option} {path!r}", records)


def _read_records(file: Path) -> list[Any]:
    text = file.read_text(encoding="utf-8-sig")
    try:
        whole = json.loads(text)
    except ValueError:
        lines = [line for line in text.split("\n") if line.strip()]
        if len(lines) < 2:
            raise
        return [json.loads(line) for line in lines]
    if isinstance(whole, dict):
        whole = whole.get("data", [whole])
    if not isinstance(whole, list):
        raise ValueError("a list of records is needed")
    return whole


def parse_questions(source: str, records: Sequence[Any]) -> list[Question]:
    """Makes questions of records in SQuAD's nested form or in the flat form.

    Answers that are not where the data say are looked for in the context, the nearest place is
    taken; a warning tells how many were found elsewhere, and how many nowhere.

    Args:
        source: What the records are, for messages.
        records: The records.

    Raises:
        ValueError: A field is missing or wrong, an id is there twice, or there is no question.
    """
    questions: dict[str, Question] = {}
    num_moved = num_lost = 0
    for number, record in enumerate(_flatten(source, records), start=1):
        place = f"{source}: question {number}"
        name = _read_name(place, record)
        if name in questions:
            raise ValueError(f"{place}: id {name!r} is there twice")
        context = _read_text(place, record, "context")
        if not context.strip():
            raise ValueError(f"{place}: the context is empty")
        answers = _read_answers(place, record)
        span, was_moved = _find_span(context, answers or [])
        num_moved += was_moved
        num_lost += bool(answers) and span is None
        golds = None if answers is None else tuple(text for text, _ in answers)
        text = _read_text(place, record, "question").strip()
        questions[name] = Question(name, text, context, golds, span)
    if not questions:
        raise ValueError(f"{source}: no questions")
    if num_moved or num_lost:
        logger.warning(
            "%s: of %s questions, %s have their answer at another place than the data say, %s have "
            "none that the context has and are left out of training",
            source,
            len(questions),
            num_moved,
            num_lost,
        )
    return list(questions.values())


def _flatten(source: str, records: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for number, record in enumerate(records, start=1):
        if not isinstance(record, dict):
            raise ValueError(f"{source}: record {number} must be an object, got {record!r:.50}")
        if "paragraphs" not in record:
            yield record
            continue
        try:
            for paragraph in record["paragraphs"]:
                for question in paragraph["qas"]:
                    yield {**question, "context": paragraph["context"]}
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{source}: record {number} is not in SQuAD's form, paragraphs with context and "
                f"qas ({type(error).__name__}: {error})"
            ) from None


def _read_name(place: str, record: dict[str, Any]) -> str:
    name = record.get("id")
    if not isinstance(name, str | int) or name == "":
        raise ValueError(f"{place}: an id is needed, got {name!r}; fields: {sorted(record)}")
    return str(name)


def _read_text(place: str, record: dict[str, Any], field: str) -> str:
    text = record.get(field)
    if not isinstance(text, str):
        raise ValueError(f"{place}: {field} must be a text, got {text!r}; fields: {sorted(record)}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{place}: {field} has half a character ({error})") from None
    return text


def _read_answers(place: str, record: dict[str, Any]) -> list[tuple[str, int | None]] | None:
    """Returns texts and places of the right answers, None if the record does not say."""
    answers = record.get("answers")
    if answers is None:
        return None
    try:
        if isinstance(answers, dict):
            starts = answers.get("answer_start") or [None] * len(answers["text"])
            pairs = list(zip(answers["text"], starts, strict=True))
        else:
            pairs = [(answer["text"], answer.get("answer_start")) for answer in answers]
    except (KeyError, TypeError, ValueError, AttributeError):
        pairs = [(None, None)]
    for text, start in pairs:
        if not isinstance(text, str) or not isinstance(start, int | None):
            raise ValueError(f"{place}: answers must be {_ANSWER_FORMS}, got {answers!r:.100}")
    return pairs


def _find_span(
    context: str, answers: Sequence[tuple[str, int | None]]
) -> tuple[tuple[int, int] | None, bool]:
    """Returns the place of the first answer that is there, and if the data say another place."""
    for text, start in answers:
        span = locate_answer(context, text, start)
        if span is not None:
            first = None if start is None else start + len(text) - len(text.lstrip())
            return span, first is not None and first != span[0]
    return None, False


def locate_answer(context: str, text: str, start: int | None) -> tuple[int, int] | None:
    """Returns the first character of an answer in a context and the one after its last.

    Args:
        context: The context.
        text: The answer; blanks around it do not count.
        start: Where it should be; of several places the nearest is taken, without this the first.

    Returns:
        The place, or None if the answer is empty or not there.
    """
    wanted = text.strip()
    if not wanted:
        return None
    # Blanks before the answer are part of where the data say that it begins.
    start = (start or 0) + len(text) - len(text.lstrip())
    if start >= 0 and context.startswith(wanted, start):
        return start, start + len(wanted)
    before = context.rfind(wanted, 0, max(0, start) + len(wanted))
    after = context.find(wanted, max(0, start))
    places = [place for place in (before, after) if place >= 0]
    if not places:
        return None
    nearest = min(places, key=lambda place: abs(place - start))
    return nearest, nearest + len(wanted)
