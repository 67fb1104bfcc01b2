"""Faults seen in neighbouring systems that no other test makes impossible."""

import subprocess
import sys

import pytest
import torch
from torch.nn import functional
from transformers import Trainer, TrainingArguments

from modeling_lvbert import ELCBertForMaskedLM, LVBertConfig, LVBertForMaskedLM
from modeling_lvbert.pretraining.arguments import (
    ConfigArguments,
    DataArguments,
    ModelArguments,
    parse_arguments,
)
from modeling_lvbert.pretraining.electra import (
    ElectraConfig,
    ElectraForPreTraining,
    derive_generator_config,
)
from modeling_lvbert.pretraining.electra_trainer import ElectraTrainer
from modeling_lvbert.pretraining.masking import MaskingCollator
from modeling_lvbert.pretraining.packing import pack_corpus
from modeling_lvbert.pretraining.preparation import prepare_run
from modeling_lvbert.pretraining.rows import TrainingData
from modeling_lvbert.pretraining.stages import Stage
from modeling_lvbert.pretraining.tokenizer_training import train_tokenizer
from modeling_lvbert.search.supernet import build_supernet, make_supernet_order
from modeling_lvbert.search.supernet_trainer import SupernetTrainer
from tests.families import FAMILIES, build, head_inputs, padded_batch, small_config

BOTH = pytest.mark.parametrize("family", FAMILIES)
QUIET = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "save_strategy": "no"}


@BOTH
@pytest.mark.parametrize("head", ["ForSequenceClassification", "ForTokenClassification"])
def test_accumulation_does_not_change_a_classifier_s_update(family, head, tmp_path):
    rows = []
    for index in range(8):
        row = {name: value[0].clone() for name, value in head_inputs(head, 1, 12).items()}
        row["input_ids"] = (row["input_ids"] + index) % 90 + 5
        if head == "ForTokenClassification":
            # As many labels as the row's number.
            row["labels"][index + 1 :] = -100
        else:
            row["labels"] = torch.tensor(index % 2)
        rows.append(row)
    states = []
    for size, accumulation in ((8, 1), (2, 4)):
        torch.manual_seed(0)
        no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        model = build(family, head, classifier_dropout=0.0, **no_dropout)
        arguments = TrainingArguments(
            str(tmp_path / str(size)), per_device_train_batch_size=size, max_steps=1, optim="sgd",
            gradient_accumulation_steps=accumulation, learning_rate=1.0, max_grad_norm=0.0,
            lr_scheduler_type="constant", **QUIET,
        )  # fmt: skip
        before = {name: value.clone() for name, value in model.state_dict().items()}
        Trainer(model, arguments, train_dataset=rows).train()
        states.append(model.state_dict())
        assert any(not torch.equal(before[name], value) for name, value in states[-1].items())
    for name, value in states[0].items():
        torch.testing.assert_close(states[1][name], value, atol=1e-5, rtol=1e-4, msg=name)


def test_a_trained_tokenizer_s_offsets_leave_blanks_out(documents):
    tokenizer = train_tokenizer(documents, "elcbert", 400, 64)
    text = "The sea and 12 boats ."
    encoded = tokenizer(text, text, return_offsets_mapping=True, return_special_tokens_mask=True)
    special = encoded["special_tokens_mask"]
    assert [index for index, value in enumerate(special) if value] == [
        index
        for index, token in enumerate(encoded["input_ids"])
        if token in (tokenizer.cls_token_id, tokenizer.sep_token_id)
    ]
    parts = [
        text[start:end]
        for (start, end), is_special in zip(encoded["offset_mapping"], special, strict=True)
        if not is_special and end > start
    ]
    assert parts == [part.strip() for part in parts]
    assert "".join(parts) == 2 * text.replace(" ", "")


@BOTH
def test_no_token_s_embedding_is_frozen(family):
    # Untied: the output matrix would hide that the padding token's row gets no gradient.
    model = build(family, "ForMaskedLM", tie_word_embeddings=False, pad_token_id=7)
    assert model.get_input_embeddings().padding_idx is None
    ids = torch.arange(40)[None]
    model(input_ids=ids, labels=ids).loss.backward()
    gradients = model.get_input_embeddings().weight.grad
    assert (gradients[:40].abs().sum(-1) > 0).all()


@BOTH
def test_no_id_stands_for_padding_without_a_mask(family):
    model = build(family, "ForMaskedLM", pad_token_id=7)
    ids = torch.tensor([[9, 7, 11, 7, 7]])
    assert torch.equal(model(ids).logits, model(ids, torch.ones_like(ids)).logits)


