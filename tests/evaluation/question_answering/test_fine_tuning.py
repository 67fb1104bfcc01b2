import json
import logging

import datasets
import numpy as np
import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForQuestionAnswering,
    BertTokenizer,
    DistilBertConfig,
    DistilBertModel,
    TrainingArguments,
)

from modeling_lvbert.evaluation.model_loading import ModelArguments
from modeling_lvbert.evaluation.question_answering.fine_tuning import (
    QuestionAnsweringArguments,
    answer_questions,
)
from tests.evaluation.small_models import QUIET, TEXT, make_model, make_tokenizer

HARBOUR, STORM = TEXT[0] + " " + TEXT[3], TEXT[1]
ASKED = [
    ("Who built the harbour?", HARBOUR, ["Anna Berg", "Berg"]),
    ("  When was it built?", HARBOUR, ["1842"]),
    ("Where did the engineer come from?", HARBOUR, ["Norway"]),
    ("What was built?", HARBOUR, ["old harbour"]),
    ("Wann öffnet das Café?", HARBOUR, ["um neun"]),
    ("What took it away?", STORM, ["storm"]),
    ("Who was the keeper?", STORM, ["John Reed"]),
    ("Who paid?", STORM, []),
]


def write(path, asked=ASKED, *, with_answers=True):
    records = []
    for number, (text, context, golds) in enumerate(asked):
        answers = {"text": golds, "answer_start": [context.index(gold) for gold in golds]}
        record = {"id": f"q{number}", "question": text, "context": context}
        records.append({**record, "answers": answers} if with_answers else record)
    path.write_text(json.dumps({"data": records}))
    return str(path)


def run(model, folder, *, training, **task):
    return answer_questions(
        ModelArguments(str(model)),
        QuestionAnsweringArguments(**{"max_seq_length": 40, "doc_stride": 10, **task}),
        TrainingArguments(output_dir=str(folder), **{**QUIET, **training}),
    )


def read(folder, name):
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def learn_by_heart(folder, family):
    """What the fixtures `trained` and `one_trained` are made by."""
    model = make_model(folder / "model", family)
    path = write(folder / "data.json")
    metrics = run(
        model,
        folder / "tuned",
        training={"do_train": True, "do_eval": True, "do_predict": True, "max_steps": 60},
        train_file=path,
        validation_file=path,
        test_file=write(folder / "test.json", with_answers=False),
        version_2_with_negative=True,
    )
    return folder, metrics


def test_eight_questions_are_learned_by_heart(trained):
    folder, metrics = trained
    assert metrics["eval_f1"] == metrics["eval_exact"] == metrics["eval_NoAns_f1"] == 100
    assert (metrics["eval_total"], metrics["eval_samples"]) == (8, 8)
    assert metrics["train_samples"] > 8
    saved = read(folder / "tuned", "eval_results")
    assert saved["eval_f1"] == 100
    assert {"eval_best_f1", "eval_best_f1_thresh", "eval_HasAns_exact"} <= set(saved)
    assert read(folder / "tuned", "all_results")["train_loss"] == metrics["train_loss"]


def test_the_files_hold_every_question(trained):
    folder, _ = trained
    names = [f"q{number}" for number in range(8)]
    for prefix in ("eval", "predict"):
        predictions = read(folder / "tuned", f"{prefix}_predictions")
        assert predictions == {
            name: (golds or [""])[0] for name, (_, _, golds) in zip(names, ASKED, strict=True)
        }
        best = read(folder / "tuned", f"{prefix}_nbest_predictions")
        odds = read(folder / "tuned", f"{prefix}_null_odds")
        assert list(best) == list(odds) == names
        for name in names:
            assert len(best[name]) == 20
            assert sum(entry["probability"] for entry in best[name]) == pytest.approx(1)
            assert (odds[name] > 0) == (predictions[name] == "")
            assert best[name][0]["text"] == predictions[name]
    scores = read(folder / "tuned", "eval_question_scores")
    assert scores == {name: {"exact": 1.0, "f1": 1.0} for name in names}
    assert not (folder / "tuned" / "predict_question_scores.json").exists()


