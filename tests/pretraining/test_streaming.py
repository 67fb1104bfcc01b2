import bz2
import gzip
import itertools
import json
import lzma
import pickle

import pytest

from modeling_lvbert.pretraining.corpus import load_file
from modeling_lvbert.pretraining.embedded_corpus import iterate_embedded_documents
from modeling_lvbert.pretraining.packing import bind_packing, pack_corpus
from modeling_lvbert.pretraining.streaming import StreamedRows, open_stream

START = (0, 0, 0)


def read_numbers(num_documents):
    return lambda: ({"text": str(number)} for number in range(num_documents))


def pack_numbers(documents, numbers):
    """Document n gives n % 4 rows, each of its number and that of the row."""
    assert documents["text"] == [str(number) for number in numbers]
    rows = [[number, row] for number in numbers for row in range(number % 4)]
    return {"input_ids": rows, "word_ids": [[-1, row] for _, row in rows]}


def take(stream, count, position=START):
    return list(itertools.islice(stream.iterate_from(position), count))


@pytest.mark.parametrize("block_size", [1, 4, 7, 10, 100])
def test_every_pass_has_every_row_once_and_its_own_order(block_size):
    stream = StreamedRows(read_numbers(10), pack_numbers, 3, block_size)
    rows = [row for _, row in take(stream, 39)]
    passes = [[tuple(row["input_ids"]) for row in rows[i : i + 13]] for i in (0, 13, 26)]
    expected = [(number, row) for number in range(10) for row in range(number % 4)]
    assert all(sorted(one) == expected for one in passes)
    assert all(row["word_ids"] == [-1, row["input_ids"][1]] for row in rows)
    if block_size > 1:
        assert len(set(map(tuple, passes))) == 3
    keys = [row["mask_key"] for row in rows]
    assert len(set(keys)) == 39
    assert [key[:2] for key in keys] == [(3, number) for number in (0, 1, 2) for _ in range(13)]
    # A row's key differs from pass to pass in the pass alone.
    by_pass = [
        {tuple(row["input_ids"]): row["mask_key"][2] for row in rows[i : i + 13]} for i in (0, 13)
    ]
    assert by_pass[0] == by_pass[1]


@pytest.mark.parametrize("block_size", [1, 3, 4, 10, 12])
def test_a_stream_goes_on_from_every_position_with_the_same_rows(block_size):
    stream = StreamedRows(read_numbers(12), pack_numbers, 0, block_size)
    whole = take(stream, 60)
    for number, (position, _) in enumerate(whole):
        other = StreamedRows(read_numbers(12), pack_numbers, 0, block_size)
        assert take(other, 20, position) == take(stream, number + 21)[number + 1 :]


def test_the_order_depends_on_seed_pass_and_block_alone():
    first, second = (StreamedRows(read_numbers(50), pack_numbers, seed, 10) for seed in (0, 1))
    orders = [[row["input_ids"] for _, row in take(stream, 73)] for stream in (first, second)]
    assert orders[0] != orders[1]
    # More documents behind a block change nothing in it.
    longer = StreamedRows(read_numbers(60), pack_numbers, 0, 10)
    assert take(first, 70) == take(longer, 70)
    # Rows of a block come before those of the next one, and not in the order of the corpus.
    blocks = [position[1] for position, _ in take(first, 73)]
    assert blocks == sorted(blocks)
    assert orders[0] != sorted(orders[0])


def test_documents_before_a_position_are_read_and_not_packed():
    packed = []

    def pack(documents, numbers):
        packed.extend(numbers)
        return pack_numbers(documents, numbers)

    stream = StreamedRows(read_numbers(20), pack, 0, 5)
    position, row = take(StreamedRows(read_numbers(20), pack_numbers, 0, 5), 20)[-1]
    assert position[1] == 2
    assert take(stream, 1, position)[0][1] != row
    assert packed == list(range(10, 15))


def test_no_more_than_a_block_is_read_ahead():
    num_read = 0

    def read():
        nonlocal num_read
        for number in range(1000):
            num_read += 1
            yield {"text": str(number)}

    take(StreamedRows(read, pack_numbers, 0, 8), 1)
    assert num_read == 8


