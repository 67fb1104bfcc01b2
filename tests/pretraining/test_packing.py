import datasets
import pytest
import torch
from torch.utils.data import DataLoader
from transformers import BertTokenizer

from modeling_lvbert.pretraining.masking import NO_WORD, MaskingCollator
from modeling_lvbert.pretraining.packing import (
    PackedRows,
    RowStream,
    check_tokenizer,
    pack_corpus,
    pack_documents,
)


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


def test_some_rows_are_shortened_anew_each_epoch(documents, tokenizer):
    packed = pack_corpus(documents, tokenizer, 24)
    rows = PackedRows(packed, seed=5, short_sequence_probability=0.5, max_seq_length=24)
    passes = [rows.__getitems__(range(start, start + len(rows))) for start in (0, len(rows))]
    assert [len(row["input_ids"]) for row in passes[0]] != [
        len(row["input_ids"]) for row in passes[1]
    ]
    for row, whole in zip(passes[0], packed["input_ids"], strict=True):
        assert row["input_ids"] == [*whole[: len(row["input_ids"]) - 1], whole[-1]]
    assert rows[7] == passes[0][7]


def test_rows_that_cannot_be_shortened_are_refused(documents, tokenizer):
    pairs = pack_corpus(documents, tokenizer, 24, packing="segment_pairs")
    with pytest.raises(ValueError, match="two segments"):
        PackedRows(pairs, 0, 0.1, 24)
    with pytest.raises(ValueError, match="short_sequence_probability 2"):
        PackedRows(pack_corpus(documents, tokenizer, 24), 0, 2.0, 24)


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


@pytest.mark.parametrize("batch", [4, 6, 10, 64])
def test_the_stream_shows_every_row_equally_often(batch):
    stream = RowStream(10, batch, seed=3)
    seen = []
    for epoch in range(30):
        stream.set_epoch(epoch)
        indices = list(stream)
        assert len(indices) == len(stream)
        assert len(stream) % batch == 0
        seen += indices
    # One pass after the other, each a permutation of its own.
    passes = [seen[start : start + 10] for start in range(0, len(seen) - 9, 10)]
    for number, indices in enumerate(passes):
        assert sorted(indices) == list(range(number * 10, number * 10 + 10))
    assert len({tuple(index % 10 for index in indices) for indices in passes[:5]}) == 5


def test_a_step_has_the_same_rows_however_the_batch_is_split():
    whole = list(RowStream(37, 16, seed=1))
    split = list(RowStream(37, 2 * 4 * 2, seed=1))
    assert whole == split


def test_the_index_carries_row_epoch_and_seed(documents, tokenizer):
    rows = PackedRows(pack_corpus(documents, tokenizer, 24), seed=5)
    item = rows[2 * len(rows) + 3]
    assert item["mask_key"] == (5, 2, 3)
    assert item["input_ids"] == rows.rows[3]["input_ids"]


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_change_no_batch(documents, tokenizer, workers):
    rows = PackedRows(pack_corpus(documents, tokenizer, 24), seed=5)

    def load(workers):
        stream = RowStream(len(rows), 8, seed=1)
        stream.set_epoch(1)
        context = "fork" if workers else None
        return list(
            DataLoader(
                rows,
                8,
                sampler=stream,
                collate_fn=MaskingCollator(tokenizer),
                num_workers=workers,
                multiprocessing_context=context,
            )
        )

    for one, other in zip(load(0), load(workers), strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)