def test_the_saved_model_says_the_same_for_any_batch(trained, tmp_path):
    folder, metrics = trained
    path = str(folder / "data.json")
    odds = []
    for batch in (1, 3, 8):
        scores = run(
            folder / "tuned",
            tmp_path / str(batch),
            training={"do_eval": True, "per_device_eval_batch_size": batch},
            validation_file=path,
            version_2_with_negative=True,
            pad_to_max_length=batch == 3,
        )
        assert scores["eval_f1"] == metrics["eval_f1"]
        odds.append(read(tmp_path / str(batch), "eval_null_odds"))
    for name in odds[0]:
        assert odds[0][name] == pytest.approx(odds[1][name], abs=1e-4)
        assert odds[0][name] == pytest.approx(odds[2][name], abs=1e-4)


def test_squad_1_has_answers_alone(trained, tmp_path):
    folder, _ = trained
    path = write(tmp_path / "data.json", ASKED[:7])
    scores = run(
        folder / "tuned", tmp_path / "out", training={"do_eval": True}, validation_file=path
    )
    assert (scores["eval_exact_match"], scores["eval_f1"]) == (100, 100)
    assert not (tmp_path / "out" / "eval_null_odds.json").exists()
    assert all(read(tmp_path / "out", "eval_predictions").values())


def test_a_model_that_trains_is_scored_between_epochs(one_trained, tmp_path):
    folder, _ = one_trained
    scores = run(
        folder / "model",
        tmp_path / "out",
        training={
            "do_train": True, "do_eval": True, "num_train_epochs": 3, "eval_strategy": "epoch",
            "save_strategy": "epoch", "load_best_model_at_end": True, "metric_for_best_model": "f1",
            "per_device_train_batch_size": 1, "per_device_eval_batch_size": 1,
        },
        train_file=write(tmp_path / "data.json", ASKED[:3]),
        validation_file=str(tmp_path / "data.json"),
    )  # fmt: skip
    log = read(tmp_path / "out", "trainer_state")["log_history"]
    between = [entry["eval_f1"] for entry in log if "eval_f1" in entry]
    assert len(between) == 3
    assert scores["eval_f1"] == max(between)
    assert np.isfinite(scores["train_loss"])


def test_tuning_reaches_the_test_data(one_trained, tmp_path):
    folder, _ = one_trained
    path = str(folder / "data.json")
    scores = run(
        folder / "tuned",
        tmp_path / "out",
        training={"do_eval": True, "do_predict": True},
        validation_file=path,
        test_file=path,
        version_2_with_negative=True,
        tune_null_threshold=True,
        null_score_diff_threshold=-1e9,
    )
    assert scores["eval_f1"] == scores["predict_f1"] == scores["eval_best_f1"] == 100


def test_a_library_model_without_segments_and_with_three_labels_answers(tmp_path):
    tokenizer = make_tokenizer("lvbert")
    assert isinstance(tokenizer, BertTokenizer)
    assert "token_type_ids" in tokenizer.model_input_names
    config = DistilBertConfig(
        vocab_size=len(tokenizer), dim=16, hidden_dim=16, n_layers=1, n_heads=2, num_labels=3
    )
    torch.manual_seed(0)
    DistilBertModel(config).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    path = write(tmp_path / "data.json", ASKED[:2])
    scores = run(
        tmp_path / "model",
        tmp_path / "out",
        training={"do_train": True, "do_eval": True, "max_steps": 1},
        train_file=path,
        validation_file=path,
    )
    assert 0 <= scores["eval_exact_match"] <= scores["eval_f1"] <= 100
    assert AutoConfig.from_pretrained(tmp_path / "out").num_labels == 2
    model = AutoModelForQuestionAnswering.from_pretrained(tmp_path / "out")
    assert model.qa_outputs.out_features == 2


def test_a_data_set_may_be_a_folder(one_trained, tmp_path):
    folder, _ = one_trained
    records = json.loads((folder / "data.json").read_text())["data"][:7]
    (tmp_path / "data").mkdir()
    datasets.Dataset.from_list(records).to_parquet(tmp_path / "data" / "validation.parquet")
    scores = run(
        folder / "tuned",
        tmp_path / "out",
        training={"do_eval": True},
        dataset_name=str(tmp_path / "data"),
        max_eval_samples=5,
    )
    assert (scores["eval_f1"], scores["eval_samples"]) == (100, 5)
    with pytest.raises(ValueError, match="no split 'test'; present: .'validation'"):
        run(
            folder / "tuned",
            tmp_path / "other",
            training={"do_predict": True},
            dataset_name=str(tmp_path / "data"),
        )


