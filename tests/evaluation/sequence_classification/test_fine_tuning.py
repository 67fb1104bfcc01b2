import json
import logging

import pytest
from transformers import AutoModelForSequenceClassification

from modeling_lvbert.evaluation.sequence_classification.task_data import TaskArguments
from tests.evaluation.small_tasks import sentences, tune, write


def test_a_task_is_learned_saved_and_scored_again(model_dir, tmp_path):
    files = {
        "train_file": write(tmp_path, "train.jsonl", sentences(64)),
        "validation_file": write(tmp_path, "validation.jsonl", sentences(13)),
        "test_file": write(
            tmp_path, "test.jsonl", [{"sentence": row["sentence"]} for row in sentences(2)]
        ),
    }
    doing = {"do_train": True, "do_eval": True, "do_predict": True, "num_train_epochs": 5}
    metrics = tune(model_dir, tmp_path / "tuned", training=doing, **files)
    assert metrics["eval_accuracy"] == 1.0
    assert metrics["eval_majority_baseline"] == pytest.approx(7 / 13)
    saved = json.loads((tmp_path / "tuned" / "eval_results.json").read_text())
    assert saved["eval_accuracy"] == 1.0
    predictions = (tmp_path / "tuned" / "predict_results_test.txt").read_text()
    assert predictions == "index\tprediction\n0\tnegative\n1\tpositive\n"
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "tuned")
    assert model.config.id2label == {0: "negative", 1: "positive"}
    # Another batch size, one class alone and no training: the saved labels count.
    only = write(
        tmp_path, "only.jsonl", [row for row in sentences(10) if row["label"] == "positive"]
    )
    again = tune(
        tmp_path / "tuned",
        tmp_path / "again",
        training={"do_eval": True, "per_device_eval_batch_size": 2},
        validation_file=only,
    )
    assert again["eval_accuracy"] == 1.0


def test_a_saved_order_of_labels_is_kept(model_dir, tmp_path):
    train = write(tmp_path, "train.jsonl", sentences(16))
    tune(model_dir, tmp_path / "a", training={"do_train": True, "max_steps": 1}, train_file=train)
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    config["id2label"] = {"0": "positive", "1": "negative"}
    config["label2id"] = {"positive": 0, "negative": 1}
    (tmp_path / "a" / "config.json").write_text(json.dumps(config))
    tune(
        tmp_path / "a",
        tmp_path / "b",
        training={"do_train": True, "max_steps": 1},
        train_file=train,
    )
    kept = json.loads((tmp_path / "b" / "config.json").read_text())
    assert kept["id2label"] == {"0": "positive", "1": "negative"}


def test_regression_has_one_output(model_dir, tmp_path):
    train = write(tmp_path, "train.jsonl", sentences(64, labels=(0.5, 4.0)))
    metrics = tune(
        model_dir,
        tmp_path / "tuned",
        training={"do_train": True, "do_eval": True, "num_train_epochs": 4},
        train_file=train,
        validation_file=train,
    )
    assert metrics["eval_pearson"] > 0.9
    config = json.loads((tmp_path / "tuned" / "config.json").read_text())
    assert list(config["id2label"]) == ["0"]


def test_scores_do_not_depend_on_the_batch(model_dir, tmp_path):
    path = write(tmp_path, "validation.jsonl", sentences(7))
    scores = []
    for batch in (1, 2, 7):
        training = {"do_eval": True, "per_device_eval_batch_size": batch}
        scores.append(
            tune(model_dir, tmp_path / str(batch), training=training, validation_file=path)
        )
    for key in ("eval_loss", "eval_accuracy", "eval_f1"):
        assert scores[0][key] == pytest.approx(scores[1][key], abs=1e-6)
        assert scores[0][key] == pytest.approx(scores[2][key], abs=1e-6)


