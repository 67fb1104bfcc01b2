import json
import logging

import numpy as np
import pytest

from modeling_lvbert.evaluation.glue import (
    GLUE_TASKS,
    LabelScheme,
    build_dataset,
    compute_loss,
    compute_scores,
    find_label_column,
    find_label_scheme,
    find_text_columns,
    predict,
    read_table,
)

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
    rows = read_table("train_file", str(tmp_path / name), task)
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


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["b", "a", "b"], ["a", "b"]),
        ([1, 0, 2], ["0", "1", "2"]),
        (["10", "9"], ["9", "10"]),
        ([True, False], ["False", "True"]),
        ([0.5, 1.0], []),
        (["0.5", "1.0"], []),
        (["v1.0", "v2.0"], ["v1.0", "v2.0"]),
    ],
)
def test_the_kind_of_labels_is_found_out(values, names):
    assert find_label_scheme(values).names == names


def test_saved_names_keep_their_order():
    assert find_label_scheme(["a", "b"], saved_names=["b", "a"]).names == ["b", "a"]
    assert find_label_scheme(["a", "b"], saved_names=["c", "a"]).names == ["a", "b"]
    assert find_label_scheme(["x"], task_name="rte").names == ["entailment", "not_entailment"]


def test_labels_are_names_or_numbers_of_names():
    scheme = LabelScheme(["entailment", "not_entailment"])
    assert scheme.encode("f", ["not_entailment", "entailment"]) == [1, 0]
    assert scheme.encode("f", [1, 0, 1.0, "0"]) == [1, 0, 1, 0]
    # Classes called by numbers are names, not positions.
    assert LabelScheme(["1", "0"]).encode("f", [1, 0]) == [0, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: find_label_scheme(["a", None]), "row 2 has no label"),
        (lambda: find_label_scheme(["a", "a"]), "at least two classes"),
        (
            lambda: LabelScheme(["a", "b"]).encode("file", ["a", "z"]),
            r"file: unknown labels \['z'\]",
        ),
        (lambda: LabelScheme([]).encode("file", [1.0, "x"]), "must be numbers, got 'x'"),
        (
            lambda: build_dataset("file", [{"a": None}], ("a",), None, LabelScheme([])),
            "file: row 1 has no text in column 'a'",
        ),
    ],
)
def test_bad_labels_and_texts_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def one_hot(predictions, classes):
    return np.eye(classes, dtype=np.float32)[predictions]


def test_scores_are_the_textbook_s():
    labels = np.array([1, 1, 1, 0, 0, 1])
    logits = one_hot([1, 1, 0, 0, 1, 1], 2)
    scores = compute_scores(logits, labels, LabelScheme(["a", "b"]))
    # 3 true and 1 false positive, 1 true and 1 false negative.
    assert scores["accuracy"] == pytest.approx(4 / 6)
    assert scores["f1"] == pytest.approx(2 * 3 / (2 * 3 + 1 + 1))
    assert scores["matthews_correlation"] == pytest.approx((3 * 1 - 1 * 1) / (4 * 4 * 2 * 2) ** 0.5)
    assert scores["majority_baseline"] == pytest.approx(4 / 6)
    assert scores["combined_score"] == pytest.approx(
        np.mean([scores["accuracy"], scores["f1"], scores["matthews_correlation"]])
    )


def test_each_glue_task_has_its_metrics():
    labels, logits = np.array([0, 1, 1]), one_hot([0, 1, 0], 2)
    for task, about in GLUE_TASKS.items():
        scheme = LabelScheme(list(about.labels))
        values = (np.array([1.0, 2.0, 4.0]), labels) if scheme.is_regression else (logits, labels)
        scores = compute_scores(*values, scheme, task)
        extra = {"loss", "combined_score"} if len(about.metrics) > 1 else {"loss"}
        extra |= set() if scheme.is_regression else {"majority_baseline"}
        assert set(scores) == {*about.metrics, *extra}


def test_the_loss_is_torch_s():
    import torch

    logits, labels = torch.randn(7, 3), torch.tensor([0, 1, 2, 2, 1, 0, 0])
    loss = compute_loss(logits.numpy(), labels.numpy(), LabelScheme(["a", "b", "c"]))
    assert loss == pytest.approx(torch.nn.functional.cross_entropy(logits, labels).item(), abs=1e-6)
    values, truth = torch.randn(7, 1), torch.randn(7)
    loss = compute_loss(values.numpy(), truth.numpy(), LabelScheme([]))
    expected = torch.nn.functional.mse_loss(values.squeeze(1), truth)
    assert loss == pytest.approx(expected.item(), abs=1e-6)


def test_regression_is_scored_by_correlation():
    values = np.array([[1.0], [2.0], [4.0]])
    scores = compute_scores(values, np.array([1.0, 4.0, 16.0]), LabelScheme([]), "stsb")
    assert scores["spearmanr"] == pytest.approx(1.0)
    assert scores["pearson"] == pytest.approx(np.corrcoef([1, 2, 4], [1, 4, 16])[0, 1])


def test_constant_predictions_are_scored_zero_and_told(caplog):
    with caplog.at_level(logging.WARNING):
        scores = compute_scores(
            one_hot([1, 1, 1, 1], 2), np.array([1, 1, 0, 1]), LabelScheme(["a", "b"])
        )
    assert scores["matthews_correlation"] == 0.0
    assert "all 4 predictions are b" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        constant = compute_scores(np.ones((3, 1)), np.array([1.0, 2.0, 3.0]), LabelScheme([]))
    assert (constant["pearson"], constant["spearmanr"]) == (0.0, 0.0)
    assert "all 3 predictions are 1.0" in caplog.text


def test_close_logits_are_compared_in_full_precision():
    import torch

    logits = torch.tensor([[100.0, 100.001], [100.001, 100.0]])
    assert predict(logits.numpy(), LabelScheme(["a", "b"])).tolist() == [1, 0]
    assert json.dumps(predict(np.array([[0.5]]), LabelScheme([])).tolist()) == "[0.5]"