def test_longer_padding_changes_no_part_of_electra_s_loss():
    config = LVBertConfig(
        vocab_size=99, embedding_size=24, hidden_size=32, num_attention_heads=2,
        intermediate_size=40, layer_order="dsf", max_position_embeddings=32,
    )  # fmt: skip
    generator = derive_generator_config(config, 0.5)
    model = ElectraForPreTraining(
        ElectraConfig(
            discriminator_fields=config.to_dict(),
            generator_fields=generator.to_dict(),
            special_token_ids=[0, 1, 2, 3, 4],
        )
    ).eval()
    batch = padded_batch([10, 6], 10)
    chosen = batch["attention_mask"].bool() & (torch.arange(10) % 3 == 0)
    batch["labels"] = batch["input_ids"].masked_fill(~chosen, -100)
    batch["input_ids"] = batch["input_ids"].masked_fill(chosen, 4)
    batch["sample_fractions"] = torch.rand(2, 10, generator=torch.Generator().manual_seed(0))
    fills = {"labels": -100, "sample_fractions": 0.5}
    longer = {
        name: functional.pad(value, (0, 9), value=fills.get(name, 0))
        for name, value in batch.items()
    }
    expected, found = model(**batch), model(**longer)
    for name in ("loss", "generator_loss", "discriminator_loss"):
        torch.testing.assert_close(found[name], expected[name], msg=name)


@pytest.mark.parametrize("kind", ["electra", "supernet"])
def test_both_halves_and_the_supernet_decay_by_the_family_s_rule(documents, tmp_path, kind):
    tokenizer = train_tokenizer(documents, "lvbert", 400, 64)
    rows = pack_corpus(documents, tokenizer, 16)
    config = LVBertConfig(
        vocab_size=len(tokenizer), embedding_size=16, hidden_size=16, num_attention_heads=2,
        intermediate_size=32, layer_order="dsf",
    )  # fmt: skip
    if kind == "electra":
        generator = derive_generator_config(config, 0.5)
        fields = {
            "discriminator_fields": config.to_dict(),
            "generator_fields": generator.to_dict(),
        }
        trainer_class, model = ElectraTrainer, ElectraForPreTraining(ElectraConfig(**fields))
    else:
        config = LVBertConfig(
            **{**config.to_dict(), "layer_order": make_supernet_order(3, "lvbert")}
        )
        trainer_class, model = SupernetTrainer, build_supernet(config)
    trainer = trainer_class(
        model,
        TrainingArguments(str(tmp_path), weight_decay=0.1, **QUIET),
        TrainingData([rows], (Stage(1.0, 16, 1.0),)),
        rows,
        MaskingCollator(tokenizer, with_sample_fractions=kind == "electra"),
    )
    trainer.create_optimizer()
    names = {id(parameter): name for name, parameter in trainer.model.named_parameters()}
    groups = {
        group["weight_decay"]: {names[id(parameter)] for parameter in group["params"]}
        for group in trainer.optimizer.param_groups
    }
    assert set(groups) == {0.0, 0.1}
    assert groups[0.0] | groups[0.1] == set(names.values())
    assert groups[0.0] == {
        name for name in names.values() if "bias" in name or "layer_norm" in name
    }


def test_a_tokenizer_with_more_ids_than_the_model_is_refused_before_any_work(documents, tmp_path):
    tokenizer = train_tokenizer(documents, "lvbert", 300, 64)
    size = len(tokenizer)
    tokenizer.add_special_tokens({"bos_token": "[BOS]", "eos_token": "[EOS]"})
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    kinds = (ModelArguments, ConfigArguments, DataArguments, TrainingArguments)
    flags = [
        "--model_size=tiny", f"--tokenizer_name={tmp_path / 'tokenizer'}", f"--vocab_size={size}",
        f"--output_dir={tmp_path / 'run'}", "--use_cpu", "--report_to=none",
    ]  # fmt: skip
    with pytest.raises(ValueError, match=f"vocab_size {size}: at least {size + 2} is needed"):
        prepare_run(*parse_arguments(kinds, flags, None))
    assert not (tmp_path / "run").exists()


OPEN = """
import sys
sys.modules["modeling_lvbert"] = None
from transformers import AutoTokenizer
for folder in sys.argv[1:]:
    for trust in (False, True):
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust)
        print(tokenizer("The sea", "a bird")["input_ids"])
"""


def test_a_model_s_folder_gives_its_tokenizer_with_and_without_its_code(documents, tmp_path):
    expected = []
    for family, model_class in (("LVBert", LVBertForMaskedLM), ("ELCBert", ELCBertForMaskedLM)):
        tokenizer = train_tokenizer(documents, family.lower(), 400, 64)
        model_class(small_config(family, vocab_size=400)).save_pretrained(tmp_path / family)
        tokenizer.save_pretrained(tmp_path / family)
        expected += 2 * [str(tokenizer("The sea", "a bird")["input_ids"])]
    folders = [str(tmp_path / family) for family in FAMILIES]
    result = subprocess.run(
        [sys.executable, "-I", "-c", OPEN, *folders],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == expected