@pytest.mark.parametrize("pad", [False, True])
def test_pairs_are_cut_to_the_longest_input(model_dir, tmp_path, caplog, pad):
    rows = [
        {"sentence1": "the sea " * 40, "sentence2": "the boat", "label": n % 2} for n in range(8)
    ]
    with caplog.at_level(logging.WARNING):
        tune(
            model_dir,
            tmp_path / "tuned",
            training={"do_train": True, "max_steps": 1},
            train_file=write(tmp_path, "train.jsonl", rows),
            pad_to_max_length=pad,
        )
    assert caplog.text.count("the model's longest input is 32") == 1


def test_a_collapsed_model_is_told(model_dir, tmp_path, caplog):
    path = write(tmp_path, "train.jsonl", sentences(16))
    with caplog.at_level(logging.WARNING):
        tune(
            model_dir,
            tmp_path / "tuned",
            training={"do_train": True, "do_eval": True, "max_steps": 1, "learning_rate": 0.0},
            train_file=path,
            validation_file=path,
        )
    assert "fine-tuning has collapsed" in caplog.text


@pytest.mark.parametrize(
    ("training", "task", "message"),
    [
        ({}, {"train_file": "train"}, "nothing to do"),
        ({"do_eval": True}, {"train_file": "train"}, "no data for 'validation'"),
        ({"do_train": True}, {"train_file": "unlabelled"}, "no column of labels"),
        ({"do_predict": True}, {"test_file": "unlabelled"}, "the labels are unknown"),
        ({"do_train": True}, {"train_file": "none"}, "no such file"),
        (
            {"do_train": True, "do_eval": True},
            {"train_file": "train", "validation_file": "odd"},
            "validation_file: unknown labels",
        ),
    ],
)
def test_bad_data_is_refused_and_nothing_is_written(model_dir, tmp_path, training, task, message):
    files = {
        "train": sentences(4),
        "unlabelled": [{"sentence": "the sea"}],
        "odd": [{"sentence": "the sea", "label": "odd"}],
    }
    for name, rows in files.items():
        write(tmp_path, f"{name}.jsonl", rows)
    paths = {key: str(tmp_path / f"{name}.jsonl") for key, name in task.items()}
    with pytest.raises(ValueError, match=message):
        tune(model_dir, tmp_path / "tuned", training=training, **paths)
    assert not (tmp_path / "tuned").exists()


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({}, "no data"),
        ({"task_name": "boolq"}, "task_name 'boolq': must be one of cola"),
        ({"dataset_name": "a", "train_file": "b"}, "only one kind"),
        ({"train_file": "a", "max_seq_length": 2}, "max_seq_length 2: at least 3"),
        ({"train_file": "a", "max_seq_length": -3}, "max_seq_length -3: at least 3"),
        ({"train_file": "a", "max_eval_samples": 0}, "max_eval_samples 0"),
        ({"train_file": "a", "max_train_samples": -1}, "max_train_samples -1"),
    ],
)
def test_contradictory_options_are_refused(task, message):
    with pytest.raises(ValueError, match=message):
        TaskArguments(**task)


def test_glue_s_spelling_of_a_task_is_understood():
    assert TaskArguments(task_name="STS-B").task_name == "stsb"


@pytest.mark.parametrize("task", [{"task_name": "cola"}, {"dataset_name": "no/where"}])
def test_data_out_of_reach_is_named_with_its_option(model_dir, tmp_path, task):
    ((option, name),) = task.items()
    with pytest.raises(ValueError, match=f"^{option} '{name}' cannot be loaded: "):
        tune(model_dir, tmp_path / "tuned", training={"do_train": True}, **task)


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"learning_rate": float("nan")}, "learning_rate nan"),
        ({"weight_decay": float("inf")}, "weight_decay inf"),
        ({"per_device_eval_batch_size": 0}, "per_device_eval_batch_size 0"),
        ({"resume_from_checkpoint": "nowhere"}, "resume_from_checkpoint 'nowhere'"),
    ],
)
def test_numbers_out_of_range_are_refused(model_dir, train_file, tmp_path, training, message):
    with pytest.raises(ValueError, match=message):
        tune(
            model_dir,
            tmp_path / "tuned",
            training={"do_train": True, **training},
            train_file=train_file,
        )
    assert not (tmp_path / "tuned").exists()
