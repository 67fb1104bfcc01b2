import datasets
import pytest
import torch
from transformers import BertTokenizer

from modeling_lvbert.pretraining.counter_hash import hash_counters
from modeling_lvbert.pretraining.masking import (
    IGNORED_LABEL,
    NO_WORD,
    MaskingCollator,
    choose_tokens,
    find_special_ids,
    find_unit_starts,
)
from modeling_lvbert.pretraining.packing import pack_corpus
from modeling_lvbert.pretraining.rows import PackedRows


@pytest.fixture
def rows(documents, tokenizer):
    return PackedRows(pack_corpus(documents, tokenizer, 24, with_word_ids=True), seed=7)


def collate(collator, rows, numbers):
    return collator(rows.__getitems__(numbers))


def strip(batch, index):
    """One row of a batch without its padding."""
    length = int(batch["attention_mask"][index].sum())
    return batch["input_ids"][index, :length].tolist(), batch["labels"][index, :length].tolist()


@pytest.mark.parametrize("unit", ["token", "whole_word", "span"])
def test_a_row_is_masked_the_same_in_any_batch(tokenizer, rows, unit):
    collator = MaskingCollator(tokenizer, unit)
    together = collate(collator, rows, list(range(12)))
    for number in (0, 5, 11):
        alone = collate(collator, rows, [number])
        assert strip(alone, 0) == strip(together, number)
    turned = collate(collator, rows, [11, 3, 0])
    assert strip(turned, 2) == strip(together, 0)


@pytest.mark.parametrize("unit", ["token", "whole_word", "span"])
def test_padding_to_a_fixed_length_changes_no_mask(tokenizer, rows, unit):
    free = collate(MaskingCollator(tokenizer, unit), rows, [0, 1, 2])
    fixed = collate(MaskingCollator(tokenizer, unit, pad_to_length=40), rows, [0, 1, 2])
    assert fixed["input_ids"].shape == (3, 40)
    for index in range(3):
        assert strip(free, index) == strip(fixed, index)


def test_epochs_and_seeds_have_masks_of_their_own(tokenizer, rows):
    collator = MaskingCollator(tokenizer)
    first = collate(collator, rows, list(range(8)))
    epoch = collate(collator, rows, [len(rows) + number for number in range(8)])
    seed = collate(collator, PackedRows(rows.rows, seed=8), list(range(8)))
    assert not torch.equal(first["labels"], epoch["labels"])
    assert not torch.equal(first["labels"], seed["labels"])
    again = collate(MaskingCollator(tokenizer), PackedRows(rows.rows, seed=7), list(range(8)))
    assert all(torch.equal(first[name], again[name]) for name in first)


def many_batches(tokenizer, rows, unit="token", epochs=60):
    collator = MaskingCollator(tokenizer, unit)
    for epoch in range(epochs):
        originals = rows.rows["input_ids"]
        yield originals, collate(collator, rows, [epoch * len(rows) + i for i in range(len(rows))])


def test_the_shares_are_fifteen_eighty_ten_ten(tokenizer, rows):
    special = set(find_special_ids(tokenizer))
    chosen = candidates = masked = kept = 0
    for originals, batch in many_batches(tokenizer, rows):
        selected = batch["labels"] != IGNORED_LABEL
        chosen += int(selected.sum())
        candidates += sum(token not in special for row in originals for token in row)
        masked += int((batch["input_ids"][selected] == tokenizer.mask_token_id).sum())
        kept += int((batch["input_ids"][selected] == batch["labels"][selected]).sum())
    assert chosen / candidates == pytest.approx(0.15, abs=0.01)
    assert masked / chosen == pytest.approx(0.8, abs=0.02)
    # A random draw may hit the token itself.
    assert kept / chosen == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("unit", ["token", "whole_word", "span"])
def test_special_tokens_and_padding_are_never_masked_nor_drawn(tokenizer, rows, unit):
    special = torch.tensor(find_special_ids(tokenizer))
    drawn = set()
    for originals, batch in many_batches(tokenizer, rows, unit):
        selected = batch["labels"] != IGNORED_LABEL
        assert not torch.isin(batch["labels"][selected], special).any()
        assert not selected[batch["attention_mask"] == 0].any()
        replaced = selected & (batch["input_ids"] != tokenizer.mask_token_id)
        drawn |= set(batch["input_ids"][replaced].tolist())
        for index, row in enumerate(originals):
            ids, labels = strip(batch, index)
            restored = [
                token if label == IGNORED_LABEL else label
                for token, label in zip(ids, labels, strict=True)
            ]
            assert restored == row
    assert not drawn & set(special.tolist())
    assert max(drawn) < len(tokenizer)
    assert len(drawn) > 0.8 * (len(tokenizer) - len(special))


