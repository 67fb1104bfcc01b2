import random
from itertools import pairwise

import pytest

from modeling_lvbert.pretraining.masking import NO_WORD
from modeling_lvbert.pretraining.published_packing import (
    cut_segments,
    fill_rows,
    find_paragraph_id,
    number_words,
    pack_segment_pairs,
    pack_sentences,
    shorten_rows,
)


def make_sentences(rng, count, longest):
    """Sentences of consecutive numbers, so that a token says where it comes from."""
    sentences, start = [], 0
    for _ in range(count):
        length = rng.randint(1, longest)
        sentences.append(list(range(start, start + length)))
        start += length
    return sentences


def many_documents(longest):
    rng = random.Random(1)
    for number in range(300):
        yield number, make_sentences(rng, rng.randint(1, 30), longest)


@pytest.fixture(scope="module")
def paragraph_tokenizer(documents):
    from modeling_lvbert.pretraining.tokenizer_training import train_tokenizer

    return train_tokenizer(documents, "elcbert", 400, 64)


@pytest.mark.parametrize("length", [5, 16, 64])
def test_examples_fit_their_row_and_hold_each_token_once(length):
    for number, sentences in many_documents(length - 2):
        examples = list(cut_segments(sentences, length, random.Random(number)))
        assert examples
        tokens = [token for first, second in examples for token in first + second]
        assert len(set(tokens)) == len(tokens)
        for first, second in examples:
            assert first
            assert len(first) + len(second) + (3 if second else 2) <= length
            # Within a segment the text keeps its order.
            assert first == sorted(first)
            assert second == sorted(second)
        # An example takes up where the one before stopped to gather.
        for before, after in pairwise(examples):
            assert max(before[0] + before[1]) < after[0][0]


@pytest.mark.parametrize("length", [16, 64])
def test_only_what_exceeds_a_row_is_lost(length):
    for number, sentences in many_documents(10):
        examples = list(cut_segments(sentences, length, random.Random(number)))
        bounds = [first[0] for first, _ in examples] + [sentences[-1][-1] + 1]
        for (first, second), (begin, end) in zip(examples, pairwise(bounds), strict=True):
            lost = end - begin - len(first) - len(second)
            # The last sentence exceeds the target, which has no room for special tokens.
            assert 0 <= lost <= 9 + 3
            if end - begin <= length - 3:
                assert lost == 0
                # Nothing cut: segments of whole sentences.
                starts = {sentence[0] for sentence in sentences}
                for segment in (first, second):
                    for place, token in enumerate(segment):
                        follows = place and segment[place - 1] == token - 1
                        assert follows or token in starts


def test_a_short_document_is_one_example():
    single = pairs = 0
    for seed in range(2000):
        ((first, second),) = cut_segments([[0, 1, 2], [3, 4]], 12, random.Random(seed))
        assert first + second == [0, 1, 2, 3, 4]
        single += not second
        pairs += first == [0, 1, 2]
    # Half of 9 is 4: the second sentence would exceed it, and half of the time it may.
    assert single / 2000 == pytest.approx(0.1 + 0.9 * 0.5, abs=0.05)
    assert pairs + single == 2000


def test_a_tenth_has_one_segment_and_a_twentieth_a_random_length():
    sentences = [[number] for number in range(400_000)]
    examples = list(cut_segments(sentences, 64, random.Random(0)))
    single = [first for first, second in examples if not second]
    assert len(single) / len(examples) == pytest.approx(0.1, abs=0.02)
    sizes = [len(first) + len(second) for first, second in examples]
    # Targets of 5 to 64: three of 60 look like full rows.
    short = [size for size in sizes if size < 61]
    assert len(short) / len(sizes) == pytest.approx(0.05 * 56 / 60, abs=0.01)
    assert 4 < min(short) < 10
    assert sum(short) / len(short) == pytest.approx((5 + 60) / 2, abs=3)


def test_both_shares_can_be_set():
    sentences = [[number] for number in range(30_000)]
    examples = list(cut_segments(sentences, 64, random.Random(0), 0.5, 1.0))
    assert not any(second for _, second in examples)
    short = [first for first, _ in examples if len(first) < 62]
    assert len(short) / len(examples) == pytest.approx(0.5 * 57 / 60, abs=0.05)


def test_the_first_segment_ends_at_random_about_half_way():
    sentences = [list(range(start, start + 8)) for start in range(0, 80_000, 8)]
    examples = list(cut_segments(sentences, 64, random.Random(0)))
    pairs = [(first, second) for first, second in examples if second and len(first) >= 16]
    shares = [sum(len(first) == size for first, _ in pairs) / len(pairs) for size in (24, 32)]
    # Half of 61 is 30: a fourth sentence exceeds it.
    assert shares == pytest.approx([0.5, 0.5], abs=0.06)


