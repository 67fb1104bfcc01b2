import pytest

from modeling_lvbert.evaluation.tables import read_table


def test_rows_of_a_file_without_header_get_the_columns_that_are_given(tmp_path):
    (tmp_path / "a.tsv").write_text('s\t1\tA "b .\ns\t0\tC .')
    columns = ("source", "label", "sentence")
    rows = read_table("train_file", str(tmp_path / "a.tsv"), columns)
    assert rows == [
        {"source": "s", "label": "1", "sentence": 'A "b .'},
        {"source": "s", "label": "0", "sentence": "C ."},
    ]
    # A first row of another number of cells is a header.
    (tmp_path / "a.tsv").write_text("index\tsentence\n0\tA .\n")
    rows = read_table("test_file", str(tmp_path / "a.tsv"), columns)
    assert rows == [{"index": "0", "sentence": "A ."}]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "text", "must end in one of .tsv, .csv, .json, .jsonl"),
        ("a.jsonl", '{"a": 1}\n{', "cannot be read"),
        ("a.json", "[1, 2]", "every record must be an object"),
        ("a.csv", "a,b\n1,2,3\n", "row 1 has another number of cells"),
        ("a.csv", "a,b\n", "no rows"),
        ("a.tsv", "", "cannot be read|no rows"),
    ],
)
def test_a_bad_file_is_refused(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_table("validation_file", str(tmp_path / name))
    assert str(caught.value).startswith("validation_file ")


def test_a_binary_or_missing_file_is_refused(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="cannot be read"):
        read_table("train_file", str(tmp_path / "a.tsv"))
    with pytest.raises(ValueError, match="no such file"):
        read_table("train_file", str(tmp_path / "b.tsv"))
