import json
import shutil

import pytest

from modeling_lvbert.evaluation.run_folder import RUN_FILE
from tests.evaluation.small_tasks import sentences, tune, write


def read_all(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("place", ["", "sub/.."])
@pytest.mark.parametrize("doing", ["do_train", "do_eval"])
def test_the_model_s_own_folder_is_left_alone(model_dir, train_file, tmp_path, place, doing):
    folder = tmp_path / "model"
    shutil.copytree(model_dir, folder)
    before = read_all(folder)
    with pytest.raises(ValueError, match="is the folder of model_name_or_path .* not overwritten"):
        tune(
            folder,
            folder / place,
            training={doing: True, "max_steps": 1},
            train_file=train_file,
            validation_file=train_file,
        )
    assert read_all(folder) == before


def test_a_folder_of_other_things_is_left_alone(model_dir, train_file, tmp_path):
    folder = tmp_path / "precious"
    write(folder, "file.jsonl", sentences(1))
    for output_dir, message in (
        (folder, "is not empty and holds no run"),
        (folder / "file.jsonl", "is a file"),
        (folder / "file.jsonl" / "below", "is a file"),
    ):
        with pytest.raises(ValueError, match=message):
            tune(model_dir, output_dir, training={"do_train": True}, train_file=train_file)
    assert [path.name for path in folder.iterdir()] == ["file.jsonl"]


def test_the_same_command_runs_again_and_another_one_is_refused(model_dir, train_file, tmp_path):
    folder = tmp_path / "tuned"
    training = {"do_train": True, "do_eval": True, "max_steps": 1}
    files = {"train_file": train_file, "validation_file": train_file}
    first = tune(model_dir, folder, training=training, **files)
    again = tune(model_dir, folder, training=training, **files)
    assert again["eval_loss"] == first["eval_loss"]
    # What only concerns the scores may change.
    tune(
        model_dir, folder, training={**training, "do_predict": True}, **files, test_file=train_file
    )
    before = read_all(folder)
    for changed, task, message in (
        ({"max_steps": 2}, {}, "max_steps was 1, now 2"),
        ({"learning_rate": 0.5}, {}, "learning_rate was 0.01, now 0.5"),
        ({}, {"max_seq_length": 16}, "max_seq_length was None, now 16"),
        ({"do_train": False}, {}, "do_train was True, now False"),
    ):
        with pytest.raises(ValueError, match=f"holds another run .*{message}"):
            tune(model_dir, folder, training={**training, **changed}, **files, **task)
    assert read_all(folder) == before
    (folder / RUN_FILE).write_text("{")
    with pytest.raises(ValueError, match=f"{RUN_FILE}' cannot be read"):
        tune(model_dir, folder, training=training, **files)


def test_a_finished_run_is_scored_in_its_own_folder(model_dir, train_file, tmp_path):
    folder = tmp_path / "tuned"
    tune(
        model_dir,
        folder,
        training={"do_train": True, "max_steps": 2, "save_strategy": "steps", "save_steps": 1},
        train_file=train_file,
    )
    weights = (folder / "model.safetensors").read_bytes()
    for source in (folder, folder / "checkpoint-1", folder):
        scores = tune(
            source,
            folder,
            training={"do_eval": True, "do_predict": True},
            validation_file=train_file,
            test_file=train_file,
        )
    saved = json.loads((folder / "eval_results.json").read_text())
    assert saved["eval_loss"] == scores["eval_loss"]
    assert (folder / "predict_results_test.txt").is_file()
    assert (folder / "model.safetensors").read_bytes() == weights
    with pytest.raises(ValueError, match="is the folder of model_name_or_path"):
        tune(folder, folder, training={"do_train": True}, train_file=train_file)
    assert (folder / "model.safetensors").read_bytes() == weights
