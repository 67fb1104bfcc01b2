import logging

import numpy as np
import pytest
from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from modeling_lvbert.evaluation.question_answering.answers import find_answers
from modeling_lvbert.evaluation.question_answering.data import Question
from modeling_lvbert.evaluation.question_answering.windows import (
    build_windows,
    find_target,
    shorten_questions,
    trim_offsets,
)
from tests.evaluation.small_models import FAMILIES, make_tokenizer

CONTEXTS = {
    "plain": "The old harbour of Port Ellen was built in 1842 by Anna Berg, a sailor from Norway.",
    "crlf": "A storm took\r\n\r\nthe lighthouse away.\r\nNobody knew its keeper,\tJohn Reed.",
    "blanks": "   Anna    Berg   built  it \u00a0 in\u2003 1842   ",
    "emoji": "The sailor 👩\u200d🚀 loved 🌊🌊 and the flag 🇳🇴 of Norway 😀.",
    "accents": "Das Café in Zürich öffnet um neun; cafe\u0301 möchte jemand? İstanbul ẞ",
    "scripts": "港は1842年に建てられた。 Гавань построена в 1842 году. הנמל נבנה",
    "controls": "The \u200bold\u0000 harbour\ufeff of\u2028Port\x85Ellen",
}


def untrimmed(tokenizer):
    """A byte-level tokenizer whose offsets have the blanks before words."""
    other = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer,
        **{f"{name}_token": getattr(tokenizer, f"{name}_token") for name in ("cls", "sep", "pad")},
        unk_token="[UNK]",
    )
    template = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", tokenizer.cls_token_id), ("[SEP]", tokenizer.sep_token_id)],
    )
    other.backend_tokenizer.post_processor = template
    return other


def cls_last(tokenizer):
    """A tokenizer that pads on the left and has [CLS] at the end, as XLNet's."""
    other = untrimmed(tokenizer)
    other.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A [SEP] [CLS]",
        pair="$A [SEP] $B [SEP] [CLS]",
        special_tokens=[("[CLS]", tokenizer.cls_token_id), ("[SEP]", tokenizer.sep_token_id)],
    )
    other.padding_side = "left"
    return other


TOKENIZERS = {
    **{family: lambda family=family: make_tokenizer(family) for family in FAMILIES},
    "untrimmed": lambda: untrimmed(make_tokenizer("elcbert")),
    "cls-last": lambda: cls_last(make_tokenizer("lvbert")),
}


@pytest.fixture(params=TOKENIZERS, scope="module")
def tokenizer(request):
    return TOKENIZERS[request.param]()


def ask(context, answer, text="Who built it?"):
    start = context.index(answer)
    return Question("q", text, context, (answer,), (start, start + len(answer)))


def words(context):
    """Words that are tokens' borders in every tokenizer: letters and digits between blanks."""
    return [word for word in context.split() if word.isalnum() and context.count(word) == 1]


CASES = [(context, word) for context in CONTEXTS.values() for word in words(context)]


@pytest.mark.parametrize(("longest", "overlap"), [(128, 0), (40, 8), (25, 10)])
def test_answers_come_back_through_tokens_as_the_contexts_have_them(tokenizer, longest, overlap):
    questions = [ask(context, word) for context, word in CASES]
    training = build_windows(questions, tokenizer, longest, overlap, trains=True)
    scoring = build_windows(questions, tokenizer, longest, overlap, trains=False)
    assert len(training) == len(scoring)
    found = set()
    for target, window in zip(training, scoring, strict=True):
        assert target["input_ids"] == window["input_ids"]
        assert len(window["input_ids"]) == len(window["offsets"]) <= longest
        first, last = target["start_positions"], target["end_positions"]
        null, number = window["null_position"], window["question"]
        assert window["input_ids"][null] == tokenizer.cls_token_id
        if (first, last) == (null, null):
            continue
        found.add(number)
        starts, ends = (np.zeros((1, len(window["offsets"]))) for _ in range(2))
        starts[0, first] = ends[0, last] = 9
        settings = {"n_best": 5, "max_length": 99, "with_negative": True}
        alone = {**window, "question": 0}
        (answer,) = find_answers([questions[number]], [alone], starts, ends, **settings)
        assert answer.best == CASES[number][1]
    assert found == set(range(len(CASES)))


