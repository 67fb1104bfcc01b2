"""The recorded inputs, weights and outputs of the original implementations are reproduced.

float64 against the recorded float64 outputs at 1e-9 shows any real difference; float32 at 2e-5 is
the originals' own rounding (at most 1e-5 there).
"""

import re

import pytest
import torch

from modeling_lvbert import (
    ELCBertForMaskedLM,
    LVBertForMaskedLM,
    LVBertForPreTraining,
    LVBertForSequenceClassification,
)
from modeling_lvbert.modeling_dynamic_convolution import DynamicConvolution
from modeling_lvbert.modeling_elcbert_layers import relative_position_rows
from tests.original_checkpoints import (
    ELC_NAMES,
    GOLDENS,
    elcbert_config,
    elcbert_name,
    elcbert_state,
    lvbert_config,
    lvbert_state,
    read_arrays,
)

LV_SETS = ("lvbert_small_order", "lvbert_interleaved")
ELC_SETS = {
    "elc_base": ("elc_base", "base", "halves", ""),
    "elc_zero": ("elc_zero", "zero", "halves", ""),
    "elc_weighted_output": ("elc_weighted_output", "weighted_output", "halves", ""),
    "ltg_babylm": ("ltg", "ltg", "halves", "_babylm"),
    "ltg_training": ("ltg", "ltg", "per_head", "_training"),
}
# The length that a variant's rule rebuilds its position table with, by the input's length.
LONG_RULE = {"base": lambda length: length, "zero": lambda _: 512, "weighted_output": lambda _: 512}
FLOAT32 = {"atol": 2e-5, "rtol": 0.0}
FLOAT64 = {"atol": 1e-9, "rtol": 0.0}


def build_lvbert(golden, part, model_class, dtype=torch.float32):
    config = lvbert_config(golden, part)
    config._attn_implementation = "eager"
    model = model_class(config)
    variables = read_arrays(GOLDENS / golden / "weights.npz")
    state = lvbert_state(variables, config.layer_order, part)
    if model_class is LVBertForSequenceClassification:
        state = {name: value for name, value in state.items() if name.startswith("lvbert.")}
        model.lvbert.load_state_dict(
            {name.removeprefix("lvbert."): value for name, value in state.items()}
        )
    else:
        model.load_state_dict(state)
    return model.to(dtype).eval()


def read_lv_inputs(golden):
    inputs = read_arrays(GOLDENS / golden / "inputs.npz")
    return {
        name: value.long() if not value.is_floating_point() else value
        for name, value in inputs.items()
    }


def encoder_inputs(inputs, ids="input_ids"):
    return {
        "input_ids": inputs[ids],
        "attention_mask": inputs["input_mask"],
        "token_type_ids": inputs["segment_ids"],
    }


def masked_lm_loss(logits, inputs):
    """The original's loss over slots: duplicates count twice, empty slots do not."""
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), inputs["masked_lm_ids"].flatten(), reduction="none"
    )
    weights = inputs["masked_lm_weights"].flatten().to(losses)
    return (losses * weights).sum() / (weights.sum() + 1e-6)


