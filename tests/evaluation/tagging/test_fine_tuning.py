import json
import logging

import datasets
import numpy as np
import pytest
import torch
from transformers import (
    AutoConfig,
    DistilBertConfig,
    DistilBertModel,
    TrainingArguments,
)

from modeling_lvbert.evaluation.model_loading import ModelArguments
from modeling_lvbert.evaluation.tagging.fine_tuning import TaggingArguments, tag_words
from tests.evaluation.small_models import QUIET, make_model, make_tokenizer

pytest.importorskip("seqeval")

# Words that tokenizers make nothing of, or much, are among them.
SENTENCES = [
    "Anna/B-PER Berg/I-PER built/O the/O harbour/O of/O Port/B-LOC Ellen/I-LOC ./O",
    "Nobody/O in/O Norway/B-LOC \u200b/O knew/O John/B-PER Reed/I-PER ./O",
    "A/O storm/O took/O \x00/O it/O away/O in/O 1842/O",
    "Das/O Café/O in/O Zürich/B-LOC öffnet/O um/O neun/O ;/O",
    "Where/O did/O Reed/B-PER come/O from/O ?/O",
    "Ellen/B-PER \ufeff/O built/O 👩\u200d🚀👩\u200d🚀👩\u200d🚀👩\u200d🚀/O 😀/O",
    "the/O old/O lighthouse/O of/O Berg/B-LOC",
    "it/O was/O an/O engineer/O from/O Port/B-LOC",
]
SPLIT = [[pair.rsplit("/", 1) for pair in text.split(" ")] for text in SENTENCES]


def write(path, split=SPLIT, *, with_tags=True, end="\n"):
    lines = ["-DOCSTART- -X- O", ""]
    for sentence in split:
        lines += [f"{word} X {tag}" if with_tags else word for word, tag in sentence]
        lines.append("")
    path.write_text(end.join(lines), encoding="utf-8", newline="")
    return str(path)


def run(model, folder, *, training, **task):
    return tag_words(
        ModelArguments(str(model)),
        TaggingArguments(**{"max_seq_length": 16, **task}),
        TrainingArguments(output_dir=str(folder), **{**QUIET, **training}),
    )


def read_predictions(path):
    text = path.read_text(encoding="utf-8")
    return [
        [line.split(" ") for line in block.split("\n")]
        for block in text.removesuffix("\n\n").split("\n\n")
    ]


def learn_by_heart(folder, family):
    """What the fixtures `trained` and `one_trained` are made by."""
    model = make_model(folder / "model", family)
    path = write(folder / "data.conll", end="\r\n")
    metrics = run(
        model,
        folder / "tuned",
        training={"do_train": True, "do_eval": True, "do_predict": True, "max_steps": 80},
        train_file=path,
        validation_file=path,
        test_file=write(folder / "test.txt", with_tags=False),
    )
    return folder, metrics


def test_eight_sentences_are_learned_by_heart(trained):
    folder, metrics = trained
    names = ("precision", "recall", "f1", "accuracy")
    assert [metrics[f"eval_{name}"] for name in names] == [1, 1, 1, 1]
    assert 0 < metrics["eval_loss"] < 0.1
    assert metrics["eval_samples"] == metrics["predict_samples"] == 8
    saved = json.loads((folder / "tuned" / "eval_results.json").read_text())
    assert saved["eval_f1"] == 1
    config = AutoConfig.from_pretrained(folder / "tuned")
    assert list(config.id2label.values()) == ["B-LOC", "B-PER", "I-LOC", "I-PER", "O"]


def test_the_files_have_a_line_for_each_word(trained):
    folder, _ = trained
    for name, columns in (("predictions.txt", 2), ("eval_predictions.txt", 3)):
        predicted = read_predictions(folder / "tuned" / name)
        assert len(predicted) == len(SPLIT)
        for lines, sentence in zip(predicted, SPLIT, strict=True):
            assert all(len(line) == columns for line in lines)
            assert [line[-1] for line in lines] == [tag for _, tag in sentence]
            assert [line[0] for line in lines] == [word for word, _ in sentence]


def test_the_saved_model_says_the_same_for_any_batch(trained, tmp_path):
    folder, metrics = trained
    for batch in (1, 3, 8):
        scores = run(
            folder / "tuned",
            tmp_path / str(batch),
            training={"do_eval": True, "per_device_eval_batch_size": batch},
            validation_file=str(folder / "data.conll"),
            pad_to_max_length=batch == 3,
        )
        assert scores["eval_f1"] == 1
        assert scores["eval_loss"] == pytest.approx(metrics["eval_loss"], abs=1e-5)


def test_scores_of_types_have_run_ner_s_names(one_trained, tmp_path):
    folder, _ = one_trained
    scores = run(
        folder / "tuned",
        tmp_path / "out",
        training={"do_eval": True},
        validation_file=str(folder / "data.conll"),
        return_entity_level_metrics=True,
    )
    assert scores["eval_overall_f1"] == scores["eval_PER_f1"] == 1
    number = sum(tag == "B-LOC" for sentence in SPLIT for _, tag in sentence)
    assert scores["eval_LOC_number"] == number


