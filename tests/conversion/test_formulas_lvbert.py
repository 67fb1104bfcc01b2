import pytest
import torch

from conversion import formulas_lvbert

SETS = ["lvbert_small_order", "lvbert_interleaved"]


def recorded(golden, name):
    recording = golden(name)
    variables = {**recording.arrays("weights"), **recording.arrays("head_weights")}
    variables = {name: tensor.double() for name, tensor in variables.items()}
    inputs = {name: tensor.long() for name, tensor in recording.arrays("inputs").items()}
    return recording, variables, inputs, recording.arrays("outputs_f64")


def assert_equal(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", SETS)
def test_against_original_discriminator(golden, name):
    recording, variables, inputs, outputs = recorded(golden, name)
    ids = recording.arrays("outputs")["pretrain/disc_input_ids"].long()
    hidden = formulas_lvbert.encode(
        variables,
        "electra",
        recording.layer_order,
        recording.config["discriminator_config"]["num_attention_heads"],
        ids,
        inputs["input_mask"],
        inputs["segment_ids"],
    )
    logits = formulas_lvbert.detection_logits(variables, hidden)
    assert_equal(logits, outputs["pretrain/disc_logits"])


@pytest.mark.parametrize("name", SETS)
def test_against_original_generator(golden, name):
    recording, variables, inputs, outputs = recorded(golden, name)
    hidden = formulas_lvbert.encode(
        variables,
        "generator",
        recording.layer_order,
        recording.config["generator_config"]["num_attention_heads"],
        inputs["masked_input_ids"],
        inputs["input_mask"],
        inputs["segment_ids"],
    )
    assert_equal(hidden, outputs["pretrain/gen/sequence_output"])
    logits = formulas_lvbert.mask_logits(variables, hidden)
    positions = inputs["masked_lm_positions"][..., None].expand(-1, -1, logits.shape[-1])
    assert_equal(logits.gather(1, positions), outputs["pretrain/masked_lm_logits"])


@pytest.mark.parametrize("name", SETS)
def test_against_original_fine_tuned_heads(golden, name):
    recording, variables, inputs, outputs = recorded(golden, name)
    hidden = formulas_lvbert.encode(
        variables,
        "electra",
        recording.layer_order,
        recording.config["discriminator_config"]["num_attention_heads"],
        inputs["input_ids"],
        inputs["input_mask"],
        inputs["segment_ids"],
    )
    assert_equal(hidden, outputs["encoder/sequence_output"])
    mnli = formulas_lvbert.classification_logits(variables, "mnli", hidden)
    sts = formulas_lvbert.classification_logits(variables, "sts", hidden)
    assert_equal(mnli, outputs["finetune/mnli/logits"])
    assert_equal(sts.squeeze(-1), outputs["finetune/sts/predictions"])


def test_layers_are_paired_into_blocks():
    scopes = [formulas_lvbert.sublayer_scope("electra", index) for index in range(3)]
    assert scopes == [
        "electra/encoder/layer_0/first_submodule",
        "electra/encoder/layer_0/second_submodule",
        "electra/encoder/layer_1/first_submodule",
    ]