def test_a_later_sentence_that_fits_goes_into_the_first_segment():
    sentences = [[0, 1, 2], [3, 4, 5, 6, 7, 8], [9]]
    found = {
        tuple(map(tuple, next(cut_segments(sentences, 16, random.Random(seed)))))
        for seed in range(200)
    }
    assert ((0, 1, 2, 9), (3, 4, 5, 6, 7, 8)) in found


def pack_pairs(texts, tokenizer, length, numbers=None, **settings):
    numbers = list(range(len(texts))) if numbers is None else numbers
    return pack_segment_pairs({"text": texts}, numbers, tokenizer, length, **settings)


def test_pairs_have_one_cls_and_a_sep_behind_each_segment(documents, tokenizer):
    rows = pack_pairs(documents["text"], tokenizer, 24)
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    assert len(rows["input_ids"]) == len(rows["token_type_ids"]) >= len(documents)
    counts = set()
    for ids, segments in zip(rows["input_ids"], rows["token_type_ids"], strict=True):
        assert len(ids) == len(segments) <= 24
        assert ids[0] == cls
        assert ids.count(cls) == 1
        assert ids[-1] == sep
        assert ids.count(sep) == 1 + max(segments)
        # The first [SEP] still belongs to the first segment.
        assert segments == sorted(segments)
        assert ids[segments.count(0) - 1] == sep
        counts.add(ids.count(sep))
    assert counts == {1, 2}


def test_a_pair_reads_back(tokenizer):
    text = "The old sailor told a story .\nA small bird sang .\nNobody had seen it ."
    rows = pack_pairs([text], tokenizer, 128)
    assert len(rows["input_ids"]) == 1
    read = tokenizer.decode(rows["input_ids"][0], skip_special_tokens=True)
    assert "".join(read.lower().split()) == "".join(text.lower().split())


def test_a_document_s_pairs_depend_on_seed_and_number_alone(documents, tokenizer):
    texts = documents["text"][:6]
    together = pack_pairs(texts, tokenizer, 16)
    apart = [pack_pairs(texts[i : i + 1], tokenizer, 16, numbers=[i]) for i in range(6)]
    for name, rows in together.items():
        assert rows == [row for part in apart for row in part[name]]
    assert pack_pairs(texts, tokenizer, 16) == together
    assert pack_pairs(texts, tokenizer, 16, seed=1) != together
    # The same text is cut another way where its number is another.
    numbered = [pack_pairs(texts[:1], tokenizer, 16, numbers=[i]) for i in range(20)]
    assert any(rows != numbered[0] for rows in numbered)


@pytest.mark.parametrize("room", [3, 10, 62])
def test_a_cut_sentence_begins_the_next_row(room):
    for _, sentences in many_documents(room):
        rows = list(fill_rows(sentences, room))
        starts = {sentence[0] for sentence in sentences}
        owner = {token: sentence for sentence in sentences for token in sentence}
        for row in rows:
            assert 0 < len(row) <= room
            assert row == list(range(row[0], row[0] + len(row)))
            assert row[0] in starts
        for before, after in pairwise(rows):
            # Only a full row ends within a sentence, and that sentence comes again from its start.
            assert len(before) == room
            whole = before[-1] == owner[before[-1]][-1]
            assert after[0] == (before[-1] + 1 if whole else owner[before[-1]][0])
        assert {token for row in rows for token in row} == set(owner)


def test_sentences_that_fill_a_row_exactly_are_not_repeated():
    assert list(fill_rows([[0, 1], [2, 3], [4]], 4)) == [[0, 1, 2, 3], [4]]
    assert list(fill_rows([[0, 1], [2, 3, 4]], 4)) == [[0, 1, 2, 3], [2, 3, 4]]


def test_sentence_rows_have_one_cls_one_sep_and_a_mark_at_each_line_s_end(paragraph_tokenizer):
    par = find_paragraph_id(paragraph_tokenizer)
    texts = ["One bird sang. It was small.\nThe rain fell.", "A fire."]
    rows = pack_sentences({"text": texts}, paragraph_tokenizer, 64)["input_ids"]
    assert len(rows) == 2
    cls, sep = paragraph_tokenizer.cls_token_id, paragraph_tokenizer.sep_token_id
    for row, text in zip(rows, texts, strict=True):
        assert row[0] == cls
        assert row[-2:] == [par, sep]
        assert [row.count(token) for token in (cls, sep, par)] == [1, 1, len(text.splitlines())]
        assert paragraph_tokenizer.decode(row, skip_special_tokens=True).split() == text.split()
    # The mark follows the line's last sentence, not every sentence.
    inner = paragraph_tokenizer.decode(rows[0][1 : rows[0].index(par)])
    assert inner.split() == texts[0].splitlines()[0].split()


