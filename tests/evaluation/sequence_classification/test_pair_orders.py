import numpy as np
import pytest

from modeling_lvbert.evaluation.sequence_classification.fine_tuner import average_orders
from tests.evaluation.small_tasks import (
    pairs,
    read_json,
    tune,
    write,
)


def exchange(rows):
    return [{**row, "sentence1": row["sentence2"], "sentence2": row["sentence1"]} for row in rows]


def test_both_orders_of_a_pair_give_the_same_answers(deep_model_dir, tmp_path):
    rows = pairs(24)
    files = {
        "train_file": write(tmp_path, "train.jsonl", rows),
        "validation_file": write(tmp_path, "validation.jsonl", rows[:7]),
        "test_file": write(tmp_path, "test.jsonl", rows[:7]),
    }
    turned = {
        **files,
        "validation_file": write(tmp_path, "turned.jsonl", exchange(rows[:7])),
        "test_file": write(tmp_path, "turned_test.jsonl", exchange(rows[:7])),
    }
    scores, texts = {}, {}
    for both in (True, False):
        for name, given in (("given", files), ("turned", turned)):
            folder = tmp_path / f"{name}-{both}"
            scores[name, both] = tune(
                deep_model_dir,
                folder,
                training={"do_train": True, "do_eval": True, "do_predict": True, "max_steps": 20},
                method={"pair_both_orders": both},
                task_name="mrpc",
                **given,
            )
            texts[name, both] = (folder / "MRPC.tsv").read_text()
    assert scores["given", True]["eval_loss"] == pytest.approx(
        scores["turned", True]["eval_loss"], rel=1e-6
    )
    assert scores["given", False]["eval_loss"] != pytest.approx(
        scores["turned", False]["eval_loss"], rel=1e-5
    )
    assert texts["given", True] == texts["turned", True]
    assert texts["given", True].count("\n") == 8
    assert scores["given", True]["eval_samples"] == 7
    assert scores["given", True]["train_samples"] == 24


def test_both_orders_are_trained(model_dir, tmp_path):
    train = write(tmp_path, "train.jsonl", pairs(16))
    steps = []
    for both in (False, True):
        folder = tmp_path / str(both)
        tune(
            model_dir,
            folder,
            training={"do_train": True, "num_train_epochs": 1},
            method={"pair_both_orders": both},
            train_file=train,
        )
        steps.append(read_json(folder / "trainer_state.json")["global_step"])
    assert steps == [2, 4]


def test_two_orders_are_averaged_row_by_row():
    logits = np.array([[1.0, 2.0], [3.0, 4.0], [3.0, 0.0], [5.0, 8.0]])
    assert average_orders(logits).tolist() == [[2.0, 1.0], [4.0, 6.0]]


@pytest.mark.parametrize("task", ["rte", "mnli", "qnli", "wnli", "cola"])
def test_texts_whose_order_matters_keep_it(model_dir, tmp_path, task):
    train = write(tmp_path, "train.jsonl", pairs(8))
    with pytest.raises(ValueError, match=f"matters in task '{task}'; .* mrpc, qqp, stsb"):
        tune(
            model_dir,
            tmp_path / "tuned",
            training={"do_train": True},
            method={"pair_both_orders": True},
            task_name=task,
            train_file=train,
        )


def test_one_text_has_no_order(model_dir, train_file, tmp_path):
    with pytest.raises(ValueError, match="pair_both_orders: the rows have one text"):
        tune(
            model_dir,
            tmp_path / "tuned",
            training={"do_train": True},
            method={"pair_both_orders": True},
            train_file=train_file,
        )
    assert not (tmp_path / "tuned").exists()