@pytest.mark.parametrize("num_documents", [0, 1, 5])
def test_a_pass_without_a_row_is_an_error_and_no_endless_loop(num_documents):
    empty = StreamedRows(
        read_numbers(num_documents), lambda documents, numbers: {"input_ids": []}, 0, 2
    )
    with pytest.raises(ValueError, match="a whole pass over the corpus gave no row"):
        take(empty, 1)


def test_rows_before_a_position_count_for_its_pass():
    # Document 3 alone has rows; what follows the position in its pass has none.
    stream = StreamedRows(
        read_numbers(8),
        lambda _, numbers: {"input_ids": [[n] for n in numbers if n == 3]},
        0,
        2,
    )
    assert [position for position, _ in take(stream, 2)] == [(0, 1, 1), (1, 1, 1)]
    assert take(stream, 1, (0, 1, 1)) == take(stream, 2)[1:]


@pytest.mark.parametrize(
    ("position", "message"),
    [((0, 5, 0), "the corpus ends after 10"), ((1, 0, 99), "row 99 of block 0: it has 4 rows")],
)
def test_a_position_of_another_corpus_is_refused(position, message):
    stream = StreamedRows(read_numbers(10), pack_numbers, 0, 4 if position[1] else 5)
    if not position[1]:
        message = message.replace("has 4", "has 6")
    with pytest.raises(ValueError, match=message):
        take(stream, 1, position)


def test_a_block_of_nothing_or_of_too_many_rows_is_refused(monkeypatch):
    with pytest.raises(ValueError, match="block_size 0: must be at least 1"):
        StreamedRows(read_numbers(1), pack_numbers, 0, 0)
    monkeypatch.setattr("modeling_lvbert.pretraining.streaming._ROW_BITS", 3)
    for num_rows in (7, 8):
        rows = [[0]] * num_rows
        stream = StreamedRows(read_numbers(1), lambda *_, rows=rows: {"input_ids": rows}, 0, 1)
        if num_rows == 7:
            take(stream, 7)
        else:
            with pytest.raises(ValueError, match="block_size 1: block 0 has 8 rows, at most 7"):
                take(stream, 1)


@pytest.mark.parametrize("packing", ["documents", "segment_pairs"])
def test_the_stream_has_the_rows_of_the_prepared_corpus(documents, tokenizer, packing, monkeypatch):
    # Batches of two or three documents.
    monkeypatch.setattr("modeling_lvbert.pretraining.streaming._BATCH_SIZE", 400)
    prepared = pack_corpus(documents, tokenizer, 24, packing=packing, pair_settings={"seed": 1})
    pack = bind_packing(tokenizer, 24, False, packing, {"seed": 1})
    stream = StreamedRows(lambda: documents, pack, 0, 16)
    rows = [row for _, row in take(stream, len(prepared))]
    rows.sort(key=lambda row: row["mask_key"])
    columns = {name: [row[name] for row in rows] for name in prepared.column_names}
    assert columns == prepared.to_dict()


def test_a_stream_may_travel_to_another_process(documents, tokenizer, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join(documents["text"]))
    pack = bind_packing(tokenizer, 24, False, "documents", None)
    stream = StreamedRows(open_stream(str(path)), pack, 0, 16)
    assert take(pickle.loads(pickle.dumps(stream)), 30) == take(stream, 30)


TEXT = "\ufeffFirst line .\nSecond line .\n\n \nAnother document .\r\n\r\nThird , café .\n"
OPENERS = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        data = content if isinstance(content, bytes) else content.encode()
        with OPENERS.get(path.suffix, open)(path, "wb") as file:
            file.write(data)
        return str(path)

    return write


