import datasets
import pytest

from modeling_lvbert.evaluation.sequence_classification import task_data
from modeling_lvbert.evaluation.sequence_classification.task_data import TaskArguments, load_task
from tests.evaluation.small_tasks import read_json, sentences, tune, write

NLI = "index\tsentence1\tsentence2\tgold_label\n0\tthe sea\tthe boat\t{}\n1\tthe bird\told\t{}\n"
NLI_TEST = "index\tsentence1\tsentence2\n0\tthe sea\tthe boat\n1\tthe bird\told\n"


def write_mnli(folder):
    texts = {
        "train": NLI.format("neutral", "entailment"),
        "validation": NLI.format("neutral", "contradiction"),
        "validation_mismatched": NLI.format("entailment", "entailment"),
        "test": NLI_TEST,
        "test_mismatched": NLI_TEST,
    }
    for name, text in texts.items():
        (folder / f"{name}.tsv").write_text(text)
    return {f"{name}_file": str(folder / f"{name}.tsv") for name in texts}


def test_mnli_s_second_sets_come_with_the_first_ones(tmp_path):
    files = write_mnli(tmp_path)
    arguments = TaskArguments(task_name="MNLI", **files)
    built, scheme = load_task(arguments, ["validation"], None)
    assert scheme.names == ["entailment", "neutral", "contradiction"]
    assert {split: part["label"][:] for split, part in built.items()} == {
        "validation": [1, 2],
        "validation_mismatched": [0, 0],
    }
    built, _ = load_task(arguments, ["train", "test"], None)
    assert list(built) == ["train", "test", "test_mismatched"]
    assert "label" not in built["test_mismatched"].column_names


def test_mnli_is_scored_and_predicted_on_both_sets(model_dir, tmp_path):
    scores = tune(
        model_dir,
        tmp_path / "tuned",
        training={"do_train": True, "do_eval": True, "do_predict": True, "max_steps": 1},
        task_name="mnli",
        **write_mnli(tmp_path),
    )
    assert {"eval_accuracy", "eval_accuracy_mm", "eval_samples_mm"} <= set(scores)
    # Each baseline is its own set's.
    assert scores["eval_majority_baseline"] == 0.5
    assert scores["eval_majority_baseline_mm"] == 1.0
    saved = read_json(tmp_path / "tuned" / "eval_results.json")
    assert saved["eval_accuracy_mm"] == scores["eval_accuracy_mm"]
    for name in ("MNLI-m.tsv", "MNLI-mm.tsv", "predict_results_mnli-mm.txt"):
        assert (tmp_path / "tuned" / name).read_text().count("\n") == 3
    # The same model answers GLUE's diagnostic sentences.
    tune(
        tmp_path / "tuned",
        tmp_path / "ax",
        training={"do_predict": True},
        task_name="ax",
        test_file=str(tmp_path / "test.tsv"),
    )
    assert (tmp_path / "ax" / "AX.tsv").read_text().count("\n") == 3


def test_the_hub_s_mnli_has_both_sets(monkeypatch):
    rows = {"premise": ["a"], "hypothesis": ["b"], "label": [2], "idx": [0]}
    names = ("train", "validation_matched", "validation_mismatched", "test_matched")
    found = datasets.DatasetDict({name: datasets.Dataset.from_dict(rows) for name in names})
    asked = []

    def load_dataset(*source):
        asked.append(source)
        return found

    monkeypatch.setattr(task_data.datasets, "load_dataset", load_dataset)
    built, _ = load_task(TaskArguments(task_name="mnli"), ["validation", "test"], None)
    assert asked == [("nyu-mll/glue", "mnli")]
    assert list(built) == ["validation", "test", "validation_mismatched"]
    assert built["validation_mismatched"][0] == {"sentence1": "a", "sentence2": "b", "label": 2}


def test_only_mnli_has_second_sets():
    with pytest.raises(ValueError, match="test_mismatched_file 'a.tsv': only task_name mnli"):
        TaskArguments(task_name="rte", test_mismatched_file="a.tsv")


def test_one_column_of_a_pair_can_be_read_alone(model_dir, tmp_path):
    rows = [
        {**row, "premise": row["sentence"], "hypothesis": "the old boat"} for row in sentences(32)
    ]
    for row in rows:
        row.pop("sentence")
    path = write(tmp_path, "premise.jsonl", rows)
    arguments = TaskArguments(train_file=path, text_column_names="premise")
    built, _ = load_task(arguments, ["train"], None)
    assert built["train"].column_names == ["sentence1", "label"]
    scores = tune(
        model_dir,
        tmp_path / "tuned",
        training={"do_train": True, "do_eval": True, "num_train_epochs": 8},
        train_file=path,
        validation_file=path,
        text_column_names="premise",
    )
    assert scores["eval_accuracy"] == 1.0


def test_one_class_is_no_task(model_dir, tmp_path):
    path = write(tmp_path, "train.jsonl", sentences(8, labels=("same", "same")))
    with pytest.raises(ValueError, match="all labels are 'same': at least two classes"):
        tune(model_dir, tmp_path / "tuned", training={"do_train": True}, train_file=path)
    assert not (tmp_path / "tuned").exists()


@pytest.mark.parametrize("task", ["rte", "wsc"])
def test_babylm_s_tasks_are_read_as_they_are(shared_data, task, model_dir, tmp_path):
    folder = shared_data / "babylm_glue_jsonl"
    if not folder.is_dir():
        pytest.skip(f"needs the data that is not in the repository: no folder {folder}")
    files = {
        "train_file": str(folder / f"{task}.train.jsonl"),
        "validation_file": str(folder / f"{task}.valid.jsonl"),
    }
    built, scheme = load_task(TaskArguments(**files), ["train", "validation"], None)
    counts = {"rte": (2490, 139), "wsc": (554, 52)}[task]
    assert tuple(map(len, built.values())) == counts
    assert scheme.names == ["0", "1"]
    baseline = {"rte": 75 / 139, "wsc": 32 / 52}[task]
    if task == "rte":
        # By its name the classes have theirs.
        named, scheme = load_task(TaskArguments(task_name="rte", **files), ["validation"], None)
        assert scheme.names == ["entailment", "not_entailment"]
        assert named["validation"]["label"][:] == built["validation"]["label"][:]
    scores = tune(
        model_dir, tmp_path / "tuned", training={"do_eval": True}, validation_file=files[
            "validation_file"
        ],
    )  # fmt: skip
    assert scores["eval_majority_baseline"] == pytest.approx(baseline)
    assert scores["eval_samples"] == counts[1]
