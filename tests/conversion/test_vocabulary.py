import json

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoTokenizer, BertTokenizer

from conversion import vocabulary

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "mo", "##chte", "cafe"]
TEXTS = [
    "The cat sat on the mat.",
    "möchte",
    "Café au lait",
    "a\nb\tc",
    "  many   blanks ",
    "[MASK] is a [SEP] word",
    "don't stop-me, please!",
    "12,345.67 %",
    "漢字 and kana かな",
    "naïve façade, ÀÉÎÕÜ",
    "emoji 🙂 and ’quotes“",
    "supercalifragilisticexpialidocious",
    "",
    "ß ﬁ ½ ² €",
    "e\u0301\u200bx\ufffdz",
]


def write_lines(path, entries, end="\n"):
    path.write_bytes("".join(entry + end for entry in entries).encode("utf-8"))
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_line_numbers_are_the_ids_whatever_the_line_end(tmp_path, end):
    tokenizer = vocabulary.wordpiece_tokenizer(write_lines(tmp_path / "v", WORDS, end), 24)
    assert len(tokenizer) == len(WORDS)
    assert tokenizer("The cats")["input_ids"] == [2, 5, 6, 7, 3]
    assert tokenizer("möchte Café")["input_ids"] == [2, 8, 9, 10, 3]
    assert tokenizer.model_max_length == 24


def test_line_separators_of_unicode_are_entries(tmp_path):
    words = [*WORDS, "\u2028", "\x85", "after"]
    tokenizer = vocabulary.wordpiece_tokenizer(write_lines(tmp_path / "v", words), 24)
    assert tokenizer.convert_tokens_to_ids("after") == len(words) - 1


def test_repeated_entries_keep_all_ids_and_match_no_text(tmp_path, caplog):
    words = [*WORDS, "x", "茅", "##茅", "x", "##茅", "茅", "last"]
    tokenizer = vocabulary.wordpiece_tokenizer(write_lines(tmp_path / "v", words, "\r\n"), 24)
    assert "6 of its 18 lines occur more than once" in caplog.text
    assert "bert-base-uncased" in caplog.text
    assert len(tokenizer) == len(words)
    assert tokenizer.convert_tokens_to_ids("last") == len(words) - 1
    repeated = range(len(WORDS), len(words) - 1)
    names = tokenizer.convert_ids_to_tokens(list(repeated))
    assert len(set(names)) == len(names)
    texts = ["x", "茅", "the茅", *names, *(f"the {name}" for name in names), "the" + names[1]]
    for text in texts:
        assert not set(tokenizer(text)["input_ids"]) & set(repeated), text


def test_no_warning_where_nothing_repeats(tmp_path, caplog):
    vocabulary.wordpiece_tokenizer(write_lines(tmp_path / "v", WORDS), 24)
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (WORDS[:4], r"special tokens \['\[MASK\]'\] are not in the vocabulary"),
        ([*WORDS, "", "x"], r"empty lines \[12\]"),
        ([*WORDS, "[PAD]"], r"special token \[PAD\] occurs more than once"),
        ([], r"empty lines \[1\]"),
    ],
    ids=["no mask", "empty line", "two pads", "empty file"],
)
def test_a_broken_vocabulary_is_an_error(tmp_path, entries, message):
    with pytest.raises(ValueError, match=message):
        vocabulary.wordpiece_tokenizer(write_lines(tmp_path / "v", entries), 24)


def test_a_vocabulary_that_is_no_text_is_an_error(tmp_path):
    path = tmp_path / "v"
    path.write_bytes(b"[PAD]\n\xff\xfe\n")
    with pytest.raises(ValueError, match="not UTF-8"):
        vocabulary.wordpiece_tokenizer(path, 24)


def test_the_uncased_list_gives_the_ids_of_the_librarys_tokenizer(shared_data, tmp_path):
    path = shared_data / "tokenizers" / "bert_base_uncased_vocab.txt"
    entries = path.read_bytes().decode("utf-8").removesuffix("\n").split("\n")
    expected = BertTokenizer(vocab={entry: index for index, entry in enumerate(entries)})
    vocabulary.wordpiece_tokenizer(path, 512).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert len(tokenizer) == 30522
    for text in TEXTS:
        assert tokenizer(text)["input_ids"] == expected(text)["input_ids"], text
    # Recorded from the original's tokenization: lower case, accents gone, newline a blank.
    assert tokenizer("möchte Café a\nb")["input_ids"] == [
        101, 9587, 10143, 2063, 7668, 1037, 1038, 102
    ]  # fmt: skip


def test_the_published_vocabulary_works_and_warns(shared_data, tmp_path, caplog):
    folder = shared_data / "tokenizers"
    vocabulary.wordpiece_tokenizer(folder / "lvbert_vocab.txt", 512).save_pretrained(tmp_path)
    assert "1196 of its 30522 lines occur more than once, 1900 are not plain ASCII" in caplog.text
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    right = vocabulary.wordpiece_tokenizer(folder / "bert_base_uncased_vocab.txt", 512)
    assert len(tokenizer) == tokenizer.vocab_size == 30522
    assert sorted(tokenizer.get_vocab().values()) == list(range(30522))
    for text in filter(str.isascii, TEXTS):
        assert tokenizer(text)["input_ids"] == right(text)["input_ids"], text
    assert tokenizer("möchte Café")["input_ids"] == right("möchte Café")["input_ids"]


