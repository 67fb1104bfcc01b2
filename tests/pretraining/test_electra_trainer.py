import json

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from transformers import TrainingArguments

from modeling_lvbert import LVBertConfig, LVBertForMaskedLM, LVBertForPreTraining
from modeling_lvbert.pretraining.checkpoints import find_last_checkpoint
from modeling_lvbert.pretraining.electra import (
    ElectraConfig,
    ElectraForPreTraining,
    ElectraOutput,
    derive_generator_config,
)
from modeling_lvbert.pretraining.electra_trainer import (
    NUM_BINS,
    ElectraTrainer,
    area_under_curve,
    compute_metrics,
    count_by_probability,
    sum_by_row,
)
from modeling_lvbert.pretraining.masking import MaskingCollator, find_special_ids
from modeling_lvbert.pretraining.packing import pack_corpus
from modeling_lvbert.pretraining.rows import TrainingData
from modeling_lvbert.pretraining.stages import Stage
from modeling_lvbert.pretraining.tokenizer_training import train_tokenizer
from modeling_lvbert.pretraining.trainer import OptimizationSettings


@pytest.fixture(scope="module")
def tokenizer(documents):
    return train_tokenizer(documents, "lvbert", 400, 64)


@pytest.fixture(scope="module")
def rows(documents, tokenizer):
    pairs = {"seed": 1, "short_sequence_probability": 0.05, "single_segment_probability": 0.1}
    packed = pack_corpus(documents, tokenizer, 24, packing="segment_pairs", pair_settings=pairs)
    return packed.select(range(20)), packed.select(range(20, 33))


def make_trainer(tokenizer, rows, folder, dropout=0.0, **options):
    torch.manual_seed(1)
    discriminator = LVBertConfig(
        vocab_size=len(tokenizer),
        layer_order="dsf",
        embedding_size=16,
        hidden_size=32,
        intermediate_size=40,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        max_position_embeddings=24,
    )
    generator = derive_generator_config(discriminator, 0.5)
    model = ElectraForPreTraining(
        ElectraConfig(
            discriminator_fields=discriminator.to_dict(),
            generator_fields=generator.to_dict(),
            special_token_ids=find_special_ids(tokenizer),
        )
    )
    settings = {
        "use_cpu": True,
        "disable_tqdm": True,
        "report_to": "none",
        "dataloader_pin_memory": False,
        "logging_steps": 1,
        "learning_rate": 1e-3,
        "warmup_steps": 0.1,
        "max_steps": 6,
        "save_strategy": "no",
        **options,
    }
    args = TrainingArguments(output_dir=str(folder), **settings)
    collator = MaskingCollator(
        tokenizer,
        mask_token_fraction=0.85,
        random_token_fraction=0.0,
        with_sample_fractions=True,
    )
    optimization = OptimizationSettings(
        optimizer="uncorrected_adamw", schedule="linear", clipping_epsilon=0.0
    )
    training_data = TrainingData([rows[0]], (Stage(1.0, 16, 1.0),))
    return ElectraTrainer(model, args, training_data, rows[1], collator, optimization=optimization)


def logged(trainer, name="loss"):
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def test_area_under_curve_is_that_of_the_binned_scores():
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, 500)
    bins = np.clip((generator.normal(labels * 15, 20) + 100).astype(int), 0, NUM_BINS - 1)
    counts = [np.bincount(bins[labels == label], minlength=NUM_BINS) for label in (0, 1)]
    assert area_under_curve(*counts) == pytest.approx(roc_auc_score(labels, bins))
    assert np.isnan(area_under_curve(np.zeros(4), np.ones(4)))


def test_metrics_count_what_their_names_say():
    labels = torch.tensor([[7, -100, 8, -100]])
    outputs = ElectraOutput(
        generator_predictions=torch.tensor([[7, -100, 9, -100]]),
        sampled_ids=torch.tensor([[7, 5, 9, 0]]),
        logits=torch.tensor([[2.0, -1.0, 3.0, 9.0]]),
        replaced=torch.tensor([[0, 0, 1, -100]]),
    )
    metrics = compute_metrics(sum_by_row(outputs, labels).sum(0).numpy())
    assert metrics["masked_accuracy"] == metrics["sampled_accuracy"] == 0.5
    assert metrics["detection_accuracy"] == pytest.approx(2 / 3)
    assert metrics["detection_precision"] == 0.5
    assert metrics["detection_recall"] == 1.0
    counts = count_by_probability(outputs)
    assert counts[0].sum() == 2 and counts[1].sum() == 1


