import numpy as np
import pytest

from modeling_lvbert.evaluation.sequence_classification.glue import GLUE_TASKS
from modeling_lvbert.evaluation.sequence_classification.labels import LabelScheme
from modeling_lvbert.evaluation.sequence_classification.submission import write_predictions

NUMBERS = {"cola": "CoLA", "sst2": "SST-2", "mrpc": "MRPC", "qqp": "QQP", "wnli": "WNLI"}
NAMES = {"mnli": "MNLI-m", "qnli": "QNLI", "rte": "RTE", "ax": "AX"}


def read(path):
    lines = path.read_text().split("\n")
    assert lines[-1] == ""
    assert lines[0] == "index\tprediction"
    rows = [line.split("\t") for line in lines[1:-1]]
    assert [row[0] for row in rows] == [str(number) for number in range(len(rows))]
    return [row[1] for row in rows]


@pytest.mark.parametrize("task", NUMBERS)
def test_the_test_server_gets_numbers(tmp_path, task):
    scheme = LabelScheme(list(GLUE_TASKS[task].labels))
    files = write_predictions(tmp_path, np.array([1, 0, 1]), scheme, task)
    assert [path.name for path in files] == [f"predict_results_{task}.txt", f"{NUMBERS[task]}.tsv"]
    assert read(files[1]) == ["1", "0", "1"]
    assert read(files[0]) == [scheme.names[number] for number in (1, 0, 1)]


@pytest.mark.parametrize("task", NAMES)
def test_the_test_server_gets_names(tmp_path, task):
    scheme = LabelScheme(list(GLUE_TASKS[task].labels))
    _, path = write_predictions(tmp_path, np.array([1, 0, 1]), scheme, task)
    assert path.name == f"{NAMES[task]}.tsv"
    assert read(path) == [scheme.names[number] for number in (1, 0, 1)]
    assert read(path)[1] == "entailment"


def test_mnli_s_second_set_has_files_of_its_own(tmp_path):
    scheme = LabelScheme(list(GLUE_TASKS["mnli"].labels))
    write_predictions(tmp_path, np.array([2]), scheme, "mnli")
    write_predictions(tmp_path, np.array([0, 1]), scheme, "mnli", is_mismatched=True)
    assert read(tmp_path / "MNLI-m.tsv") == ["contradiction"]
    assert read(tmp_path / "MNLI-mm.tsv") == ["entailment", "neutral"]
    assert {path.name for path in tmp_path.iterdir()} == {
        "MNLI-m.tsv", "MNLI-mm.tsv", "predict_results_mnli.txt", "predict_results_mnli-mm.txt",
    }  # fmt: skip


def test_similarities_stay_on_the_scale_of_sts_b(tmp_path):
    values = np.array([-0.2, 3.14159, 5.4])
    results, path = write_predictions(tmp_path, values, LabelScheme([]), "stsb")
    assert path.name == "STS-B.tsv"
    assert read(path) == ["0.000", "3.142", "5.000"]
    assert read(results) == ["-0.200", "3.142", "5.400"]


def test_a_model_s_own_order_of_the_labels_is_respected(tmp_path):
    scheme = LabelScheme(["acceptable", "unacceptable"])
    _, path = write_predictions(tmp_path, np.array([0, 1]), scheme, "cola")
    assert read(path) == ["1", "0"]


def test_other_tasks_have_no_file_for_the_test_server(tmp_path):
    files = write_predictions(tmp_path, np.array([0]), LabelScheme(["a", "b"]), None)
    assert [path.name for path in files] == ["predict_results_test.txt"]
    assert read(files[0]) == ["a"]