def test_questions_whose_answer_is_lost_are_not_trained_on(one_trained, tmp_path, caplog):
    folder, _ = one_trained
    lost = [{"id": "1", "question": "?", "context": "sea", "answers": [{"text": "boat"}]}]
    (tmp_path / "lost.json").write_text(json.dumps(lost))
    training = {"do_train": True, "max_steps": 1}
    with pytest.raises(ValueError, match="no question has an answer that its context has"):
        run(
            folder / "model",
            tmp_path / "out",
            training=training,
            train_file=str(tmp_path / "lost.json"),
        )
    right = {"id": "2", "question": "?", "context": "sea", "answers": [{"text": "sea"}]}
    (tmp_path / "some.json").write_text(json.dumps([*lost, right]))
    with caplog.at_level(logging.WARNING):
        metrics = run(
            folder / "model",
            tmp_path / "out",
            training=training,
            train_file=str(tmp_path / "some.json"),
        )
    assert metrics["train_samples"] == 1
    assert "left out of training" in caplog.text


@pytest.mark.parametrize(
    ("training", "task", "message"),
    [
        ({}, {}, "nothing to do"),
        ({"do_predict": True}, {}, "no data for 'test': give test_file"),
        ({"do_train": True}, {"max_seq_length": 4}, "max_seq_length 4: must be at least 5"),
        (
            {"do_train": True},
            {"doc_stride": 36, "version_2_with_negative": True},
            "doc_stride 36: .* at most 35,",
        ),
        ({"do_train": True}, {"n_best_size": 0}, "n_best_size 0: must be at least 1"),
        ({"do_train": True}, {"tune_null_threshold": True}, "only for version_2_with_negative"),
        (
            {"do_train": True},
            {"tune_null_threshold": True, "version_2_with_negative": True},
            "tune_null_threshold: do_eval is needed",
        ),
        ({"do_train": True}, {"dataset_name": "squad"}, "only one kind may be given"),
        ({"do_train": True}, {"train_file": None, "validation_file": None}, "no data: give"),
        ({"do_train": True}, {"max_train_samples": 0}, "max_train_samples 0: must be at least 1"),
        ({"do_eval": True}, {}, "question 'q7' has no answer: version_2_with_negative is needed"),
        (
            {"do_eval": True, "metric_for_best_model": "accuracy"},
            {},
            "metric_for_best_model 'accuracy': must be one of exact_match, f1",
        ),
        ({"do_train": True, "learning_rate": -1.0}, {}, "learning_rate -1.0: must be"),
        ({"do_eval": True}, {"version_2_with_negative": True}, "no saved weights for qa_outputs"),
    ],
)
def test_bad_input_is_refused_before_any_work(tmp_path, one_trained, training, task, message):
    folder, _ = one_trained
    path = write(tmp_path / "data.json")
    task = {"train_file": path, "validation_file": path, **task}
    with pytest.raises(ValueError, match=message):
        run(folder / "model", tmp_path / "out", training=training, **task)
    assert not (tmp_path / "out").exists()


def test_a_run_does_not_write_into_another_one_s_folder(one_trained, tmp_path):
    folder, _ = one_trained
    path = str(folder / "data.json")
    before = {p.name: p.read_bytes() for p in (folder / "tuned").iterdir() if p.is_file()}
    with pytest.raises(ValueError, match="holds another run .*doc_stride was 10, now 8"):
        run(
            folder / "model",
            folder / "tuned",
            training={"do_train": True, "max_steps": 60},
            train_file=path,
            version_2_with_negative=True,
            doc_stride=8,
        )
    with pytest.raises(ValueError, match="is the folder of model_name_or_path"):
        run(folder / "model", folder / "model", training={"do_train": True}, train_file=path)
    assert {p.name: p.read_bytes() for p in (folder / "tuned").iterdir() if p.is_file()} == before
