import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from transformers import TrainingArguments

from modeling_lvbert import (
    ELCBertConfig,
    ELCBertForMaskedLM,
    LVBertConfig,
    LVBertForMaskedLM,
)
from modeling_lvbert.pretraining.checkpoints import claim_output_dir, find_last_checkpoint
from modeling_lvbert.pretraining.masking import IGNORED_LABEL, MaskingCollator
from modeling_lvbert.pretraining.packing import pack_corpus
from modeling_lvbert.pretraining.rows import PackedRows, TrainingData
from modeling_lvbert.pretraining.stages import Stage
from modeling_lvbert.pretraining.tokenizer_training import train_tokenizer
from modeling_lvbert.pretraining.trainer import (
    VALIDATION_SEED,
    MaskedLanguageModelingTrainer,
    OptimizationSettings,
    compute_unigram_entropy,
    select_decay_parameters,
)

SIZES = {
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


@pytest.fixture(scope="module")
def tokenizer(documents):
    return train_tokenizer(documents, "lvbert", 400, 64)


@pytest.fixture(scope="module")
def rows(documents, tokenizer):
    packed = pack_corpus(documents, tokenizer, 16)
    return packed.select(range(20)), packed.select(range(20, 33))


def build(tokenizer, family="lvbert"):
    torch.manual_seed(1)
    sizes = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, **SIZES}
    if family == "lvbert":
        return LVBertForMaskedLM(LVBertConfig(layer_order="dsf", embedding_size=16, **sizes))
    return ELCBertForMaskedLM(ELCBertConfig(layer_order="sf d", **sizes))


def make_trainer(tokenizer, rows, folder, family="lvbert", **options):
    settings = {
        "use_cpu": True,
        "disable_tqdm": True,
        "report_to": "none",
        "dataloader_pin_memory": False,
        "logging_steps": 1,
        "learning_rate": 1e-2,
        **options,
    }
    args = TrainingArguments(output_dir=str(folder), **settings)
    collator = MaskingCollator(tokenizer)
    training_data = TrainingData([rows[0]], (Stage(1.0, 16, 1.0),))
    return MaskedLanguageModelingTrainer(
        build(tokenizer, family), args, training_data, rows[1], collator
    )


