import datasets
import pytest
from transformers import AutoTokenizer, BertTokenizer

from modeling_lvbert.pretraining.tokenizer_training import choose_vocab_size, train_tokenizer


def read(tokenizer, *texts):
    return tokenizer.convert_ids_to_tokens(tokenizer(*texts)["input_ids"])


@pytest.fixture
def bert(documents):
    return train_tokenizer(documents, "lvbert", 400, 64)


@pytest.fixture
def elc(documents):
    return train_tokenizer(documents, "elcbert", 400, 64)


def test_lvbert_gets_a_lower_casing_bert_tokenizer(bert):
    assert isinstance(bert, BertTokenizer)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert bert.convert_ids_to_tokens(range(5)) == special
    assert read(bert, "THE Sea [MASK]") == ["[CLS]", "the", "sea", "[MASK]", "[SEP]"]
    assert bert("a", "b")["token_type_ids"] == [0, 0, 0, 1, 1]


def test_elcbert_gets_the_authors_kind_with_cls_and_sep_added(elc):
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", "[PAR]", "[TAB]"]
    assert elc.convert_ids_to_tokens(range(7)) == special
    assert (elc.pad_token_id, elc.mask_token_id) == (3, 4)
    assert read(elc, "The sea", "The sea") == [
        "[CLS]", "ĠThe", "Ġsea", "[SEP]", "ĠThe", "Ġsea", "[SEP]",
    ]  # fmt: skip
    assert elc.num_special_tokens_to_add(pair=True) == 3
    assert "token_type_ids" not in elc("a", "b")


def test_elcbert_s_digits_stand_alone_and_no_word_is_unknown(elc):
    assert read(elc, "987")[1:-1] == ["Ġ", "9", "8", "7"]
    text = "Ünïcode 北京 and 🙂 , 12 times ."
    assert elc.unk_token_id not in elc(text)["input_ids"]
    assert elc.decode(elc(text)["input_ids"], skip_special_tokens=True).strip() == text


def test_elcbert_s_mask_takes_the_blank_before_it(elc):
    assert read(elc, "The [MASK] sea") == ["[CLS]", "ĠThe", "[MASK]", "Ġsea", "[SEP]"]


def test_characters_that_a_corpus_lacks_are_known_to_the_bert_kind(bert):
    assert bert.unk_token_id not in bert("' \" # 0 9 z ~")["input_ids"]


@pytest.mark.parametrize("family", ["lvbert", "elcbert"])
def test_training_twice_gives_the_same_tokenizer(documents, family):
    first, second = (train_tokenizer(documents, family, 300, 64) for _ in range(2))
    assert first.get_vocab() == second.get_vocab()
    assert len(first) <= 300


@pytest.mark.parametrize("family", ["lvbert", "elcbert"])
def test_a_saved_tokenizer_is_the_same_one(documents, tmp_path, family):
    tokenizer = train_tokenizer(documents, family, 400, 64)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    text = "The old sailor's 12 [MASK] in Café , a story !"
    assert loaded(text, text)["input_ids"] == tokenizer(text, text)["input_ids"]
    assert loaded.model_max_length == 64
    assert loaded.all_special_ids == tokenizer.all_special_ids


@pytest.mark.parametrize("family", ["lvbert", "elcbert"])
def test_a_vocabulary_without_room_for_the_alphabet_is_refused(documents, family):
    with pytest.raises(ValueError, match="vocab_size 100: at least 263"):
        train_tokenizer(documents, family, 100, 64)


def test_a_larger_corpus_gets_a_larger_vocabulary():
    small = datasets.Dataset.from_dict({"text": ["word " * 10]})
    large = datasets.Dataset.from_dict({"text": ["word " * 4_000_000]})
    assert choose_vocab_size(small) == 4_096
    assert choose_vocab_size(large) == 8_192
