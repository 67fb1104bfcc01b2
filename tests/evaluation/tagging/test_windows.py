import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from modeling_lvbert.evaluation.tagging.data import Sentence
from modeling_lvbert.evaluation.tagging.windows import (
    IGNORED,
    build_rows,
    choose_windows,
    encode_words,
    list_followers,
)
from tests.evaluation.small_models import FAMILIES, make_tokenizer

# The number of each word is its tag, so that a shift shows.
WORDS = [
    "Anna", "\u200b", "Berg,", "\u0000", "Zürich", "👩\u200d🚀", "1842", "\u00ad", "x" * 150,
    "", " ", "[SEP]", "日本", "don't", "\ufeff", "a\u00a0b", "Oslo", "😀",
]  # fmt: skip
LABELS = [f"T{number}" for number in range(len(WORDS))]
SENTENCE = Sentence(tuple(WORDS), tuple(LABELS))


def roberta_kind():
    """A byte-level tokenizer that sets no blank before a text, without special tokens around it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*alphabet, "Ġa", "ab", "<unk>"])}
    merges = [("Ġ", "a"), ("a", "b")]
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")


TOKENIZERS = {
    **{family: lambda family=family: make_tokenizer(family) for family in FAMILIES},
    "roberta": roberta_kind,
}


@pytest.fixture(params=TOKENIZERS, scope="module")
def tokenizer(request):
    return TOKENIZERS[request.param]()


def build(sentences, tokenizer, longest=512, labels=LABELS, **options):
    settings = {"label_all_tokens": False, "trains": False, **options}
    return build_rows(sentences, tokenizer, labels, longest, **settings)


@pytest.mark.parametrize("longest", [4, 5, 9, 40, 512])
def test_every_word_is_read_once_at_its_first_token(tokenizer, longest):
    sentences = [SENTENCE, Sentence((), ()), Sentence(("Oslo",), ("T16",))]
    rows = build(sentences, tokenizer, longest)
    read = []
    for row in rows:
        assert len(row["input_ids"]) == len(row["labels"]) <= longest
        for token, word in zip(row["tokens_read"], row["words_read"], strict=True):
            expected = word if row["sentence"] == 0 else 16
            assert row["labels"][token] == expected
            read.append((row["sentence"], word))
        assert sum(label != IGNORED for label in row["labels"]) == len(row["tokens_read"])
    assert sorted(read) == [*((0, word) for word in range(len(WORDS))), (2, 0)]
    assert rows["row"] == list(range(len(rows)))


def test_a_word_has_the_tokens_that_it_has_in_a_text():
    tokenizer = make_tokenizer("elcbert")
    ((inputs, words),) = encode_words([["harbour", "of", "Port"]], tokenizer)
    assert inputs["input_ids"] == tokenizer("harbour of Port")["input_ids"]
    assert words[0] is words[-1] is None
    byte_level = roberta_kind()
    ((inputs, words),) = encode_words([["ab", "ab"]], byte_level)
    # As after a blank, and not in the middle of a word.
    assert byte_level.convert_ids_to_tokens(inputs["input_ids"]) == ["Ġa", "b", "Ġa", "b"]
    assert words == [0, 0, 1, 1]


def test_words_without_tokens_become_the_unknown_token():
    tokenizer = make_tokenizer("lvbert")
    ((inputs, words),) = encode_words([["\u200b", "Oslo", ""]], tokenizer)
    assert words[1] == 0
    assert words[-2] == 2
    assert inputs["input_ids"][1] == inputs["input_ids"][-2] == tokenizer.unk_token_id
    tokenizer.unk_token = None
    with pytest.raises(ValueError, match="makes nothing of the word '' .*|makes nothing"):
        encode_words([["Oslo", ""]], tokenizer)


def test_windows_show_what_is_around_a_word():
    tokenizer = make_tokenizer("lvbert")
    words = tuple(["the"] * 40)
    rows = build([Sentence(words, None)], tokenizer, 12, labels=["O"])
    assert "labels" not in rows.column_names
    for number, row in enumerate(rows):
        for token, word in zip(row["tokens_read"], row["words_read"], strict=True):
            if 0 < word < 39:
                assert 1 < token < len(row["input_ids"]) - 2, number


def test_long_sentences_are_told(caplog):
    tokenizer = make_tokenizer("lvbert")
    with caplog.at_level(logging.WARNING):
        build([SENTENCE], tokenizer, 512)
        assert not caplog.text
        build([SENTENCE], tokenizer, 12)
    assert "more than 12 tokens" in caplog.text


def test_training_rows_have_labels_alone(tokenizer):
    rows = build([SENTENCE], tokenizer, 40, trains=True)
    inputs = [name for name in tokenizer.model_input_names if name in rows.column_names]
    assert sorted(rows.column_names) == sorted([*inputs, "labels"])
    assert all(any(label != IGNORED for label in row["labels"]) for row in rows)


def test_all_tokens_of_a_word_may_have_labels():
    tokenizer = make_tokenizer("elcbert")
    labels = ["B-PER", "I-PER", "O"]
    assert list_followers(labels) == [1, 1, 2]
    assert list_followers(["B-PER", "O"]) == [0, 1]
    sentence = Sentence(("Qqqqqq", "Qqq"), ("B-PER", "O"))
    for longest in (512, 6):
        rows = build([sentence], tokenizer, longest, labels, label_all_tokens=True, trains=True)
        given = [label for row in rows for label in row["labels"] if label != IGNORED]
        ((_, words),) = encode_words([sentence.words], tokenizer)
        assert sorted(given) == sorted([0, *[1] * (words.count(0) - 1), *[2] * words.count(1)])
    first_alone = build([sentence], tokenizer, 512, labels)
    assert [label for label in first_alone[0]["labels"] if label != IGNORED] == [0, 2]


def test_a_tag_that_the_model_lacks_has_no_label():
    rows = build([Sentence(("Anna", "Oslo"), ("B-X", "T1"))], make_tokenizer("lvbert"))
    assert [label for label in rows[0]["labels"] if label != IGNORED] == [1]
    assert rows[0]["words_read"] == [0, 1]


@given(st.integers(1, 30), st.integers(1, 9), st.integers(1, 9))
def test_every_unit_is_in_one_window_with_the_most_around_it(length, size, step):
    step = min(step, size)
    windows = [range(start, min(start + size, length)) for start in range(0, length, step)]
    chosen = choose_windows(windows)
    assert sorted(unit for units in chosen for unit in units) == list(range(length))

    def margin(window, unit):
        return min(unit - window.start, window.stop - 1 - unit) if unit in window else -1

    for number, units in enumerate(chosen):
        for unit in units:
            margins = [margin(window, unit) for window in windows]
            assert margins.index(max(margins)) == number
