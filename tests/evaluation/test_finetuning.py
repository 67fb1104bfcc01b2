import json
import logging
import shutil

import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    BertTokenizer,
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    ElectraModel,
    TrainingArguments,
)

from modeling_lvbert.evaluation.finetuning import ModelArguments, TaskArguments, fine_tune
from modeling_lvbert.evaluation.run_folder import RUN_FILE

WORDS = "good bad the boat bird sea old red".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    """A small library model: nothing here needs ours."""
    folder = tmp_path_factory.mktemp("model")
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    BertTokenizer(vocab=vocabulary, model_max_length=32).save_pretrained(folder)
    torch.manual_seed(0)
    config = ElectraConfig(
        vocab_size=len(tokens),
        embedding_size=16,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        hidden_dropout_prob=0.0,
    )
    ElectraForMaskedLM(config).save_pretrained(folder)
    return str(folder)


def write(folder, name, rows):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / name)


def sentences(count, labels=("negative", "positive")):
    rows = []
    for number in range(count):
        good = number % 2
        text = f"the {WORDS[good == 0]} {WORDS[2 + number % 6]}"
        rows.append({"sentence": text, "label": labels[good]})
    return rows


def tune(model_dir, folder, *, training=(), model=(), **task):
    settings = {
        "use_cpu": True,
        "disable_tqdm": True,
        "report_to": "none",
        "dataloader_pin_memory": False,
        "save_strategy": "no",
        "learning_rate": 1e-2,
        "per_device_train_batch_size": 8,
        **dict(training),
    }
    return fine_tune(
        ModelArguments(str(model_dir), **dict(model)),
        TaskArguments(**task),
        TrainingArguments(output_dir=str(folder), **settings),
    )


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


@pytest.fixture
def train_file(tmp_path):
    return write(tmp_path, "train.jsonl", sentences(16))


def replace(folder, name, change):
    (folder / name).write_bytes(change((folder / name).read_bytes()))