@pytest.fixture
def byte_level_file(tmp_path):
    """A tokenizer file of the official form: WordPiece without prefix, no template."""
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", "[PAR]", "[TAB]"]
    words = [*special, "Ġ", "Ġthe", "Ġcat", "a", "s", "1", "2", "Ġa", "Ġb", "."]
    vocab = {word: index for index, word in enumerate(words)}
    tokenizer = Tokenizer(
        models.WordPiece(vocab=vocab, unk_token="[UNK]", continuing_subword_prefix="")
    )
    tokenizer.add_special_tokens(special)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.ByteLevel(add_prefix_space=True), pre_tokenizers.Digits(True)]
    )
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    tokenizer.decoder = decoders.ByteLevel()
    path = tmp_path / "official.json"
    tokenizer.save(str(path))
    return path


@pytest.fixture
def elc_tokenizer(byte_level_file, tmp_path):
    """As it is after a round trip through a folder."""
    vocabulary.elc_tokenizer(byte_level_file, 64).save_pretrained(tmp_path / "saved")
    return AutoTokenizer.from_pretrained(tmp_path / "saved")


def test_elc_texts_and_pairs_are_framed(elc_tokenizer):
    assert elc_tokenizer("the cat")["input_ids"] == [1, 8, 9, 2]
    pair = elc_tokenizer("a", "b", return_special_tokens_mask=True)
    assert pair["input_ids"] == [1, 14, 2, 15, 2]
    assert pair["special_tokens_mask"] == [1, 0, 1, 0, 1]
    assert elc_tokenizer.num_special_tokens_to_add(pair=True) == 3
    assert "token_type_ids" not in pair


def test_elc_offsets_leave_blanks_out(elc_tokenizer):
    encoded = elc_tokenizer("the cats", return_offsets_mapping=True)
    assert encoded["offset_mapping"] == [(0, 0), (0, 3), (4, 7), (7, 8), (0, 0)]


def test_elc_mask_takes_the_blank_before_it(elc_tokenizer):
    assert elc_tokenizer("the [MASK] cat.")["input_ids"] == [1, 8, 4, 9, 16, 2]


def test_elc_has_no_tokens_beyond_its_vocabulary(elc_tokenizer):
    assert len(elc_tokenizer) == elc_tokenizer.vocab_size == 17
    assert (elc_tokenizer.bos_token, elc_tokenizer.eos_token) == (None, None)
    assert (elc_tokenizer.pad_token_id, elc_tokenizer.mask_token_id) == (3, 4)
    assert elc_tokenizer.model_max_length == 64
    assert elc_tokenizer.is_fast


def test_elc_decoding_gives_the_text_back(elc_tokenizer):
    ids = elc_tokenizer("the cats.")["input_ids"]
    assert elc_tokenizer.decode(ids, skip_special_tokens=True).strip() == "the cats."


def test_a_template_that_is_there_stays(byte_level_file, tmp_path):
    tokenizer = Tokenizer.from_file(str(byte_level_file))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    path = tmp_path / "framed.json"
    tokenizer.save(str(path))
    assert vocabulary.elc_tokenizer(path, 64)("the")["input_ids"] == [1, 8, 2]


@pytest.mark.parametrize("text", ["no json", "[]", "3", '{"version": "1.0"}'])
def test_a_file_of_another_form_is_an_error(tmp_path, text):
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="not a tokenizers JSON file"):
        vocabulary.elc_tokenizer(path, 64)


def test_elc_special_tokens_must_be_in_the_vocabulary(byte_level_file, tmp_path):
    content = json.loads(byte_level_file.read_text(encoding="utf-8"))
    content["model"]["vocab"]["[XXXX]"] = content["model"]["vocab"].pop("[MASK]")
    content["added_tokens"] = [
        token for token in content["added_tokens"] if token["content"] != "[MASK]"
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ValueError, match=r"special tokens \['\[MASK\]'\]"):
        vocabulary.elc_tokenizer(path, 64)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("elcbert_tokenizer.json", 16384),
        ("elcbert_tokenizer_small_104.json", 6144),
        ("elcbert_tokenizer_small_68.json", 8192),
    ],
)
def test_official_elc_tokenizers_keep_their_ids(shared_data, name, size):
    path = shared_data / "tokenizers" / name
    tokenizer, original = vocabulary.elc_tokenizer(path, 512), Tokenizer.from_file(str(path))
    assert len(tokenizer) == size
    for text in TEXTS:
        if "[MASK]" not in text:
            encoded = tokenizer(text, return_offsets_mapping=True)
            expected = original.encode(text)
            assert encoded["input_ids"] == [1, *expected.ids, 2], text
            assert encoded["offset_mapping"][1:-1] == expected.offsets, text