def test_tags_of_words_have_accuracy(one_trained, tmp_path):
    folder, _ = one_trained
    rows = [
        {"tokens": [word for word, _ in s], "pos_tags": ["U" if w.istitle() else "L" for w, _ in s]}
        for s in SPLIT
    ]
    (tmp_path / "data.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    path = str(tmp_path / "data.jsonl")
    scores = run(
        folder / "model",
        tmp_path / "out",
        training={"do_train": True, "do_eval": True, "max_steps": 60},
        train_file=path,
        validation_file=path,
        task_name="pos",
        label_all_tokens=True,
    )
    assert scores["eval_accuracy"] > 0.9
    assert "eval_f1" not in scores


def test_numbered_tags_of_a_data_set_get_their_names(one_trained, tmp_path):
    folder, _ = one_trained
    names = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    features = datasets.Features(
        {
            "tokens": datasets.List(datasets.Value("string")),
            "ner_tags": datasets.List(datasets.ClassLabel(names=names)),
        }
    )
    rows = {
        "tokens": [[word for word, _ in sentence] for sentence in SPLIT],
        "ner_tags": [[names.index(tag) for _, tag in sentence] for sentence in SPLIT],
    }
    (tmp_path / "data").mkdir()
    table = datasets.Dataset.from_dict(rows, features=features)
    table.to_parquet(tmp_path / "data" / "validation.parquet")
    scores = run(
        folder / "tuned",
        tmp_path / "out",
        training={"do_eval": True},
        dataset_name=str(tmp_path / "data"),
    )
    assert scores["eval_f1"] == 1


def test_a_model_that_trains_is_scored_between_epochs(one_trained, tmp_path):
    folder, _ = one_trained
    path = write(tmp_path / "data.conll", SPLIT[:3])
    scores = run(
        folder / "model",
        tmp_path / "out",
        training={
            "do_train": True, "do_eval": True, "num_train_epochs": 3, "eval_strategy": "epoch",
            "save_strategy": "epoch", "load_best_model_at_end": True,
            "per_device_train_batch_size": 1, "per_device_eval_batch_size": 1,
        },
        train_file=path,
        validation_file=path,
    )  # fmt: skip
    log = json.loads((tmp_path / "out" / "trainer_state.json").read_text())["log_history"]
    between = [entry["eval_loss"] for entry in log if "eval_loss" in entry]
    assert len(between) == 3
    assert np.isfinite(between).all()
    assert scores["eval_loss"] == pytest.approx(min(between))


def test_tags_that_the_model_lacks_count_as_missed(one_trained, tmp_path, caplog):
    folder, _ = one_trained
    split = [[["Anna", "B-ORG"], ["built", "O"]]]
    with caplog.at_level(logging.WARNING):
        scores = run(
            folder / "tuned",
            tmp_path / "out",
            training={"do_eval": True},
            validation_file=write(tmp_path / "data.conll", split),
        )
    assert "validation: the tags ['B-ORG'] are none of the model's" in caplog.text
    assert scores["eval_recall"] == 0
    assert np.isfinite(scores["eval_loss"])


def test_the_order_of_a_fine_tuned_model_s_tags_is_kept(one_trained, tmp_path):
    folder, _ = one_trained
    config = json.loads((folder / "tuned" / "config.json").read_text())
    names = list(config["id2label"].values())[::-1]
    own = tmp_path / "own"
    own.mkdir()
    for path in (folder / "tuned").iterdir():
        if path.suffix in (".json", ".safetensors", ".py"):
            (own / path.name).write_bytes(path.read_bytes())
    config["id2label"] = {str(number): name for number, name in enumerate(names)}
    config["label2id"] = {name: number for number, name in enumerate(names)}
    (own / "config.json").write_text(json.dumps(config))
    run(
        own,
        tmp_path / "out",
        training={"do_train": True, "max_steps": 1},
        train_file=str(folder / "data.conll"),
    )
    assert list(AutoConfig.from_pretrained(tmp_path / "out").id2label.values()) == names


def test_a_library_model_without_segments_tags(tmp_path):
    tokenizer = make_tokenizer("lvbert")
    config = DistilBertConfig(
        vocab_size=len(tokenizer), dim=16, hidden_dim=16, n_layers=1, n_heads=2
    )
    torch.manual_seed(0)
    DistilBertModel(config).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    path = write(tmp_path / "data.conll")
    scores = run(
        tmp_path / "model",
        tmp_path / "out",
        training={"do_train": True, "do_eval": True, "max_steps": 1},
        train_file=path,
        validation_file=path,
    )
    assert 0 <= scores["eval_f1"] <= 1


@pytest.mark.parametrize(
    ("training", "task", "message"),
    [
        ({}, {}, "nothing to do"),
        ({"do_predict": True}, {}, "no data for 'test': give test_file"),
        ({"do_eval": True}, {}, "the model has no tags: do_train, or give a fine-tuned one"),
        ({"do_train": True}, {"max_seq_length": 2}, "max_seq_length 2: must be at least 3"),
        ({"do_train": True}, {"label_column": 1}, "label_column 1: must be at least 2"),
        ({"do_train": True}, {"label_column": 9}, "has 3 columns: at least 9 are needed"),
        ({"do_train": True}, {"label_column": 2}, "all tags are 'X', at least two are needed"),
        (
            {"do_train": True, "metric_for_best_model": "overall_f1"},
            {},
            "metric_for_best_model 'overall_f1': must be one of loss, precision, recall, f1",
        ),
    ],
)
def test_bad_input_is_refused_before_any_work(tmp_path, one_trained, training, task, message):
    folder, _ = one_trained
    path = str(folder / "data.conll")
    task = {"train_file": path, "validation_file": path, **task}
    with pytest.raises(ValueError, match=message):
        run(folder / "model", tmp_path / "out", training=training, **task)
    assert not (tmp_path / "out").exists()