def read_texts(read):
    return [document["text"] for document in read()]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", TEXT),
        ("a.txt.gz", TEXT),
        ("a.txt.xz", TEXT),
        ("a.txt.bz2", TEXT),
        ("one_line.txt", "One line .\n"),
        ("a.jsonl", '{"text": "One ."}\n{"text": " "}\n{"text": null}\n{"text": "Two ."}\n'),
        ("a.jsonl.gz", '{"text": "One ."}\n{"text": "Two ."}\n'),
        ("a.json", json.dumps([{"text": "One ."}, {"text": None}, {"text": "Two ."}])),
        ("a.csv", 'id,text\n1,One .\n2,""\n3,Two .\n'),
        ("a.csv", 'id,body\n1,One .\n3,"Two ."\n'),
    ],
)
def test_a_file_has_the_documents_that_it_has_when_it_is_loaded(write, name, content):
    path = write(name, content)
    read = open_stream(train_file=path)
    loaded = load_file("train_file", path)["text"]
    assert read_texts(read) == read_texts(read) == loaded != []


def test_the_training_part_of_the_text_that_comes_with_python_can_be_streamed():
    documents = itertools.islice(iterate_embedded_documents(), 60)
    expected = [document["text"] for document in documents if document["split"] == "train"]
    found = itertools.islice(open_stream()(), len(expected))
    assert [document["text"] for document in found] == expected != []


def test_a_hub_data_set_is_read_from_its_training_split(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"n": 1, "body": "One ."}\n{"n": 2, "body": "Two ."}\n')
    (tmp_path / "validation.jsonl").write_text('{"n": 3, "body": "Three ."}\n')
    read = open_stream(dataset_name=str(tmp_path))
    assert read_texts(read) == read_texts(read) == ["One .", "Two ."]
    with pytest.raises(ValueError, match=r"dataset_name .* text_column_name 'text' must be one of"):
        open_stream(dataset_name=str(tmp_path), text_column="text")


@pytest.mark.parametrize(
    ("name", "content", "text_column"),
    [
        ("empty.txt", "", None),
        ("blank.txt", " \n\n \n", None),
        ("binary.txt", b"some text\0and more", None),
        ("latin.txt", "café".encode("latin-1"), None),
        ("a.json", "{not json", None),
        ("columns.csv", "a,b\nx,y\n", None),
        ("numbers.csv", "a,b\n1,2\n", None),
        ("header.csv", "id,text\n", None),
        ("none.json", "[]", None),
        ("ragged.csv", "a,text\n1,x\n2,y,z\n", None),
        ("lists.jsonl", '{"text": ["a", "b"]}\n', None),
        ("a.csv", "id,text\n1,One .\n", "body"),
        ("a.jsonl", '{"text": " "}\n{"text": ""}\n', None),
        ("a.jsonl.gz", b"", None),
    ],
)
def test_a_bad_file_is_refused_with_the_words_of_loading(write, name, content, text_column):
    path = write(name, content)
    with pytest.raises(ValueError, match="train_file ") as loading:
        load_file("train_file", path, text_column)
    with pytest.raises(ValueError, match="train_file ") as opening:
        open_stream(path, text_column=text_column)
    assert str(opening.value) == str(loading.value)


def test_sources_that_cannot_be_are_refused(tmp_path):
    with pytest.raises(ValueError, match="only one may be given"):
        open_stream("a.txt", "b")
    with pytest.raises(ValueError, match="no such file"):
        open_stream(str(tmp_path / "none.txt"))
    with pytest.raises(ValueError, match=r"dataset_name '.*none' cannot be loaded"):
        open_stream(dataset_name=str(tmp_path / "none"))
    (tmp_path / "test.jsonl").write_text('{"text": "One ."}\n')
    with pytest.raises(ValueError, match="has no split 'train'"):
        open_stream(dataset_name=str(tmp_path))


def test_damage_in_the_middle_is_named_when_it_is_reached(write):
    lines = [json.dumps({"text": f"Line {number} . " * 300}) for number in range(6_000)]
    good = open_stream(write("a.jsonl", "\n".join([*lines, ""])))
    assert sum(1 for _ in good()) == 6_000
    path = write("a.jsonl", "\n".join([*lines, "{broken", ""]))
    read = open_stream(path)
    with pytest.raises(ValueError, match=r"train_file .*a.jsonl.: not a valid json file \("):
        list(read())