def test_ids_beyond_a_gap_in_the_vocabulary_are_masked_and_drawn():
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
    vocabulary = {**{token: number for number, token in enumerate(tokens)}, "b": 40}
    tokenizer = BertTokenizer(vocab=vocabulary)
    collator = MaskingCollator(tokenizer, mask_token_fraction=0.0, random_token_fraction=1.0)
    rows = [{"input_ids": [2, 40, 5, 40, 3], "mask_key": (0, 0, number)} for number in range(80)]
    batch = collator(rows)
    chosen = batch["labels"] != IGNORED_LABEL
    assert set(batch["labels"][chosen].tolist()) == {5, 40}
    assert set(batch["input_ids"][chosen].tolist()) == {5, 40}


@pytest.mark.parametrize("unit", ["token", "span"])
def test_every_row_has_something_to_predict(tokenizer, unit):
    collator = MaskingCollator(tokenizer, unit)
    cls, sep, token = tokenizer.cls_token_id, tokenizer.sep_token_id, len(tokenizer) - 1
    rows = [{"input_ids": [cls, token, sep], "mask_key": (0, 0, number)} for number in range(50)]
    assert ((collator(rows)["labels"] != IGNORED_LABEL).sum(dim=1) == 1).all()


@pytest.mark.parametrize("unit", ["token", "span"])
def test_a_row_without_ordinary_tokens_predicts_nothing(tokenizer, unit):
    rows = [{"input_ids": [tokenizer.cls_token_id, tokenizer.sep_token_id], "mask_key": (0, 0, 0)}]
    assert (MaskingCollator(tokenizer, unit)(rows)["labels"] == IGNORED_LABEL).all()


def test_a_span_is_masked_replaced_or_kept_as_one(tokenizer):
    ids = [tokenizer.cls_token_id, *range(20, 220), tokenizer.sep_token_id]
    rows = [{"input_ids": ids, "mask_key": (0, 0, number)} for number in range(100)]
    batch = MaskingCollator(tokenizer, "span")(rows)
    chosen = batch["labels"] != IGNORED_LABEL
    is_mask = batch["input_ids"] == tokenizer.mask_token_id
    pairs = chosen[:, 1:] & chosen[:, :-1]
    same = (is_mask[:, 1:] == is_mask[:, :-1])[pairs].float().mean().item()
    # Token by token it were 0.68; spans that touch keep it below 1.
    assert 0.95 < same < 1


def test_segments_are_padded_with_the_first(tokenizer):
    short, long = [1, 5, 2], [1, 5, 2, 6, 2]
    rows = [
        {"input_ids": short, "token_type_ids": [0, 0, 0], "mask_key": (0, 0, 0)},
        {"input_ids": long, "token_type_ids": [0, 0, 0, 1, 1], "mask_key": (0, 0, 1)},
    ]
    segments = MaskingCollator(tokenizer)(rows)["token_type_ids"]
    assert segments.tolist() == [[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]]


def test_whole_words_are_masked_whole(tokenizer):
    # Words that the tokenizer has never seen have several tokens.
    text = "unbelievable gardening of seafaring villagers in travelling machinery ."
    unseen = datasets.Dataset.from_dict({"text": [text] * 20})
    rows = PackedRows(pack_corpus(unseen, tokenizer, 64, with_word_ids=True), seed=7)
    longer = 0
    for _, batch in many_batches(tokenizer, rows, "whole_word", epochs=10):
        for index, words in enumerate(rows.rows["word_ids"]):
            _, labels = strip(batch, index)
            for word in set(words) - {NO_WORD}:
                states = {
                    label != IGNORED_LABEL
                    for label, owner in zip(labels, words, strict=True)
                    if owner == word
                }
                assert len(states) == 1
                longer += words.count(word) > 1 and states == {True}
    assert longer > 0


def test_units_begin_at_the_first_token_of_a_word():
    words = torch.tensor([[NO_WORD, 0, 0, 1, 2, 2, 2, NO_WORD, NO_WORD]])
    assert find_unit_starts(words).tolist() == [[0, 1, 1, 3, 4, 4, 4, 7, 8]]


def test_the_last_unit_may_exceed_the_budget_and_no_other():
    candidates = torch.ones(200, 30, dtype=torch.bool)
    starts = (torch.arange(30) // 3 * 3).expand(200, 30)
    keys = hash_counters(torch.arange(200), torch.tensor(0)).unsqueeze(1)
    # 3.9 rounds to 3 or 4 tokens: one unit of three or two.
    chosen = choose_tokens(candidates, starts, keys, 0.13)
    assert chosen.sum(dim=1).unique().tolist() == [3, 6]
    assert (chosen.sum(dim=1) == 6).float().mean().item() == pytest.approx(0.9, abs=0.07)
    frequency = chosen.float().mean(dim=0)
    assert frequency.min() > 0.1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"masking_unit": "line"}, "masking_unit 'line'.*token, whole_word, span"),
        ({"mask_fraction": 0.0}, "mask_fraction 0.0"),
        ({"mask_fraction": 1.5}, "mask_fraction 1.5"),
        ({"mask_token_fraction": 0.9, "random_token_fraction": 0.2}, "at most 1"),
        ({"random_token_fraction": -0.1}, "negative"),
    ],
)
def test_bad_settings_are_refused(tokenizer, settings, message):
    with pytest.raises(ValueError, match=message):
        MaskingCollator(tokenizer, **settings)
