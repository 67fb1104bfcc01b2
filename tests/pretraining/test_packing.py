import json
import random
import signal
import subprocess
import sys

import datasets
import pytest
import torch
from tokenizers import Tokenizer
from transformers import BertTokenizer, PreTrainedTokenizerFast

from modeling_lvbert.pretraining.masking import IGNORED_LABEL, NO_WORD, MaskingCollator
from modeling_lvbert.pretraining.packing import (
    REQUIRED_TOKENS,
    check_tokenizer,
    pack_corpus,
    pack_documents,
)
from modeling_lvbert.pretraining.rows import PackedRows

PACKING = "modeling_lvbert.pretraining.packing"


def tokens_of(tokenizer, text):
    return [
        token
        for line in text.splitlines()
        for token in tokenizer(line, add_special_tokens=False)["input_ids"]
    ]


@pytest.mark.parametrize("length", [3, 10, 24, 64])
def test_rows_hold_each_document_in_order_and_whole(documents, tokenizer, length):
    rows = iter(pack_corpus(documents, tokenizer, length)["input_ids"])
    for text in documents["text"]:
        left = tokens_of(tokenizer, text)
        while left:
            row = next(rows)
            assert len(row) <= length
            assert row[0] == tokenizer.cls_token_id
            assert row[-1] == tokenizer.sep_token_id
            # Only the last row of a document is short.
            assert row[1:-1] == left[: length - 2]
            left = left[length - 2 :]
    assert next(rows, None) is None


def test_three_short_lines_give_one_row_that_reads_back(tokenizer):
    text = "The old sailor told a story .\nA small bird sang .\nNobody had seen it ."
    rows = pack_corpus(datasets.Dataset.from_dict({"text": [text]}), tokenizer, 128)
    assert len(rows) == 1
    assert rows[0]["input_ids"].count(tokenizer.cls_token_id) == 1
    read = tokenizer.decode(rows[0]["input_ids"], skip_special_tokens=True)
    # BERT decoding closes up punctuation.
    assert "".join(read.lower().split()) == "".join(text.lower().split())


def test_only_the_model_s_columns_are_left(documents, tokenizer):
    labelled = documents.add_column("source", ["book"] * len(documents))
    assert pack_corpus(labelled, tokenizer, 24).column_names == ["input_ids"]


def test_word_numbers_part_words_also_across_lines(tokenizer):
    packed = pack_documents({"text": ["The sea\nextraordinary"]}, tokenizer, 64, True)
    (ids,), (words,) = packed["input_ids"], packed["word_ids"]
    assert len(ids) == len(words)
    assert words[0] == words[-1] == NO_WORD
    inner = words[1:-1]
    assert inner == sorted(inner)
    assert len(set(inner)) == 3


@pytest.mark.parametrize("packing", ["documents", "segment_pairs"])
def test_several_processes_pack_the_same(documents, tokenizer, packing):
    settings = {"packing": packing, "pair_settings": {"seed": 3}}
    one = pack_corpus(documents, tokenizer, 24, **settings)
    other = documents.add_column("n", list(range(40)))
    two = pack_corpus(other, tokenizer, 24, num_proc=2, **settings)
    assert one.to_dict() == two.to_dict()


def test_pairs_of_segments_have_their_column(documents, tokenizer):
    rows = pack_corpus(documents, tokenizer, 24, with_word_ids=True, packing="segment_pairs")
    assert sorted(rows.column_names) == ["input_ids", "token_type_ids", "word_ids"]
    assert (
        rows.to_dict()
        == pack_corpus(
            documents, tokenizer, 24, with_word_ids=True, packing="segment_pairs"
        ).to_dict()
    )
    settings = {"packing": "segment_pairs", "pair_settings": {"seed": 1}}
    other = pack_corpus(documents, tokenizer, 24, True, **settings)
    assert other["token_type_ids"] != rows["token_type_ids"]


def test_a_tokenizer_without_a_paragraph_mark_cannot_pack_sentences(documents, tokenizer):
    if "[PAR]" in tokenizer.get_vocab():
        rows = pack_corpus(documents, tokenizer, 24, packing="sentences")
        par = tokenizer.convert_tokens_to_ids("[PAR]")
        assert any(par in row for row in rows["input_ids"])
    else:
        with pytest.raises(ValueError, match=r"no \[PAR\]"):
            pack_corpus(documents, tokenizer, 24, packing="sentences")