def read_all(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("model.safetensors", lambda data: data[: len(data) // 2], "cannot be loaded"),
        ("model.safetensors", lambda data: b"", "cannot be loaded"),
        ("model.safetensors", None, "cannot be loaded"),
        ("config.json", lambda data: data[:60], "cannot be loaded"),
        ("config.json", lambda data: b"[1]", "cannot be loaded"),
        ("config.json", None, "cannot be loaded"),
        (
            "config.json",
            lambda data: data.replace(b'"hidden_size": 16', b'"hidden_size": "x"'),
            "cannot be loaded",
        ),
        (
            "config.json",
            lambda data: data.replace(b'"hidden_size": 16', b'"hidden_size": 32'),
            ": the saved weights of the encoder do not fit its configuration: .* of another size",
        ),
        ("tokenizer_config.json", lambda data: b"[3]", "cannot be loaded"),
        ("tokenizer.json", lambda data: data[:90], "cannot be loaded"),
    ],
)
def test_a_damaged_model_is_one_error_and_nothing_is_written(
    model_dir, train_file, tmp_path, name, change, message
):
    folder = tmp_path / "damaged"
    shutil.copytree(model_dir, folder)
    if change is None:
        (folder / name).unlink()
    else:
        replace(folder, name, change)
    with pytest.raises(ValueError, match=f"^model_name_or_path '.*damaged' ?{message}"):
        tune(folder, tmp_path / "tuned", training={"do_train": True}, train_file=train_file)
    assert not (tmp_path / "tuned").exists()


@pytest.mark.parametrize(
    ("model", "option"),
    [
        ({"config_name": "/nowhere"}, "config_name '/nowhere'"),
        ({"tokenizer_name": "no/where"}, "tokenizer_name 'no/where'"),
    ],
)
def test_a_missing_folder_is_named_with_its_option(model_dir, train_file, tmp_path, model, option):
    with pytest.raises(ValueError, match=f"^{option} cannot be loaded: "):
        tune(
            model_dir,
            tmp_path / "tuned",
            training={"do_train": True},
            model=model,
            train_file=train_file,
        )
    with pytest.raises(ValueError, match="^model_name_or_path 'no/where' cannot be loaded: "):
        tune("no/where", tmp_path / "tuned", training={"do_train": True}, train_file=train_file)


@pytest.mark.parametrize("task", [{"task_name": "cola"}, {"dataset_name": "no/where"}])
def test_data_out_of_reach_is_named_with_its_option(model_dir, tmp_path, task):
    ((option, name),) = task.items()
    with pytest.raises(ValueError, match=f"^{option} '{name}' cannot be loaded: "):
        tune(model_dir, tmp_path / "tuned", training={"do_train": True}, **task)


def test_a_tokenizer_of_another_vocabulary_is_refused(model_dir, train_file, tmp_path):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "one", "two"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    BertTokenizer(vocab=vocabulary, model_max_length=32).save_pretrained(tmp_path / "larger")
    with pytest.raises(ValueError, match="ids up to 14, but the model's vocab_size is 13"):
        tune(
            model_dir,
            tmp_path / "tuned",
            training={"do_train": True},
            model={"tokenizer_name": str(tmp_path / "larger")},
            train_file=train_file,
        )
    assert not (tmp_path / "tuned").exists()


def test_pairs_need_room_for_two_texts(model_dir, tmp_path):
    rows = [{"sentence1": "the sea", "sentence2": "the boat", "label": n % 2} for n in range(8)]
    pairs = write(tmp_path, "pairs.jsonl", rows)
    with pytest.raises(ValueError, match="max_seq_length 4: at least 5 is needed, 3 of them"):
        tune(
            model_dir,
            tmp_path / "tuned",
            training={"do_train": True},
            train_file=pairs,
            max_seq_length=4,
        )


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


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (1, 2, "16 missing .electra.encoder.layer.1."),
        (2, 1, "16 not in the model .electra.encoder.layer.1."),
    ],
)
def test_an_encoder_that_did_not_load_is_refused(
    model_dir, train_file, tmp_path, before, after, message
):
    for architecture, shown in (
        (ElectraForMaskedLM, message),
        # A bare encoder's weights have no prefix.
        (ElectraModel, message.replace("electra.", "") if before > after else message),
    ):
        folder = tmp_path / architecture.__name__
        shutil.copytree(model_dir, folder)
        config = ElectraConfig.from_pretrained(model_dir, num_hidden_layers=before)
        architecture(config).save_pretrained(folder)
        ElectraConfig.from_pretrained(folder, num_hidden_layers=after).save_pretrained(folder)
        with pytest.raises(ValueError, match=f"do not fit its configuration: {shown}"):
            tune(folder, tmp_path / "tuned", training={"do_train": True}, train_file=train_file)
    assert not (tmp_path / "tuned").exists()


def test_an_encoder_of_another_width_is_refused_where_heads_may_differ(
    model_dir, train_file, tmp_path
):
    folder = tmp_path / "wider"
    shutil.copytree(model_dir, folder)
    replace(folder, "config.json", lambda text: text.replace(b'_size": 16', b'_size": 32'))
    with pytest.raises(ValueError, match="of another size .electra.embeddings"):
        tune(
            folder,
            tmp_path / "tuned",
            training={"do_train": True},
            model={"ignore_mismatched_sizes": True},
            train_file=train_file,
        )


def test_a_head_of_another_size_is_started_anew_on_demand_only(model_dir, train_file, tmp_path):
    training = {"do_train": True, "max_steps": 1}
    tune(model_dir, tmp_path / "two", training=training, train_file=train_file)
    rows = [{"sentence": "the sea", "label": f"class {number % 3}"} for number in range(9)]
    three = write(tmp_path, "three.jsonl", rows)
    with pytest.raises(ValueError, match="another size .* .classifier.out_proj.bias, classifier"):
        tune(tmp_path / "two", tmp_path / "three", training=training, train_file=three)
    tune(
        tmp_path / "two",
        tmp_path / "three",
        training=training,
        model={"ignore_mismatched_sizes": True},
        train_file=three,
    )
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "three")
    assert model.num_labels == 3


@pytest.mark.parametrize("architecture", [ElectraForPreTraining, ElectraModel])
def test_heads_of_pre_training_may_differ(model_dir, train_file, tmp_path, architecture):
    folder = tmp_path / "other"
    shutil.copytree(model_dir, folder)
    architecture(ElectraConfig.from_pretrained(model_dir)).save_pretrained(folder)
    tune(
        folder,
        tmp_path / "tuned",
        training={"do_train": True, "max_steps": 1},
        train_file=train_file,
    )
    assert (tmp_path / "tuned" / "model.safetensors").is_file()


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