@pytest.mark.parametrize("golden", LV_SETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_against_original_lvbert_discriminator(golden, dtype):
    model = build_lvbert(golden, "discriminator", LVBertForPreTraining, dtype)
    inputs = read_lv_inputs(golden)
    if dtype == torch.float64:
        expected = read_arrays(GOLDENS / golden / "outputs_f64.npz")
        tolerance = FLOAT64
    else:
        expected = read_arrays(GOLDENS / golden / "outputs.npz")
        tolerance = FLOAT32
    outputs = model.lvbert(
        **encoder_inputs(inputs), output_hidden_states=True, output_attentions=True
    )
    torch.testing.assert_close(
        outputs.last_hidden_state, expected["encoder/sequence_output"], **tolerance
    )
    if dtype == torch.float32:
        hidden_states = torch.stack(outputs.hidden_states)
        torch.testing.assert_close(
            hidden_states[0], expected["encoder/embedding_output"], **tolerance
        )
        torch.testing.assert_close(
            hidden_states[1:], expected["encoder/all_layer_outputs"], **tolerance
        )
        torch.testing.assert_close(
            torch.stack(outputs.attentions), expected["encoder/attn_maps"], **tolerance
        )
    corrupted = dict(encoder_inputs(inputs))
    corrupted["input_ids"] = read_arrays(GOLDENS / golden / "outputs.npz")[
        "pretrain/disc_input_ids"
    ].long()
    labels = read_arrays(GOLDENS / golden / "outputs.npz")["pretrain/disc_labels"].long()
    detection = model(**corrupted, labels=labels)
    real = inputs["input_mask"].bool()
    torch.testing.assert_close(
        detection.logits[real], expected["pretrain/disc_logits"][real], **tolerance
    )
    torch.testing.assert_close(
        detection.loss, expected["pretrain/disc_loss"].to(dtype), rtol=2e-6, atol=0.0
    )


@pytest.mark.parametrize("golden", LV_SETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_against_original_lvbert_generator_and_pretraining_loss(golden, dtype):
    name, tolerance = (
        ("outputs_f64.npz", FLOAT64) if dtype == torch.float64 else ("outputs.npz", FLOAT32)
    )
    expected = read_arrays(GOLDENS / golden / name)
    inputs = read_lv_inputs(golden)
    generator = build_lvbert(golden, "generator", LVBertForMaskedLM, dtype)
    outputs = generator(
        **encoder_inputs(inputs, "masked_input_ids"),
        output_hidden_states=True,
        output_attentions=True,
    )
    torch.testing.assert_close(
        outputs.hidden_states[-1], expected["pretrain/gen/sequence_output"], **tolerance
    )
    if dtype == torch.float32:
        torch.testing.assert_close(
            torch.stack(outputs.hidden_states[1:]),
            expected["pretrain/gen/all_layer_outputs"],
            **tolerance,
        )
        torch.testing.assert_close(
            torch.stack(outputs.attentions), expected["pretrain/gen/attn_maps"], **tolerance
        )
    positions = inputs["masked_lm_positions"]
    logits = outputs.logits.gather(1, positions[..., None].expand(-1, -1, outputs.logits.shape[2]))
    torch.testing.assert_close(logits, expected["pretrain/masked_lm_logits"], **tolerance)

    loss = masked_lm_loss(logits, inputs)
    torch.testing.assert_close(
        loss, expected["pretrain/masked_lm_loss"].to(dtype), rtol=2e-5, atol=0.0
    )
    recorded = read_arrays(GOLDENS / golden / "outputs.npz")
    discriminator = build_lvbert(golden, "discriminator", LVBertForPreTraining, dtype)
    corrupted = dict(encoder_inputs(inputs))
    corrupted["input_ids"] = recorded["pretrain/disc_input_ids"].long()
    detection = discriminator(**corrupted, labels=recorded["pretrain/disc_labels"].long())
    torch.testing.assert_close(
        loss + 50 * detection.loss, expected["pretrain/total_loss"].to(dtype), rtol=2e-5, atol=0.0
    )


@pytest.mark.parametrize("task", ["mnli", "sts"])
@pytest.mark.parametrize("golden", LV_SETS)
def test_against_original_lvbert_task_heads(golden, task):
    model = build_lvbert(golden, "discriminator", LVBertForSequenceClassification)
    heads = read_arrays(GOLDENS / golden / "head_weights.npz")
    kernel = heads[f"task_specific/{task}/dense/kernel"]
    model.classifier.output = torch.nn.Linear(*kernel.shape)
    model.classifier.output.load_state_dict(
        {"weight": kernel.T.contiguous(), "bias": heads[f"task_specific/{task}/dense/bias"]}
    )
    model = model.double()
    inputs = read_lv_inputs(golden)
    expected = read_arrays(GOLDENS / golden / "outputs_f64.npz")
    labels = inputs["mnli_label_ids"] if task == "mnli" else inputs["sts_targets"].double()
    outputs = model(**encoder_inputs(inputs), labels=labels)
    recorded = {"mnli": "finetune/mnli/logits", "sts": "finetune/sts/predictions"}[task]
    torch.testing.assert_close(outputs.logits.squeeze(-1), expected[recorded], **FLOAT64)
    # The regression targets are recorded in float32.
    tolerance = 1e-9 if task == "mnli" else 1e-7
    torch.testing.assert_close(
        outputs.loss, expected[f"finetune/{task}/loss"].mean(), atol=tolerance, rtol=0.0
    )


def test_against_original_lvbert_convolution_kernels():
    golden = "lvbert_small_order"
    model = build_lvbert(golden, "discriminator", LVBertForPreTraining)
    kernels = []
    heads = model.config.num_attention_heads
    for module in model.modules():
        if isinstance(module, DynamicConvolution):
            module.kernel.register_forward_hook(
                lambda _, __, output: kernels.append(
                    output.unflatten(-1, (heads, -1)).softmax(dim=-1)
                )
            )
    model.lvbert(**encoder_inputs(read_lv_inputs(golden)))
    expected = read_arrays(GOLDENS / golden / "outputs.npz")["encoder/dynconv_kernels"]
    torch.testing.assert_close(torch.stack(kernels), expected, **FLOAT32)


def test_against_original_lvbert_padding_leaks_only_where_the_original_does():
    golden = "lvbert_small_order"
    model = build_lvbert(golden, "discriminator", LVBertForPreTraining).lvbert
    inputs = read_lv_inputs(golden)
    changed = dict(encoder_inputs(inputs))
    changed["input_ids"] = inputs["input_ids"].masked_fill(inputs["input_mask"] == 0, 57)
    real = inputs["input_mask"].bool()
    plain = model(**encoder_inputs(inputs)).last_hidden_state[real]
    assert (model(**changed).last_hidden_state[real] - plain).abs().max() > 0.1
    for module in model.modules():
        if isinstance(module, DynamicConvolution):
            module.mask_padding = True
    masked = model(**encoder_inputs(inputs)).last_hidden_state[real]
    torch.testing.assert_close(
        model(**changed).last_hidden_state[real], masked, atol=1e-5, rtol=0.0
    )


def test_against_original_lvbert_pretraining_gradients():
    golden = "lvbert_interleaved"
    run = read_arrays(GOLDENS / golden / "training_run.npz")
    inputs = read_lv_inputs(golden)
    recorded = read_arrays(GOLDENS / golden / "outputs.npz")
    generator = build_lvbert(golden, "generator", LVBertForMaskedLM, torch.float64)
    discriminator = build_lvbert(golden, "discriminator", LVBertForPreTraining, torch.float64)
    generator.lvbert.embeddings = discriminator.lvbert.embeddings
    generator.generator_lm_head.weight = discriminator.lvbert.embeddings.word_embeddings.weight
    logits = generator(**encoder_inputs(inputs, "masked_input_ids")).logits
    positions = inputs["masked_lm_positions"]
    loss = masked_lm_loss(
        logits.gather(1, positions[..., None].expand(-1, -1, logits.shape[2])), inputs
    )
    corrupted = dict(encoder_inputs(inputs))
    corrupted["input_ids"] = recorded["pretrain/disc_input_ids"].long()
    detection = discriminator(**corrupted, labels=recorded["pretrain/disc_labels"].long())
    (loss + 50 * detection.loss).backward()

    variables = read_arrays(GOLDENS / golden / "weights.npz")
    gradients = {
        name.split("/grad_step0/", 1)[1]: value
        for name, value in run.items()
        if "/grad_step0/" in name
    }
    assert gradients
    compared = 0
    for part, model in (("discriminator", discriminator), ("generator", generator)):
        # Renaming the gradients as if they were weights pairs them with ours.
        full = {name: gradients.get(name, torch.zeros_like(v)) for name, v in variables.items()}
        expected = lvbert_state(full, model.config.layer_order, part)
        flags = lvbert_state(
            {n: torch.full_like(v, float(n in gradients)) for n, v in variables.items()},
            model.config.layer_order,
            part,
        )
        for name, parameter in model.named_parameters():
            if not flags[name].any():
                continue
            scale = expected[name].abs().max().item()
            tolerance = 1e-5 if name.endswith("sublayer.key.bias") else 2e-5 * scale
            torch.testing.assert_close(
                parameter.grad.float(), expected[name], atol=tolerance, rtol=0.0, msg=name
            )
            compared += 1
    assert compared >= len(gradients)


def build_elcbert(case, **fields):
    golden, variant, layout, suffix = ELC_SETS[case]
    config = elcbert_config(golden, variant, position_layout=layout, **fields)
    config._attn_implementation = "eager"
    model = ELCBertForMaskedLM(config)
    model.load_state_dict(elcbert_state(golden))
    inputs = read_arrays(GOLDENS / golden / f"inputs{suffix}.safetensors")
    return model.eval(), inputs, suffix


def batch_first(inputs, name):
    batch = {
        "input_ids": inputs[f"{name}/input_ids"].T,
        "attention_mask": (~inputs[f"{name}/attention_mask"]).long(),
    }
    if f"{name}/labels" in inputs:
        batch["labels"] = inputs[f"{name}/labels"].T
    return batch


def time_first(tensor):
    return tensor.transpose(0, 1)


@pytest.mark.parametrize("case", ELC_SETS)
def test_against_original_elcbert_in_float32(case):
    model, inputs, suffix = build_elcbert(case)
    expected = read_arrays(GOLDENS / ELC_SETS[case][0] / f"outputs{suffix}.safetensors")
    outputs = model(
        **batch_first(inputs, "main"), output_hidden_states=True, output_attentions=True
    )
    hidden_states = torch.stack([time_first(state) for state in outputs.hidden_states])
    torch.testing.assert_close(hidden_states, expected["main/hidden_states"], **FLOAT32)
    torch.testing.assert_close(time_first(outputs.logits), expected["main/logits"], **FLOAT32)
    torch.testing.assert_close(outputs.loss, expected["main/loss"], **FLOAT32)
    torch.testing.assert_close(
        torch.stack([probabilities[1] for probabilities in outputs.attentions]),
        expected["main/attention_probs_row1"],
        **FLOAT32,
    )
    _, relative = model.elcbert.embeddings(torch.zeros(1, 1, model.config.hidden_size))
    torch.testing.assert_close(
        relative, expected["main/relative_embedding_after_layer_norm"], **FLOAT32
    )
    all_padding = model(
        **batch_first(inputs, "allpad"), output_hidden_states=True, output_attentions=True
    )
    torch.testing.assert_close(time_first(all_padding.logits), expected["allpad/logits"], **FLOAT32)
    torch.testing.assert_close(
        time_first(all_padding.hidden_states[-1]), expected["allpad/hidden_states_last"], **FLOAT32
    )
    torch.testing.assert_close(
        all_padding.attentions[0], expected["allpad/attention_probs_layer0"], **FLOAT32
    )


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("case", ELC_SETS)
def test_against_original_elcbert_in_float64(case, implementation):
    model, inputs, suffix = build_elcbert(case)
    model.set_attn_implementation(implementation)
    model = model.double()
    expected = read_arrays(GOLDENS / ELC_SETS[case][0] / f"outputs_f64{suffix}.safetensors")
    compared = 0
    for name in ("main", "allpad"):
        if f"{name}/logits" in expected:
            logits = time_first(model(**batch_first(inputs, name)).logits)
            torch.testing.assert_close(logits, expected[f"{name}/logits"], **FLOAT64)
            compared += 1
    assert compared


@pytest.mark.parametrize("case", ELC_SETS)
def test_against_original_elcbert_gradients(case):
    model, inputs, suffix = build_elcbert(case)
    expected = read_arrays(GOLDENS / ELC_SETS[case][0] / f"outputs{suffix}.safetensors")
    model(**batch_first(inputs, "main")).loss.backward()
    parameters = dict(model.named_parameters())
    squares = sum(parameter.grad.double().square().sum() for parameter in parameters.values())
    torch.testing.assert_close(
        squares.sqrt().float(), expected["main/grad_global_norm"], rtol=1e-5, atol=0.0
    )
    recorded = [name for name in expected if name.startswith("main/grad/")]
    assert recorded
    for name in recorded:
        gradient = parameters[elcbert_name(name.removeprefix("main/grad/"))].grad
        scale = expected[name].abs().max().item()
        torch.testing.assert_close(
            gradient, expected[name], atol=5e-5 * scale + 1e-12, rtol=0.0, msg=name
        )


@pytest.mark.parametrize("name", ["long", "verylong"])
@pytest.mark.parametrize("case", ["elc_base", "elc_zero", "elc_weighted_output", "ltg_babylm"])
def test_against_original_elcbert_long_inputs(case, name):
    golden, variant, _, suffix = ELC_SETS[case]
    inputs = read_arrays(GOLDENS / golden / f"inputs{suffix}.safetensors")
    length = inputs[f"{name}/input_ids"].shape[0]
    rule = LONG_RULE.get(variant, lambda _: 512)
    model, _, _ = build_elcbert(case, max_position_embeddings=rule(length))
    expected = read_arrays(GOLDENS / golden / f"outputs{suffix}.safetensors")
    with torch.no_grad():
        logits = time_first(model(**batch_first(inputs, name)).logits)
    torch.testing.assert_close(
        logits[expected[f"{name}/positions"]], expected[f"{name}/logits_at_positions"], **FLOAT32
    )
    rows = relative_position_rows(
        length, model.config.position_bucket_size, model.config.max_position_embeddings
    )
    by_offset = torch.cat([rows[0].flip(0), rows[1:, 0]])
    assert torch.equal(by_offset.short(), expected[f"{name}/position_index_by_offset"])


def test_against_original_position_buckets():
    recorded = read_arrays(GOLDENS / "elc_optim_and_masking" / "position_buckets.safetensors")
    assert recorded
    for name, expected in recorded.items():
        length, bucket_size, max_position = (int(number) for number in re.findall(r"\d+", name))
        rows = relative_position_rows(length, bucket_size, max_position)
        by_offset = torch.cat([rows[0].flip(0), rows[1:, 0]])
        assert torch.equal(by_offset, expected.long()), name


@pytest.mark.parametrize("case", ["elc_base", "elc_zero"])
def test_against_original_wrong_variant_differs(case):
    golden, variant, _, suffix = ELC_SETS[case]
    expected = read_arrays(GOLDENS / golden / f"outputs{suffix}.safetensors")["main/logits"]
    for other in {"base", "zero", "normalized"} - {variant}:
        config = elcbert_config(golden, other)
        model = ELCBertForMaskedLM(config)
        model.load_state_dict(elcbert_state(golden))
        inputs = read_arrays(GOLDENS / golden / f"inputs{suffix}.safetensors")
        logits = time_first(model.eval()(**batch_first(inputs, "main")).logits)
        assert (logits - expected).abs().max() > 1e-2


def test_against_original_wrong_position_layout_differs():
    model, inputs, suffix = build_elcbert(
        "ltg_babylm",
    )
    expected = read_arrays(GOLDENS / "ltg" / f"outputs{suffix}.safetensors")["main/logits"]
    model.config.position_layout = "per_head"
    logits = time_first(model(**batch_first(inputs, "main")).logits)
    assert (logits - expected).abs().max() > 1e-2


def test_every_recorded_name_has_a_place():
    assert set(ELC_NAMES.values()) <= {
        elcbert_name(name) if not name.endswith(".") else ELC_NAMES[name] for name in ELC_NAMES
    }