@pytest.mark.parametrize("packing", ["documents", "segment_pairs"])
def test_chunks_and_processes_change_no_row(documents, tokenizer, packing, tmp_path, monkeypatch):
    settings = {"packing": packing, "pair_settings": {"seed": 3}}
    whole = pack_corpus(documents, tokenizer, 24, **settings)
    for chunk_size, num_proc in ((1, None), (2_000, None), (2_000, 2)):
        monkeypatch.setattr(PACKING + "._CHUNK_SIZE", chunk_size)
        other = documents.add_column("n", [chunk_size + (num_proc or 0)] * 40)
        assert pack_corpus(other, tokenizer, 24, num_proc=num_proc, **settings)[:] == whole[:]


def test_a_corpus_of_many_small_chunks_may_have_some_without_a_row(tokenizer, monkeypatch):
    monkeypatch.setattr(PACKING + "._CHUNK_SIZE", 1)
    texts = ["", "The sea .", "\n", " ", "A bird .", ""]
    rows = pack_corpus(datasets.Dataset.from_dict({"text": texts}), tokenizer, 24)
    assert len(rows) == 2


@pytest.fixture
def stored(documents, tmp_path):
    """The documents in a folder of their own, with a cache of their own."""
    documents.save_to_disk(tmp_path / "documents")
    return tmp_path / "documents"


def test_an_interrupted_preparation_goes_on_where_it_was(stored, tokenizer, monkeypatch):
    monkeypatch.setattr(PACKING + "._CHUNK_SIZE", 2_000)
    packed = []

    def pack_some(documents, *settings, **more):
        packed.extend(documents["text"])
        if len(packed) in (25, 40):
            raise KeyboardInterrupt
        return pack_documents(documents, *settings, **more)

    monkeypatch.setattr(PACKING + ".pack_documents", pack_some)
    monkeypatch.setattr(PACKING + "._BATCH_SIZE", 1)
    for num_packed in (25, 40):
        with pytest.raises(KeyboardInterrupt):
            pack_corpus(datasets.load_from_disk(stored), tokenizer, 24)
        assert len(packed) == num_packed
    rows = pack_corpus(datasets.load_from_disk(stored), tokenizer, 24)
    # Of 40 documents, only those of two interrupted chunks were packed again.
    assert 40 < len(packed) < 40 + 2 * 9
    num_packed = len(packed)
    again = pack_corpus(datasets.load_from_disk(stored), tokenizer, 24)
    assert len(packed) == num_packed
    monkeypatch.undo()
    fresh = datasets.load_from_disk(stored).add_column("n", list(range(40)))
    assert rows[:] == again[:] == pack_corpus(fresh, tokenizer, 24)[:]


KILLED_SCRIPT = """
import os, signal, sys
import datasets
from transformers import AutoTokenizer
from modeling_lvbert.pretraining import packing

tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
fatal, pack_documents = sys.argv[4], packing.pack_documents

def pack_and_log(documents, *settings, **more):
    with open(sys.argv[3], "a") as log:
        log.write("".join(text.splitlines()[2] + "\\n" for text in documents["text"]))
    if any(fatal and fatal in text for text in documents["text"]):
        os.kill(os.getpid(), signal.SIGKILL)
    return pack_documents(documents, *settings, **more)

packing.pack_documents, packing._CHUNK_SIZE, packing._BATCH_SIZE = pack_and_log, 2_000, 1
rows = packing.pack_corpus(datasets.load_from_disk(sys.argv[2]), tokenizer, 24)
print(len(rows))
"""


@pytest.mark.slow
def test_a_killed_preparation_goes_on_and_takes_no_half_written_file(stored, tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    log = tmp_path / "log"
    command = [sys.executable, "-c", KILLED_SCRIPT, tmp_path / "tokenizer", stored, log]
    for fatal in ("Chapter 20 ", "Chapter 35 ", ""):
        result = subprocess.run([*command, fatal], capture_output=True, text=True, check=False)
        assert result.returncode == (-signal.SIGKILL if fatal else 0), result.stderr
        # What the kill left is there, under a name that nobody looks for.
        assert any(path.name.startswith("tmp") for path in stored.iterdir())
    numbers = [int(line.split()[1]) for line in log.read_text().splitlines()]
    assert sorted(set(numbers)) == list(range(40))
    assert 40 < len(numbers) < 40 + 2 * 9
    fresh = datasets.load_from_disk(stored).add_column("n", list(range(40)))
    assert int(result.stdout) == len(pack_corpus(fresh, tokenizer, 24))


def test_rows_are_packed_anew_when_the_code_has_changed(stored, tokenizer, monkeypatch):
    names = []
    for code in ("old", "old", "new"):
        monkeypatch.setattr(PACKING + ".hash_code", lambda *modules, code=code: code)
        rows = pack_corpus(datasets.load_from_disk(stored), tokenizer, 24)
        names.append(rows.cache_files[0]["filename"])
    assert names[0] == names[1] != names[2]


def permute(tokenizer):
    """Returns the tokenizer with other ids, special tokens included, and the new id of each."""
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    vocab = backend["model"]["vocab"]
    numbers = list(range(len(vocab)))
    random.Random(1).shuffle(numbers)
    backend["model"]["vocab"] = {token: numbers[number] for token, number in vocab.items()}
    for token in backend["added_tokens"]:
        token["id"] = numbers[token["id"]]
    # Unused without special tokens, and full of the old ids.
    backend["post_processor"] = None
    roles = {name: getattr(tokenizer, name) for name in [*REQUIRED_TOKENS, "unk_token"]}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(backend)), **roles
    ), torch.tensor(numbers)