def test_windows_leave_no_visible_character_out(tokenizer):
    contexts = list(CONTEXTS.values())
    questions = [Question("q", "Who built it?", context, None, None) for context in contexts]
    for longest, overlap in ((128, 0), (24, 0), (24, 9)):
        rows = build_windows(questions, tokenizer, longest, overlap, trains=False)
        for number, context in enumerate(contexts):
            windows = [row["offsets"] for row in rows if row["question"] == number]
            seen = {place for offsets in windows for span in offsets for place in range(*span)}
            missed = {context[place] for place in range(len(context)) if place not in seen}
            assert not any(character.isalnum() for character in missed)
            starts = [min(s for s, e in offsets if s < e) for offsets in windows]
            assert starts == sorted(starts)
            for start, end in (span for offsets in windows for span in offsets):
                assert context[start:end] == context[start:end].strip()


def test_neighbouring_windows_share_the_overlap():
    tokenizer = make_tokenizer("lvbert")
    question = Question("q", "Who?", CONTEXTS["plain"], None, None)
    rows = build_windows([question], tokenizer, 16, 7, trains=False)
    tokens = [[tuple(span) for span in row["offsets"] if span[0] < span[1]] for row in rows]
    assert len(rows) > 2
    for before, after in zip(tokens, tokens[1:], strict=False):
        assert before[-7:] == after[:7]
        assert before[-8:-7] != after[:1]


def test_rows_know_their_question():
    tokenizer = make_tokenizer("lvbert")
    questions = [ask(context, words(context)[0]) for context in CONTEXTS.values()]
    rows = build_windows(questions * 40, tokenizer, 24, 4, trains=False)
    assert rows["row"] == list(range(len(rows)))
    assert sorted(set(rows["question"])) == list(range(len(questions) * 40))
    assert list(rows["question"]) == sorted(rows["question"])


def test_long_questions_are_cut_and_told(tokenizer, caplog):
    long = "Who was it 😀 that built the harbour? " * 30
    with caplog.at_level(logging.WARNING):
        rows = build_windows(
            [ask(CONTEXTS["plain"], "Norway", long)], tokenizer, 40, 8, trains=True
        )
    assert "1 of 1 questions are cut at 28 tokens" in caplog.text
    assert all(len(row["input_ids"]) <= 40 for row in rows)
    shortened, num_cut = shorten_questions([long, "Who?", "😀" * 9], tokenizer, 3)
    assert num_cut >= 1
    for short, whole in zip(shortened, [long, "Who?", "😀" * 9], strict=True):
        assert whole.startswith(short)
        assert len(tokenizer(short, add_special_tokens=False)["input_ids"]) <= 3


@pytest.mark.parametrize("overlap", [-1, 7, 100])
def test_an_overlap_without_room_is_refused(overlap):
    tokenizer = make_tokenizer("lvbert")
    with pytest.raises(ValueError, match=f"doc_stride {overlap}: .* at least 0 and at most 6,"):
        build_windows([ask(CONTEXTS["plain"], "Norway")], tokenizer, 11, overlap, trains=True)


def test_the_largest_overlap_still_goes_on(tokenizer):
    question = ask(CONTEXTS["plain"], "Norway")
    rows = build_windows([question], tokenizer, 11, 6, trains=False)
    assert any(len(CONTEXTS["plain"]) - 1 in range(*span) for span in rows[-1]["offsets"])


def test_offsets_lose_blanks_and_other_texts():
    context = " a\r\n b "
    offsets = [(0, 0), (0, 2), (2, 4), (2, 6), (4, 7), (1, 2)]
    inside = [False, True, True, True, True, False]
    trimmed = trim_offsets(offsets, inside, context)
    assert [context[slice(*span)] for span in trimmed] == ["", "a", "", "b", "b", ""]


def test_an_answer_that_a_window_has_in_part_is_no_target():
    offsets = [(0, 0), (4, 7), (8, 11), (12, 16), (0, 0)]
    assert find_target(offsets, (4, 11)) == (1, 2)
    assert find_target(offsets, (9, 10)) == (2, 2)
    assert find_target(offsets, (12, 16)) == (3, 3)
    for span in ((0, 7), (12, 17), (0, 3), (20, 22), (7, 8), None):
        assert find_target(offsets, span) is None
    assert find_target([(0, 0), (0, 0)], (0, 1)) is None


def test_models_without_segments_get_none():
    question = ask(CONTEXTS["plain"], "Norway")
    with_segments = build_windows([question], make_tokenizer("lvbert"), 64, 8, trains=True)
    without = build_windows([question], make_tokenizer("elcbert"), 64, 8, trains=True)
    assert "token_type_ids" in with_segments.column_names
    assert without.column_names == [
        "input_ids", "attention_mask", "start_positions", "end_positions",
    ]  # fmt: skip
