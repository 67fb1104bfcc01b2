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
"""The BabyLM sources, each with its own quirks, as documents of plain lines.

A normalizer takes a file's raw lines and gives a paragraph, sentence or utterance a line and an
empty line between documents, which is what `corpus` reads. The rules are those of ELC-BERT's code
(arXiv 2311.02265) for BabyLM 2023, carried over to the files of BabyLM 2024 and later: utterances
stand in double quotes, one that repeats the line before is dropped, ftfy repairs the encoding and
makes typographic quotes plain, titles of articles stay as their first line. Transcribers' notes and
codes, which only the later files have, are dropped. Files whose lines were joined into one come
apart again where there are headings or speakers.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import ftfy

_HEADING = re.compile(r"= = = (.+?) = = =")
_SPEAKER = re.compile(r"\*[A-Z]{2,3}\d?: ")
# Thousands of short articles about places differ in names alone.
_MADE_BY_ROBOT = re.compile(
    r"\bis a (?:commune found|commune\. It is|(?:city|village|municipality|town) in)\b"
)
# Entities also on lines with "<", where ftfy by itself would take them for HTML to keep.
_REPAIRS = ftfy.TextFixerConfig(unescape_html=True, explain=False)
_HAS_LETTER = re.compile(r"[^\W\d_]")


def normalize_lines(source: str, lines: Iterable[str]) -> Iterator[str]:
    """Yields a source's lines as documents, with one empty line between two of them.

    Args:
        source: One of `NORMALIZERS`.
        lines: The file's lines.

    Raises:
        ValueError: There is no such source.
    """
    if source not in NORMALIZERS:
        raise ValueError(f"source {source!r}: must be one of {', '.join(NORMALIZERS)}")
    return _space_documents(NORMALIZERS[source](lines))


def _space_documents(lines: Iterable[str]) -> Iterator[str]:
    """Leaves one empty line between documents, none before the first and after the last."""
    has_begun = is_between = False
    for line in lines:
        if line:
            if is_between:
                yield ""
            yield line
            has_begun, is_between = True, False
        else:
            is_between = has_begun


def _clean(line: str) -> str:
    """Repairs the encoding, resolves entities, quotes and runs of blanks, drops soft hyphens."""
    return " ".join(ftfy.fix_text(line, _REPAIRS).replace("\u00ad", "").split())


def _split_headings(lines: Iterable[str]) -> Iterator[tuple[bool, str]]:
    """Yields headings, without their marks, and what stands between them, with whether it is one.

    Lines are cleaned; a heading also counts within a line.
    """
    for line in lines:
        # Text and headings by turns.
        for number, part in enumerate(_HEADING.split(_clean(line))):
            text = part.strip()
            # An empty line says something, an empty end of a line nothing.
            if text or not line.strip():
                yield number % 2 == 1, text


def _quote(utterances: Iterable[str], capitalize: bool = False) -> Iterator[str]:
    """Puts utterances in double quotes, drops those without a letter and immediate repetitions.

    Notes in brackets, names of speakers ("Anna:") and what has a quote at either end stay as they
    are.
    """
    last = None
    for utterance in utterances:
        line = utterance
        if line and not _HAS_LETTER.search(line):
            continue
        if capitalize:
            line = line[:1].upper() + line[1:]
        is_note = line[:1] + line[-1:] in ("()", "[]", "{}")
        if line and not (is_note or line[0] == '"' or line[-1] in '":'):
            line = f'"{line}"'
        if not line or line != last:
            yield line
        last = line


def _close_up(text: str) -> str:
    """Undoes the blanks that tokenized text has before punctuation and contractions."""
    text = re.sub(r" (n't|'(?:s|m|d|re|ve|ll))\b", r"\1", text, flags=re.IGNORECASE)
    # Not before the point of a decimal (".5").
    text = re.sub(r" ([,;:?!)\]}]|\.(?!\d))", r"\1", text)
    return re.sub(r"([(\[{]) ", r"\1", text)


def normalize_childes(lines: Iterable[str]) -> Iterator[str]:
    """CHILDES of BabyLM 2024: `= = = path.cha = = =` a transcript, `*MOT:<TAB>utterance` a line.

    Notes in brackets, codes (`%add: EXP`) and what was not understood (xxx, yyy, www) are dropped.
    """

    def iterate_utterances() -> Iterator[str]:
        for is_heading, text in _split_headings(lines):
            if is_heading or not text:
                yield ""
                continue
            for utterance in _SPEAKER.split(text):
                spoken = re.sub(r"\[[^\]]*\]|%\w+:.*", "", utterance)
                spoken = re.sub(r"\b(?:xxx|yyy|www)\b,?", "", spoken)
                spoken = re.sub(r"^[\s.,?!]+", "", _close_up(" ".join(spoken.split())))
                if spoken:
                    yield spoken

    return _quote(iterate_utterances(), capitalize=True)


def normalize_aochildes(lines: Iterable[str]) -> Iterator[str]:
    """AO-CHILDES of BabyLM 2023: an utterance a line, lower-case, blanks before punctuation."""
    return _quote((_close_up(_clean(line)) for line in lines), capitalize=True)


def normalize_bnc_spoken(lines: Iterable[str]) -> Iterator[str]:
    """Spoken part of the British National Corpus: an utterance a line, empty lines in between."""
    return normalize_aochildes(lines)


def normalize_switchboard(lines: Iterable[str]) -> Iterator[str]:
    r"""Switchboard: an utterance a line, after `A:<TAB>` or `B:<TAB>` (2024) or a dash (2023).

    Notes on the transcript ("*transcript error ...") are dropped.
    """

    def iterate_utterances() -> Iterator[str]:
        for line in lines:
            text = re.sub(r"^(?:[AB]: ?|- ?)", "", _clean(line))
            yield re.sub(r"\s*\* ?transcri.*", "", text)

    return _quote(iterate_utterances())


def normalize_open_subtitles(lines: Iterable[str]) -> Iterator[str]:
    """OpenSubtitles: an utterance a line, some after a dash, some with music or type marks."""

    def iterate_utterances() -> Iterator[str]:
        for line in lines:
            text = re.sub(r"</?[a-z]+>|[♪♫#]", "", _clean(line), flags=re.IGNORECASE)
            text = re.sub(r"^\s*- ?", "", text).strip()
            # What is empty only now separates nothing.
            if text or not line.strip():
                yield text

    return _quote(iterate_utterances())


def normalize_qed(lines: Iterable[str]) -> Iterator[str]:
    """QED, subtitles of lectures: as OpenSubtitles, and lines with markup or times are dropped."""
    return normalize_open_subtitles(
        line
        for line in lines
        if not re.search(r"<[^>]*>|->|^\W*[\d:.,]+\W*$", _clean(line)) or not line.strip()
    )


def normalize_cbt(lines: Iterable[str]) -> Iterator[str]:
    """Children's Book Test: tokenized sentences with -LRB- for brackets and `` '' for quotes."""
    brackets = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
    for line in lines:
        text = _clean(line)
        for token, bracket in brackets.items():
            text = text.replace(token, bracket)
        yield _close_up(re.sub(r" ?''", '"', re.sub(r"`` ?", '"', text)))