@pytest.mark.parametrize("packing", ["documents", "segment_pairs", "sentences"])
@pytest.mark.parametrize("unit", ["token", "whole_word", "span"])
def test_a_permuted_vocabulary_gives_the_same_rows_and_masks(documents, tokenizer, packing, unit):
    if packing == "sentences" and "[PAR]" not in tokenizer.get_vocab():
        pytest.skip("BERT's kind has no [PAR]")
    permuted, numbers = permute(tokenizer)
    assert permuted.cls_token_id != tokenizer.cls_token_id
    batches = []
    for one in (tokenizer, permuted):
        rows = pack_corpus(documents, one, 24, unit == "whole_word", packing=packing)
        # Replacements are drawn by number, and so are other words in another vocabulary.
        collator = MaskingCollator(one, unit, mask_token_fraction=0.8, random_token_fraction=0.0)
        batches.append(collator(PackedRows(rows, seed=2).__getitems__(range(40))))
    first, second = batches
    assert torch.equal(numbers[first["input_ids"]], second["input_ids"])
    is_label = first["labels"] != IGNORED_LABEL
    assert torch.equal(is_label, second["labels"] != IGNORED_LABEL)
    assert torch.equal(numbers[first["labels"][is_label]], second["labels"][is_label])


def test_packing_again_finds_the_cache_and_other_content_does_not(tmp_path, tokenizer):
    def load(texts):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        datasets.Dataset.from_dict({"text": texts}).save_to_disk(folder)
        return datasets.load_from_disk(folder)

    source = load(["The old sailor told a story .", "A small bird sang ."])
    first = pack_corpus(source, tokenizer, 24)
    tokenizer("some use of the tokenizer, which changes its state", padding=True, truncation=True)
    again = pack_corpus(source, tokenizer, 24)
    assert again.cache_files == first.cache_files != []
    others = [
        pack_corpus(source, tokenizer, 12),
        pack_corpus(source, tokenizer, 24, packing="segment_pairs"),
        pack_corpus(source, tokenizer, 24, packing="segment_pairs", pair_settings={"seed": 1}),
    ]
    names = [rows.cache_files[0]["filename"] for rows in (first, *others)]
    assert len(set(names)) == 4


@pytest.mark.parametrize(
    ("texts", "length", "packing", "message"),
    [
        (["Some text ."], 2, "documents", "max_seq_length 2: at least 3"),
        (["Some text ."], 4, "segment_pairs", "max_seq_length 4: at least 5"),
        ([], 16, "documents", "0 documents gave no row"),
        (["\n \n", ""], 16, "documents", "2 documents gave no row"),
        (["\n \n", ""], 16, "segment_pairs", "2 documents gave no row"),
        (["Some text ."], 16, "lines", "packing 'lines'.*documents, segment_pairs, sentences"),
    ],
)
def test_what_cannot_be_packed_is_refused(tokenizer, texts, length, packing, message):
    with pytest.raises(ValueError, match=message):
        pack_corpus(datasets.Dataset.from_dict({"text": texts}), tokenizer, length, packing=packing)


@pytest.mark.parametrize("name", ["mask_token", "cls_token", "sep_token", "pad_token"])
def test_a_tokenizer_without_a_special_token_is_refused(tokenizer, tmp_path, name):
    tokenizer.save_pretrained(tmp_path)
    other = type(tokenizer).from_pretrained(tmp_path)
    setattr(other, name, None)
    with pytest.raises(ValueError, match=f"has no {name}"):
        check_tokenizer(other)


def test_a_tokenizer_larger_than_the_embeddings_is_refused():
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
    tokenizer = BertTokenizer(vocab={token: number for number, token in enumerate(tokens)})
    check_tokenizer(tokenizer, 7)
    with pytest.raises(ValueError, match="vocab_size 6: at least 7"):
        check_tokenizer(tokenizer, 6)
    tokenizer.add_tokens(["[BOS]"], special_tokens=True)
    with pytest.raises(ValueError, match="vocab_size 7: at least 8"):
        check_tokenizer(tokenizer, 7)
