import copy
import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.linear_model import LogisticRegression
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertModel,
)

from modeling_lvbert.evaluation.sequence_classification.fine_tuner import FineTuner
from modeling_lvbert.evaluation.sequence_classification.options import FineTuningArguments
from tests.evaluation.small_models import make_model
from tests.evaluation.small_tasks import (
    read_json,
    sentences,
    training_arguments,
    tune,
    write,
)


def make_trainer(folder, method, tmp_path, **training):
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    return FineTuner(
        model, FineTuningArguments(**method), args=training_arguments(tmp_path, **training)
    )


def list_groups(optimizer):
    return [
        (group["lr"], group["weight_decay"], sum(map(torch.numel, group["params"])))
        for group in optimizer.param_groups
    ]


@pytest.mark.parametrize("method", [{}, {"layerwise_lr_decay": 1.0}])
def test_without_decay_the_optimizer_is_the_trainer_s(deep_model_dir, tmp_path, method):
    optimizer = make_trainer(deep_model_dir, method, tmp_path, weight_decay=0.1).create_optimizer()
    assert [(rate, decay) for rate, decay, _ in list_groups(optimizer)] == [(0.01, 0.1), (0.01, 0)]


def test_layers_have_rates_of_their_own_and_decay_as_the_trainer_s(deep_model_dir, tmp_path):
    plain = make_trainer(deep_model_dir, {}, tmp_path, weight_decay=0.1).create_optimizer()
    trainer = make_trainer(deep_model_dir, {"layerwise_lr_decay": 0.5}, tmp_path, weight_decay=0.1)
    groups = list_groups(trainer.create_optimizer())
    # The head, two layers and the embeddings; each with and without weight decay.
    assert sorted({rate for rate, _, _ in groups}) == pytest.approx(
        [0.01 * 0.5**exponent for exponent in (4, 3, 2, 0)]
    )
    for decay in (0.1, 0.0):
        counts = [
            sum(count for _, found, count in listed if found == decay)
            for listed in (groups, list_groups(plain))
        ]
        assert counts[0] == counts[1] > 0


def test_the_head_has_a_rate_of_its_own(deep_model_dir, tmp_path):
    trainer = make_trainer(deep_model_dir, {"head_learning_rate": 0.5}, tmp_path)
    optimizer = trainer.create_optimizer()
    head = {id(parameter) for parameter in trainer.model.classifier.parameters()}
    for group in optimizer.param_groups:
        assert {id(p) in head for p in group["params"]} == {group["lr"] == 0.5}


def test_lower_layers_move_less(any_model_dir, tmp_path):
    train = write(tmp_path, "train.jsonl", sentences(16))
    training = {"do_train": True, "max_steps": 2, "lr_scheduler_type": "constant"}
    moved = {}
    for decay in (None, 0.01):
        folder = tmp_path / str(decay)
        method = {"layerwise_lr_decay": decay}
        tune(any_model_dir, folder, training=training, method=method, train_file=train)
        before = load_file(f"{any_model_dir}/model.safetensors")
        after = load_file(folder / "model.safetensors")
        name = next(name for name in after if "word_embeddings" in name)
        moved[decay] = (after[name] - before[name]).abs().max().item()
    assert 0 < moved[0.01] < 1e-3 * moved[None]


def test_an_optimizer_that_groups_by_itself_is_refused(deep_model_dir, tmp_path, monkeypatch):
    trainer = make_trainer(deep_model_dir, {"layerwise_lr_decay": 0.5}, tmp_path)
    own = (torch.optim.SGD, {"params": []})
    monkeypatch.setattr(trainer, "get_optimizer_cls_and_kwargs", lambda args, model: own)
    with pytest.raises(ValueError, match="makes groups of parameters itself"):
        trainer.create_optimizer()


def test_a_frozen_encoder_stays_and_gives_the_same_features_in_training(deep_model_dir, tmp_path):
    trainer = make_trainer(deep_model_dir, {"freeze_encoder": True}, tmp_path)
    trainer.model.train()
    inputs = {"input_ids": torch.tensor([[2, 5, 6, 3]]), "labels": torch.tensor([1])}
    assert not any(p.requires_grad for p in trainer.model.electra.parameters())
    assert all(p.requires_grad for p in trainer.model.classifier.parameters())
    trainer.compute_loss(trainer.model, inputs)
    assert not trainer.model.electra.training
    # The head keeps its dropout.
    assert trainer.model.classifier.training
    trainer = make_trainer(deep_model_dir, {}, tmp_path)
    trainer.model.train()
    trainer.compute_loss(trainer.model, inputs)
    assert trainer.model.electra.training


def test_a_linear_probe_reaches_what_logistic_regression_does(tmp_path):
    folder = make_model(tmp_path / "model", "lvbert")
    settings = {"hidden_dropout_prob": 0.5, "classifier_dropout": 0.0}
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps({**read_json(path), **settings}))
    model = AutoModelForMaskedLM.from_pretrained(folder)
    with torch.no_grad():
        # Else the words are hardly seen in the features, and their weights must grow for long.
        for parameter in model.base_model.encoder.parameters():
            parameter.mul_(4.0 if parameter.ndim == 2 else 1.0)
    model.save_pretrained(folder)
    words = "harbour storm village keeper engineer built when nobody where anna".split()  # noqa: SIM905
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, 6)) for _ in range(64)]
    labels = [int("storm" in text) for text in texts]
    rows = [{"sentence": text, "label": y} for text, y in zip(texts, labels, strict=True)]
    train = write(tmp_path, "train.jsonl", rows)
    # Plain descent with weight decay on all rows ends at the optimum with a penalty.
    decay = 0.2
    scores = tune(
        folder,
        tmp_path / "tuned",
        training={
            "do_train": True, "do_eval": True, "max_steps": 200, "learning_rate": 0.1,
            "optim": "sgd", "lr_scheduler_type": "constant", "weight_decay": decay,
            "per_device_train_batch_size": len(rows), "logging_strategy": "no",
        },
        method={"freeze_encoder": True},
        train_file=train,
        validation_file=train,
    )  # fmt: skip
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    inputs = AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        features = model.base_model(**inputs)[0][:, 0].numpy()
    # Two vectors of weights share the penalty of the difference, which is sklearn's one.
    probe = LogisticRegression(C=2 / (decay * len(rows)), max_iter=20_000, tol=1e-8)
    probe.fit(features, labels)
    loss = -np.mean(probe.predict_log_proba(features)[range(len(rows)), labels])
    assert scores["eval_loss"] == pytest.approx(loss, abs=2e-3)
    assert scores["eval_accuracy"] == pytest.approx(probe.score(features, labels), abs=0.011)
    assert scores["eval_accuracy"] > scores["eval_majority_baseline"]
    before, after = (
        load_file(f"{path}/model.safetensors") for path in (folder, tmp_path / "tuned")
    )
    kept = [name for name in after if name.startswith("lvbert.")]
    assert kept and all(torch.equal(before[name], after[name]) for name in kept)


def test_a_method_is_refused_for_a_model_without_a_head(tmp_path):
    model = BertModel(
        BertConfig(vocab_size=9, hidden_size=8, num_attention_heads=2, num_hidden_layers=1)
    )
    for method in (
        FineTuningArguments(freeze_encoder=True),
        FineTuningArguments(head_learning_rate=1.0),
    ):
        with pytest.raises(ValueError, match="BertModel has no encoder apart from its head"):
            FineTuner(copy.deepcopy(model), method, args=training_arguments(tmp_path))
