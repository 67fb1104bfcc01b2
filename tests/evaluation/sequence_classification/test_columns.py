import logging

import pytest

from modeling_lvbert.evaluation.sequence_classification.columns import (
    find_label_column,
    find_text_columns,
)
from modeling_lvbert.evaluation.sequence_classification.glue import GLUE_TASKS
from modeling_lvbert.evaluation.sequence_classification.labels import (
    LabelScheme,
    build_dataset,
    find_label_scheme,
)
from modeling_lvbert.evaluation.tables import read_table

# A few rows in the layout of each of GLUE's files: unquoted, no line end after the last row.
COLA = 'gj04\t1\t\tThe boat "Anna sailed .\ngj04\t0\t*\tBoat the sailed .'
COLA_TEST = 'index\tsentence\n0\tThe "boat sailed .\n1\tA bird sang .\n'
RTE = (
    "index\tsentence1\tsentence2\tlabel\r\n0\tA b .\tB .\tnot_entailment\r\n1\tC .\tD .\tentailment"
)
STSB = (
    "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
    "0\tnews\tf\t2012\t1\tx\ty\tA .\tB .\t5.000\n1\tnews\tf\t2012\t2\tx\ty\tC .\tD .\t3.250\n"
)
SST2 = "sentence\tlabel\nhide new secretions \t0\na charm of its own \t1\n"
MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tA .\tB .\n0\t9\t10\tC .\tD .\n"
WSC = (
    '{"text": "The cat saw it .", "span1_index": 1, "span2_index": 3, "span1_text": "cat", '
    '"span2_text": "it", "idx": 0, "label": 1}\n'
)


def load(tmp_path, name, content, task=None):
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    columns = GLUE_TASKS[task].columns if task else ()
    rows = read_table("train_file", str(tmp_path / name), columns)
    column = find_label_column(rows, None, task)
    scheme = find_label_scheme([row[column] for row in rows], task) if column else LabelScheme([])
    return build_dataset("train_file", rows, find_text_columns(rows, None, task), column, scheme)


@pytest.mark.parametrize(
    ("task", "content", "first", "second", "labels"),
    [
        ("cola", COLA, ['The boat "Anna sailed .', "Boat the sailed ."], None, [1, 0]),
        ("cola", COLA_TEST, ['The "boat sailed .', "A bird sang ."], None, None),
        ("rte", RTE, ["A b .", "C ."], ["B .", "D ."], [1, 0]),
        ("stsb", STSB, ["A .", "C ."], ["B .", "D ."], [5.0, 3.25]),
        ("sst2", SST2, ["hide new secretions ", "a charm of its own "], None, [0, 1]),
        ("mrpc", MRPC, ["A .", "C ."], ["B .", "D ."], [1, 0]),
        (None, RTE, ["A b .", "C ."], ["B .", "D ."], [1, 0]),
    ],
)
def test_glue_s_own_files_are_read(tmp_path, task, content, first, second, labels):
    built = load(tmp_path, "file.tsv", content, task)
    assert built["sentence1"] == first
    assert (built["sentence2"] if "sentence2" in built.column_names else None) == second
    assert (built["label"] if "label" in built.column_names else None) == labels


def test_a_row_with_too_few_cells_is_left_out_with_a_warning(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        built = load(tmp_path, "a.tsv", RTE + "\n2\tonly this .\n3\tE .\tF .\tentailment")
    assert built["sentence1"] == ["A b .", "C .", "E ."]
    assert "left out 1 of 4 rows" in caplog.text
    with pytest.raises(ValueError, match="test_file .*1 of 4 rows have not 4 cells"):
        read_table("test_file", str(tmp_path / "a.tsv"), must_be_whole=True)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'sentence1,sentence2,label\n"A, ""b"" .",B .,yes\nC .,D .,no\n'),
        (
            "a.jsonl",
            '{"sentence1": "A, \\"b\\" .", "sentence2": "B .", "label": "yes", "idx": 0}\n'
            '{"sentence1": "C .", "sentence2": "D .", "label": "no", "idx": 1}\n',
        ),
        (
            "a.json",
            '[{"premise": "A, \\"b\\" .", "hypothesis": "B .", "label": "yes"},\n'
            '{"premise": "C .", "hypothesis": "D .", "label": "no"}]',
        ),
        ("b.csv", 'id,first,second,label\n7,"A, ""b"" .",B .,yes\n8,C .,D .,no\n'),
    ],
)
def test_tables_of_any_kind_are_read(tmp_path, name, content):
    built = load(tmp_path, name, content)
    assert built["sentence1"] == ['A, "b" .', "C ."]
    assert built["sentence2"] == ["B .", "D ."]
    # Sorted by name: no, yes.
    assert built["label"] == [1, 0]


def test_babylm_s_wsc_has_its_spans_as_second_text(tmp_path):
    (tmp_path / "a.jsonl").write_text(WSC)
    rows = read_table("train_file", str(tmp_path / "a.jsonl"))
    columns = find_text_columns(rows, None, None)
    built = build_dataset("train_file", rows, columns, "label", LabelScheme(["0", "1"]))
    assert built[0] == {"sentence1": "The cat saw it .", "sentence2": "cat it", "label": 1}


def test_columns_can_be_named(tmp_path):
    rows = [{"a": "A .", "b": "B .", "c": "C .", "verdict": 1}]
    assert find_text_columns(rows, "c, a", None) == ("c", "a")
    assert find_label_column(rows, "verdict", None) == "verdict"
    with pytest.raises(ValueError, match="text_column_names 'c,d': no column d"):
        find_text_columns(rows, "c,d", None)
    with pytest.raises(ValueError, match="label_column_name 'label': no such column"):
        find_label_column(rows, "label", None)
    with pytest.raises(ValueError, match="no column of text"):
        find_text_columns([{"idx": "0", "label": "x"}], None, None)