def losses(trainer):
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def test_accumulation_changes_no_loss_and_no_weight(tokenizer, rows, tmp_path):
    runs = []
    for batch, accumulation in ((8, 1), (2, 4)):
        trainer = make_trainer(
            tokenizer,
            rows,
            tmp_path / str(batch),
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=accumulation,
            max_steps=6,
            optim="sgd",
        )
        trainer.train()
        runs.append(trainer)
    assert losses(runs[0]) == pytest.approx(losses(runs[1]), abs=1e-5)
    for one, other in zip(runs[0].model.parameters(), runs[1].model.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_the_loss_of_a_step_is_the_mean_over_its_predicted_tokens(tokenizer, rows, tmp_path):
    trainer = make_trainer(
        tokenizer, rows, tmp_path, per_device_train_batch_size=5, max_steps=1, seed=3
    )
    first = next(iter(trainer.get_train_dataloader().batch_sampler))
    numbers = [index.number for index in first]
    batch = MaskingCollator(tokenizer)(PackedRows(rows[0], 3).__getitems__(numbers))
    with torch.no_grad():
        logits = build(tokenizer).train()(batch["input_ids"], batch["attention_mask"]).logits
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
    trainer.train()
    assert losses(trainer) == pytest.approx([expected.item()], abs=1e-5)


@pytest.mark.parametrize("batch", [1, 4, 13])
def test_validation_does_not_depend_on_the_batch(tokenizer, rows, tmp_path, batch):
    trainer = make_trainer(tokenizer, rows, tmp_path, per_device_eval_batch_size=batch, seed=batch)
    metrics = trainer.evaluate()
    fixed = PackedRows(rows[1], VALIDATION_SEED)
    total = hits = count = 0
    for number in range(len(fixed)):
        features = MaskingCollator(tokenizer)([fixed[number]])
        with torch.no_grad():
            logits = trainer.model.eval()(features["input_ids"]).logits
        chosen = features["labels"] != IGNORED_LABEL
        targets = features["labels"][chosen]
        total += torch.nn.functional.cross_entropy(logits[chosen], targets, reduction="sum").item()
        hits += (logits[chosen].argmax(-1) == targets).sum().item()
        count += len(targets)
    assert metrics["eval_loss"] == pytest.approx(total / count, abs=1e-4)
    assert metrics["eval_masked_accuracy"] == pytest.approx(hits / count, abs=1e-6)
    assert metrics["eval_perplexity"] == pytest.approx(np.exp(total / count), rel=1e-3)
    assert metrics["eval_num_masked_tokens"] == count


@pytest.mark.parametrize("family", ["lvbert", "elcbert"])
def test_the_loss_falls_below_the_unigram_entropy(documents, tmp_path, family):
    tokenizer = train_tokenizer(documents, family, 400, 64)
    packed = pack_corpus(documents, tokenizer, 64)
    trainer = make_trainer(
        tokenizer,
        (packed, packed),
        tmp_path,
        family,
        per_device_train_batch_size=20,
        max_steps=60,
        save_strategy="no",
    )
    trainer.train()
    entropy = compute_unigram_entropy(packed, tokenizer)
    assert trainer.evaluate()["eval_loss"] < entropy - 0.3


def test_a_resumed_run_takes_the_same_steps(tokenizer, rows, tmp_path):
    def options(folder):
        return {
            "folder": folder,
            "per_device_train_batch_size": 3,
            "save_steps": 4,
            "max_steps": 18,
        }

    whole = make_trainer(tokenizer, rows, **options(tmp_path / "whole"))
    whole.train()
    # Seven steps an epoch: the second epoch begins in the middle of nowhere.
    checkpoint = tmp_path / "whole" / "checkpoint-8"
    resumed = make_trainer(tokenizer, rows, **options(tmp_path / "resumed"))
    resumed.train(resume_from_checkpoint=str(checkpoint))
    assert resumed.state.global_step == 18
    assert losses(resumed)[8:] == losses(whole)[8:]


def test_logs_tell_the_speed_in_real_tokens(tokenizer, rows, tmp_path):
    trainer = make_trainer(tokenizer, rows, tmp_path, per_device_train_batch_size=4, max_steps=5)
    metrics = trainer.train().metrics
    parts = list(trainer.get_train_dataloader().batch_sampler)
    real = sum(len(rows[0][index.number % 20]["input_ids"]) for part in parts for index in part)
    assert trainer.state.num_input_tokens_seen == real
    speed = metrics["train_tokens_per_second"] * metrics["train_runtime"]
    assert speed == pytest.approx(real, rel=0.05)
    assert all(e["tokens_per_second"] > 0 for e in trainer.state.log_history if "loss" in e)


@pytest.mark.parametrize(
    ("family", "excluded"),
    [
        ("lvbert", ("bias", "layer_norm")),
        ("elcbert", ("bias", "layer_norm", "embeddings", "prev_layer_weights")),
    ],
)
def test_the_optimizer_s_groups_are_the_authors(tokenizer, rows, tmp_path, family, excluded):
    trainer = make_trainer(tokenizer, rows, tmp_path, family, weight_decay=0.1)
    trainer.create_optimizer()
    names = {id(parameter): name for name, parameter in trainer.model.named_parameters()}
    groups = {0.0: set(), 0.1: set()}
    for group in trainer.optimizer.param_groups:
        groups[group["weight_decay"]] |= {names[id(parameter)] for parameter in group["params"]}
    assert groups[0.0] | groups[0.1] == set(names.values())
    assert groups[0.0] == {
        name for name in names.values() if any(part in name for part in excluded)
    }
    assert groups[0.1] == set(select_decay_parameters(trainer.model, family))
    embeddings = {name for name in names.values() if "word_embeddings" in name}
    assert len(embeddings) == 1
    assert (embeddings <= groups[0.1]) == (family == "lvbert")


def test_the_unigram_entropy_leaves_special_tokens_out(tokenizer):
    import datasets

    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    rows = datasets.Dataset.from_dict(
        {"input_ids": [[cls, 50, 50, 51, sep], [cls, 52, 52, 52, 52, 53, sep]]}
    )
    shares = np.array([2, 1, 4, 1]) / 8
    expected = -(shares * np.log(shares)).sum()
    assert compute_unigram_entropy(rows, tokenizer) == pytest.approx(expected)


def test_a_new_folder_is_claimed_and_found_again(tmp_path):
    folder = str(tmp_path / "a" / "run")
    settings = {"seed": 1, "model_size": "tiny"}
    claim_output_dir(folder, settings)
    claim_output_dir(folder, settings)
    assert [path.name for path in (tmp_path / "a" / "run").iterdir()] == ["run.json"]


def test_another_run_s_folder_is_refused_and_the_difference_named(tmp_path):
    claim_output_dir(str(tmp_path / "run"), {"seed": 1, "hidden_size": 8})
    with pytest.raises(ValueError, match="seed was 1, now 2"):
        claim_output_dir(str(tmp_path / "run"), {"seed": 2, "hidden_size": 8})


def test_a_foreign_folder_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(ValueError, match="is not empty"):
        claim_output_dir(str(tmp_path), {"seed": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    for place in ("thesis.txt", "thesis.txt/run"):
        with pytest.raises(ValueError, match="thesis.txt' is a file"):
            claim_output_dir(str(tmp_path / place), {"seed": 1})


def make_checkpoint(folder, step):
    checkpoint = folder / f"checkpoint-{step}"
    checkpoint.mkdir()
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        torch.save({}, checkpoint / name)
    save_file({"weight": torch.zeros(3)}, checkpoint / "model.safetensors")
    (checkpoint / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    return checkpoint


def test_the_last_checkpoint_is_the_newest_whole_one(tmp_path):
    assert find_last_checkpoint(str(tmp_path)) is None
    make_checkpoint(tmp_path, 90)
    newest = make_checkpoint(tmp_path, 100)
    assert find_last_checkpoint(str(tmp_path)) == str(newest)
    (newest / "trainer_state.json").write_text('{"global_st')
    assert find_last_checkpoint(str(tmp_path)) == str(tmp_path / "checkpoint-90")
    (tmp_path / "checkpoint-90" / "model.safetensors").unlink()
    assert find_last_checkpoint(str(tmp_path)) is None


def test_a_checkpoint_with_truncated_weights_does_not_count(tokenizer, rows, tmp_path):
    make_trainer(tokenizer, rows, tmp_path, max_steps=2, save_steps=1).train()
    assert find_last_checkpoint(str(tmp_path)) == str(tmp_path / "checkpoint-2")
    weights = tmp_path / "checkpoint-2" / "model.safetensors"
    whole = weights.read_bytes()
    for damaged in (whole[:-1], whole[:100], whole[:3], b"", whole + b"x", b"\xff" * 9 + whole):
        weights.write_bytes(damaged)
        assert find_last_checkpoint(str(tmp_path)) == str(tmp_path / "checkpoint-1")
    weights.write_bytes(whole)
    assert find_last_checkpoint(str(tmp_path)) == str(tmp_path / "checkpoint-2")


def test_a_damaged_record_of_a_run_is_named(tmp_path):
    claim_output_dir(str(tmp_path / "run"), {"seed": 1})
    for text in ('{"seed": "', "[1]"):
        (tmp_path / "run" / "run.json").write_text(text)
        with pytest.raises(ValueError, match="run.json' .*: take a new folder"):
            claim_output_dir(str(tmp_path / "run"), {"seed": 1})


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError("not allowed")

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    with pytest.raises(ValueError, match="output_dir '.*run' cannot be written: not allowed"):
        claim_output_dir(str(tmp_path / "run"), {})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("schedule_power", float("nan")),
        ("schedule_power", -1.0),
        ("min_factor", 1.5),
        ("clipping_epsilon", float("inf")),
    ],
)
def test_numbers_of_the_optimization_are_checked(name, value):
    with pytest.raises(ValueError, match=f"{name} "):
        OptimizationSettings(**{name: value})


def test_a_finished_run_is_not_trained_further(tokenizer, rows, tmp_path):
    settings = {
        "max_steps": 4,
        "save_strategy": "steps",
        "save_steps": 2,
        "lr_scheduler_type": "constant",
        "per_device_train_batch_size": 4,
    }
    first = make_trainer(tokenizer, rows, tmp_path, **settings)
    first.train_from(None)
    again = make_trainer(tokenizer, rows, tmp_path, **settings)
    again.train_from(find_last_checkpoint(str(tmp_path)))
    assert again.state.global_step == 4
    assert sorted(path.name for path in tmp_path.glob("checkpoint-*")) == [
        "checkpoint-2",
        "checkpoint-4",
    ]
    for before, after in zip(first.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(before, after)
    longer = make_trainer(tokenizer, rows, tmp_path, **{**settings, "max_steps": 6})
    longer.train_from(find_last_checkpoint(str(tmp_path)))
    assert longer.state.global_step == 6
