import datasets
import pytest
from transformers import AutoTokenizer, BertTokenizer

from modeling_lvbert.pretraining.tokenizer_training import (
    choose_vocab_size,
    compute_f95,
    save_tokenizer,
    train_tokenizer,
)


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


def test_an_unknown_family_and_a_length_without_room_are_refused(documents):
    with pytest.raises(ValueError, match="model_family 'bert': must be one of lvbert, elcbert"):
        train_tokenizer(documents, "bert", 400, 64)
    with pytest.raises(ValueError, match="model_max_length 2: must be at least 3"):
        train_tokenizer(documents, "lvbert", 400, 2)


def test_the_mark_of_a_verse_is_no_text_to_train_elcbert_s_kind_on(documents):
    marked = datasets.Dataset.from_dict(
        {"text": ["[TAB] " + text.replace("\n", "\n[TAB] ") for text in documents["text"]]}
    )
    plain = train_tokenizer(documents, "elcbert", 400, 64)
    assert train_tokenizer(marked, "elcbert", 400, 64).get_vocab() == plain.get_vocab()


def make_tokenizer(num_words):
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}x" for n in range(num_words))]
    return BertTokenizer(vocab={name: number for number, name in enumerate(names)})


@pytest.mark.parametrize(
    ("num_words", "expected"),
    # Word n occurs n + 1 times. Of the counts from 40 down to 1, number 38 is a 2.
    [(40, 2), (20, 1), (100, 5), (1, 1)],
)
def test_f95_is_the_count_of_the_token_behind_which_five_percent_are_left(num_words, expected):
    words = [word for n in range(num_words) for word in [f"w{n}x"] * (n + 1)]
    texts = [" ".join(words[:30]), "", " ".join(words[30:])]
    # Words that never occur do not count.
    for more in (0, 500):
        tokenizer = make_tokenizer(num_words + more)
        assert compute_f95(datasets.Dataset.from_dict({"text": texts}), tokenizer) == expected


def test_f95_is_the_same_for_a_permuted_vocabulary(documents):
    tokenizer = train_tokenizer(documents, "lvbert", 400, 64)
    vocab = tokenizer.get_vocab()
    ids = sorted(vocab.values(), key=lambda number: number * 7919 % 401)
    permuted = BertTokenizer(vocab={token: ids[number] for token, number in vocab.items()})
    assert compute_f95(documents, permuted) == compute_f95(documents, tokenizer) > 0


def test_f95_needs_a_token():
    with pytest.raises(ValueError, match="2 documents have no token"):
        compute_f95(datasets.Dataset.from_dict({"text": ["", " \n"]}), make_tokenizer(1))


def test_a_tokenizer_s_folder_is_there_whole_or_not_at_all(bert, tmp_path, monkeypatch):
    folder = tmp_path / "new" / "tokenizer"
    folder.mkdir(parents=True)
    save_pretrained = type(bert).save_pretrained

    def fail(tokenizer, path):
        save_pretrained(tokenizer, path)
        raise OSError("disk full")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="disk full"):
        patched.setattr(type(bert), "save_pretrained", fail)
        save_tokenizer(bert, str(folder))
    assert list(folder.parent.iterdir()) == [folder]
    assert list(folder.iterdir()) == []
    save_tokenizer(bert, str(folder))
    assert AutoTokenizer.from_pretrained(folder).get_vocab() == bert.get_vocab()
    assert list(folder.parent.iterdir()) == [folder]
    with pytest.raises(ValueError, match=r"output_dir '.*tokenizer' is not empty: take a new"):
        save_tokenizer(bert, str(folder))
    with pytest.raises(ValueError, match=r"'.*tokenizer.json' is a file, no folder"):
        save_tokenizer(bert, str(folder / "tokenizer.json" / "more"))


def test_a_larger_corpus_gets_a_larger_vocabulary():
    small = datasets.Dataset.from_dict({"text": ["word " * 10]})
    large = datasets.Dataset.from_dict({"text": ["word " * 4_000_000]})
    assert choose_vocab_size(small) == 4_096
    assert choose_vocab_size(large) == 8_192