def normalize_children_stories(lines: Iterable[str]) -> Iterator[str]:
    """Children's stories: a paragraph or verse a line.

    A line indented by four or more, a verse, begins with [TAB]; an empty line after a single one (a
    title) does not end a document.
    """
    num_lines = 0
    for line in lines:
        text = _clean(line)
        if text:
            num_lines += 1
            yield f"[TAB] {text}" if line.startswith("    ") else text
        elif num_lines > 1:
            num_lines = 0
            yield ""


def _normalize_articles(lines: Iterable[str], blank_ends: bool) -> Iterator[str]:
    """Yields articles, each with its title as first line; titles without text are dropped."""
    title = ""
    for is_heading, text in _split_headings(lines):
        if is_heading:
            yield ""
            title = text
        elif not text:
            if blank_ends and not title:
                yield ""
        elif len(text) < 128 and _MADE_BY_ROBOT.search(text):
            title = ""
        elif paragraph := _clean_paragraph(text):
            if title:
                yield title
                title = ""
            yield paragraph


def _clean_paragraph(text: str) -> str:
    """Resolves wiki markup; empty for categories, files, and what has no letter."""
    if re.match(r"\[\[(?:Category|File|Image):", text):
        return ""
    text = re.sub(r"\[\[(?:[^|\]]*\|)*([^|\]]*)\]\]", r"\1", text)
    text = re.sub(r"\[\d+\]", "", text).strip()
    return text if _HAS_LETTER.search(text) else ""