@pytest.mark.parametrize("length", [3, 8, 24])
def test_no_document_loses_a_token_to_sentence_rows(documents, paragraph_tokenizer, length):
    par = find_paragraph_id(paragraph_tokenizer)
    for text in documents["text"][:10]:
        tokens = []
        for line in text.splitlines():
            tokens += [*paragraph_tokenizer(line, add_special_tokens=False)["input_ids"], par]
        place = 0
        for row in pack_sentences({"text": [text]}, paragraph_tokenizer, length)["input_ids"]:
            body = row[1:-1]
            assert len(row) <= length
            # A row goes on where the last one ended, or takes up a sentence again.
            begin = next(
                start for start in range(place, -1, -1) if tokens[start : start + len(body)] == body
            )
            assert place - begin < max(length - 2, 1)
            place = max(place, begin + len(body))
        assert place == len(tokens)


def test_a_sentence_longer_than_a_row_is_kept_whole(paragraph_tokenizer):
    text = "word " * 100
    rows = pack_sentences({"text": [text]}, paragraph_tokenizer, 12)["input_ids"]
    joined = [token for row in rows for token in row[1:-1]]
    par = find_paragraph_id(paragraph_tokenizer)
    assert joined == [*paragraph_tokenizer(text, add_special_tokens=False)["input_ids"], par]
    pairs = pack_pairs([text], paragraph_tokenizer, 12)["input_ids"]
    assert sum(len(row) for row in pairs) > 0.6 * len(joined)


def test_words_of_both_packings_keep_their_tokens_together(tokenizer, paragraph_tokenizer):
    texts = ["Extraordinary travellers lit a fire. They waited.\nNobody came."] * 30
    pairs = pack_pairs(texts, tokenizer, 24, with_word_ids=True)
    sentences = pack_sentences({"text": texts}, paragraph_tokenizer, 24, with_word_ids=True)
    for packed, used in ((pairs, tokenizer), (sentences, paragraph_tokenizer)):
        special = set(used.all_special_ids)
        for ids, words in zip(packed["input_ids"], packed["word_ids"], strict=True):
            assert [token in special for token in ids] == [word == NO_WORD for word in words]
            for word in set(words) - {NO_WORD}:
                places = [place for place, owner in enumerate(words) if owner == word]
                assert places == list(range(places[0], places[-1] + 1))
    assert any(
        words.count(word) > 1 for words in pairs["word_ids"] for word in set(words) - {NO_WORD}
    )


def test_numbers_of_words_go_on_from_text_to_text():
    assert number_words([[0, 0, 1], [], [None, 0], [None]]) == [0, 0, 1, NO_WORD, 2, NO_WORD]


def test_text_without_a_token_gives_no_row(tokenizer, paragraph_tokenizer):
    assert pack_pairs([" \n", ""], tokenizer, 16) == {"input_ids": [], "token_type_ids": []}
    assert pack_sentences({"text": ["", "\n"]}, paragraph_tokenizer, 16) == {"input_ids": []}


def make_rows(count, length=32):
    return [
        {
            "mask_key": (0, 0, number),
            "input_ids": [1, *range(100, 98 + length), 2],
            "word_ids": [NO_WORD, *range(length - 2), NO_WORD],
        }
        for number in range(count)
    ]


def test_a_tenth_of_the_rows_is_cut_to_an_even_length():
    rows = make_rows(20_000)
    shortened = shorten_rows(rows, 32)
    lengths = [len(row["input_ids"]) - 2 for row in shortened]
    short = [length for length in lengths if length < 30]
    assert len(short) / len(rows) == pytest.approx(0.1, abs=0.01)
    assert min(short) == 1
    assert max(short) == 29
    assert sum(short) / len(short) == pytest.approx(15, abs=0.6)
    for row, whole in zip(shortened, rows, strict=True):
        for name, special in (("input_ids", 2), ("word_ids", NO_WORD)):
            assert row[name][:-1] == whole[name][: len(row[name]) - 1]
            assert row[name][-1] == special


def test_a_row_is_shortened_the_same_in_any_batch():
    rows = make_rows(200)
    shortened = shorten_rows(rows, 32, 0.5)
    assert shorten_rows(rows[77:78], 32, 0.5) == shortened[77:78]
    assert rows == make_rows(200)
    assert shorten_rows(rows, 32, 0.0) == rows
    again = [{**row, "mask_key": (0, 1, number)} for number, row in enumerate(rows)]
    assert [len(row["input_ids"]) for row in shorten_rows(again, 32, 0.5)] != [
        len(row["input_ids"]) for row in shortened
    ]


def test_shortening_leaves_shorter_rows_alone():
    rows = make_rows(500, length=4)
    for row in shorten_rows(rows, 1000, 1.0):
        assert 3 <= len(row["input_ids"]) <= 4


def test_a_tokenizer_without_a_mark_is_refused(tokenizer):
    if "[PAR]" not in tokenizer.get_vocab():
        with pytest.raises(ValueError, match=r"no \[PAR\].*'sentences'"):
            pack_sentences({"text": ["Some text."]}, tokenizer, 16)