def test_accumulation_changes_no_loss_and_no_weight(tokenizer, rows, tmp_path):
    runs = []
    for batch, accumulation in ((8, 1), (2, 4)):
        trainer = make_trainer(
            tokenizer,
            rows,
            tmp_path / str(batch),
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=accumulation,
        )
        trainer.train()
        runs.append(trainer)
    np.testing.assert_allclose(logged(runs[0]), logged(runs[1]), rtol=1e-5)
    for name in ("masked_accuracy", "detection_accuracy", "generator_loss"):
        np.testing.assert_allclose(logged(runs[0], name), logged(runs[1], name), atol=2e-4)
    for first, second in zip(*(run.model.parameters() for run in runs), strict=True):
        torch.testing.assert_close(first, second, atol=1e-5, rtol=0.0)


def test_logged_losses_are_the_parts_of_the_loss(tokenizer, rows, tmp_path):
    trainer = make_trainer(tokenizer, rows, tmp_path)
    trainer.train()
    for total, generator, detection in zip(
        logged(trainer),
        logged(trainer, "generator_loss"),
        logged(trainer, "discriminator_loss"),
        strict=True,
    ):
        assert total == pytest.approx(generator + 50 * detection, abs=0.01)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_resumed_run_repeats_the_losses_to_the_last_bit(tokenizer, rows, tmp_path, dropout):
    settings = {"max_steps": 8, "save_strategy": "steps", "save_steps": 5, "dropout": dropout}
    whole = make_trainer(tokenizer, rows, tmp_path / "run", **settings)
    whole.train()
    checkpoint = str(tmp_path / "run" / "checkpoint-5")
    resumed = make_trainer(tokenizer, rows, tmp_path / "run", **settings)
    resumed.train(resume_from_checkpoint=checkpoint)
    assert logged(resumed)[-3:] == logged(whole)[-3:]
    for first, second in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(first, second)
    assert resumed.model.generator.generator_lm_head.weight is (
        resumed.model.discriminator.lvbert.embeddings.word_embeddings.weight
    )


def test_validation_gives_every_metric_whatever_the_batch(tokenizer, rows, tmp_path):
    results = []
    for batch in (13, 3):
        trainer = make_trainer(
            tokenizer, rows, tmp_path / str(batch), per_device_eval_batch_size=batch
        )
        results.append(trainer.evaluate())
    for name in ("loss", "generator_loss", "discriminator_loss", "detection_auc"):
        assert results[0][f"eval_{name}"] == pytest.approx(results[1][f"eval_{name}"], rel=1e-5)
    assert {f"eval_detection_{name}" for name in ("accuracy", "precision", "recall")} <= set(
        results[0]
    )


def test_saved_folder_is_the_discriminator_with_the_generator_inside(tokenizer, rows, tmp_path):
    trainer = make_trainer(tokenizer, rows, tmp_path / "run", save_strategy="steps", save_steps=3)
    trainer.train()
    trainer.save_model()
    discriminator = LVBertForPreTraining.from_pretrained(tmp_path / "run")
    generator = LVBertForMaskedLM.from_pretrained(tmp_path / "run" / "generator")
    assert generator.config.hidden_size * 2 == discriminator.config.hidden_size
    for path in (tmp_path / "run", tmp_path / "run" / "generator"):
        assert (path / "tokenizer.json").is_file() and (path / "modeling_lvbert.py").is_file()
        assert "auto_map" in json.loads((path / "config.json").read_text())
    assert find_last_checkpoint(str(tmp_path / "run")).endswith("checkpoint-6")


def test_loss_that_is_not_finite_stops_with_step_and_rows(tokenizer, rows, tmp_path):
    trainer = make_trainer(tokenizer, rows, tmp_path, per_device_train_batch_size=4)
    torch.nn.init.constant_(
        trainer.model.discriminator.lvbert.encoder.layers[0].layer_norm.bias, float("nan")
    )
    with pytest.raises(ValueError, match=r"loss is nan in step 1, with the training rows \[\d+"):
        trainer.train()