def normalize_simple_wiki(lines: Iterable[str]) -> Iterator[str]:
    """Simple English Wikipedia: `= = = Title = = =` (2024) or an empty line (2023) an article."""
    return _normalize_articles(lines, blank_ends=True)


def normalize_wikipedia(lines: Iterable[str]) -> Iterator[str]:
    """Wikipedia: `= = = Title = = =` an article, in which empty lines mean nothing."""
    return _normalize_articles(lines, blank_ends=False)


def _clean_book(text: str) -> str:
    """Drops marks of italics, notes and illustrations, and rows of asterisks."""
    text = re.sub(r"\[Illustration[^\]]*\]|\* ?\* ?\*[* ]*", " ", text)
    text = re.sub(r"\[\d+\]", "", text)
    text = re.sub(r"\bEnd of (?:the )?Project Gutenberg.*", "", text)
    text = re.sub(r"(?<!\w)_([^_]+)_(?!\w)", r"\1", " ".join(text.split()))
    return text if _HAS_LETTER.search(text) else ""


def normalize_gutenberg(lines: Iterable[str]) -> Iterator[str]:
    """Project Gutenberg of BabyLM 2024: `= = = PG123 = = =` a book, a sentence a line.

    Lines that end with a title or an initial ("Mr.") were no sentence: the next one is put back to
    them.
    """
    held = ""
    for is_heading, text in _split_headings(lines):
        sentence = "" if is_heading else _clean_book(text)
        if is_heading and held:
            yield held
            held = ""
        if is_heading:
            yield ""
        elif sentence:
            held = f"{held} {sentence}".strip()
            if not re.search(r"\b(?:Mr|Mrs|Ms|Dr|St|Rev|Prof|[A-Z])\.$", held):
                yield held
                held = ""
    if held:
        yield held


def normalize_gutenberg_wrapped(lines: Iterable[str]) -> Iterator[str]:
    """Project Gutenberg as it is distributed and in BabyLM 2023: lines wrapped at 70 columns.

    A paragraph's lines are joined. Two empty lines or more end a document, unless a single line, as
    of a chapter's title, stands before them.
    """
    paragraph: list[str] = []
    num_blank, num_lines = 0, 0
    for line in chain(lines, [""]):
        text = _clean(line)
        if text:
            num_blank = 0
            paragraph.append(text)
            continue
        num_blank += 1
        if paragraph:
            # A hyphen or dash at a line's end has no blank after it.
            joined = _clean_book(re.sub(r"(?<=\w-)\n|(?<=--)\n", "", "\n".join(paragraph)))
            num_lines, paragraph = len(paragraph), []
            if joined:
                yield joined
        if num_blank == 2 and num_lines > 1:
            yield ""


NORMALIZERS: dict[str, Callable[[Iterable[str]], Iterator[str]]] = {
    "aochildes": normalize_aochildes,
    "bnc_spoken": normalize_bnc_spoken,
    "cbt": normalize_cbt,
    "children_stories": normalize_children_stories,
    "childes": normalize_childes,
    "gutenberg": normalize_gutenberg,
    "gutenberg_wrapped": normalize_gutenberg_wrapped,
    "open_subtitles": normalize_open_subtitles,
    "qed": normalize_qed,
    "simple_wiki": normalize_simple_wiki,
    "switchboard": normalize_switchboard,
    "wikipedia": normalize_wikipedia,
}
