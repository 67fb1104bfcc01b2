"""The optimizers, clipping and parameter groups do what the originals' recorded runs show."""

import copy
import re
from types import SimpleNamespace

import pytest
import torch

from modeling_lvbert import (
    ELCBertConfig,
    ELCBertForMaskedLM,
    ELCBertForSequenceClassification,
    LVBertConfig,
    LVBertForMaskedLM,
    LVBertForPreTraining,
    LVBertForSequenceClassification,
)
from modeling_lvbert.pretraining import optimization
from modeling_lvbert.pretraining.optimization import (
    OPTIMIZERS,
    Lamb,
    UncorrectedAdamW,
    build_optimizer,
    build_parameter_groups,
    clip_gradients,
    compute_layerwise_factors,
)
from modeling_lvbert.pretraining.schedules import build_schedule
from modeling_lvbert.pretraining.trainer import select_decay_parameters
from tests.original_checkpoints import (
    GOLDENS,
    elcbert_config,
    elcbert_name,
    elcbert_state,
    lvbert_config,
    lvbert_state,
    read_arrays,
    read_json,
)

OURS = {"lamb": Lamb, "uncorrected_adamw": UncorrectedAdamW}
PRECISIONS = {
    "f32": (torch.float32, {"atol": 1e-6, "rtol": 0.0}),
    "f64": (torch.float64, {"atol": 1e-12, "rtol": 0.0}),
}


def as_parameters(arrays, prefix, dtype):
    return {
        name.removeprefix(prefix): torch.nn.Parameter(value.to(dtype))
        for name, value in arrays.items()
        if name.startswith(prefix)
    }


# The recorded optimizer case names its parameters as TensorFlow does; ours decide groups and rates.
TENSORFLOW_PARTS = (
    (r"^electra/encoder/layer_(\d+)/(first|second)_submodule/", None),
    (r"^electra/", "lvbert."),
    (r"^task_specific/mnli/dense", "classifier.output"),
    (r"LayerNorm/(gamma|beta)", r"layer_norm.\1"),
    (r"embeddings_project", "embeddings_project"),
)


def rename_tensorflow(name):
    for pattern, target in TENSORFLOW_PARTS:
        if target is None:
            name = re.sub(
                pattern,
                lambda found: (
                    f"lvbert.encoder.layers.{2 * int(found[1]) + (found[2] == 'second')}."
                ),
                name,
            )
        else:
            name = re.sub(pattern, target, name)
    return name.replace("/", ".")


def build_lvbert_case(dtype, layerwise):
    arrays = read_arrays(GOLDENS / "lvbert_optimizer" / "inputs.npz")
    settings = read_json(GOLDENS / "lvbert_optimizer" / "config.json")
    parameters = as_parameters(arrays, "init/", dtype)
    renamed = {rename_tensorflow(name): parameter for name, parameter in parameters.items()}
    decay_names = select_decay_parameters(
        SimpleNamespace(named_parameters=lambda: renamed.items()), "lvbert"
    )
    factors = None
    if layerwise:
        config = LVBertConfig(layer_order="dfsfff")
        factors = compute_layerwise_factors(renamed, config, 0.8)
    groups = build_parameter_groups(
        renamed.items(), decay_names, settings["weight_decay_rate"], 0.01, factors
    )
    betas = (settings["beta_1"], settings["beta_2"])
    optimizer = build_optimizer(
        "uncorrected_adamw", groups, 0.01, betas=betas, epsilon=settings["epsilon"]
    )
    gradients = {name: arrays[f"grad/{name}"].to(dtype) for name in parameters}
    return optimizer, parameters, gradients


def run_lvbert_case(case, dtype):
    """Yields after each of the five steps: step, optimizer, parameters, norm before clipping."""
    optimizer, parameters, gradients = build_lvbert_case(dtype, case != "plain")
    schedule = build_schedule(optimizer, "linear", 8, 0.25 * 8) if case == "full" else None
    for step in range(5):
        for name, parameter in parameters.items():
            parameter.grad = gradients[name][step].clone()
        norm = clip_gradients(parameters.values(), 1.0) if schedule else None
        optimizer.step()
        if schedule:
            schedule.step()
        yield step, optimizer, parameters, norm


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("case", ["plain", "layerwise", "full"])
def test_against_original_lvbert_optimizer(case, precision):
    dtype, tolerance = PRECISIONS[precision]
    suffix = "_f64" if dtype == torch.float64 else ""
    expected = read_arrays(GOLDENS / "lvbert_optimizer" / f"outputs{suffix}.npz")
    norms = read_arrays(GOLDENS / "lvbert_optimizer" / "outputs.npz")["full/global_norm"]
    for step, _, parameters, norm in run_lvbert_case(case, dtype):
        for name, parameter in parameters.items():
            torch.testing.assert_close(
                parameter.data, expected[f"{case}/param/{name}"][step], **tolerance
            )
        if norm is not None:
            torch.testing.assert_close(norm.float(), norms[step], rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("case", ["plain", "layerwise", "full"])
def test_against_original_lvbert_moments(case):
    expected = read_arrays(GOLDENS / "lvbert_optimizer" / "outputs.npz")
    *_, (_, optimizer, parameters, _) = run_lvbert_case(case, torch.float64)
    for name, parameter in parameters.items():
        for ours, theirs in (("exp_avg", "adam_m"), ("exp_avg_sq", "adam_v")):
            # The recorded ones are float32: beside a sum of parts that cancel, their own rounding.
            recorded = expected[f"{case}/{theirs}/{name}"]
            torch.testing.assert_close(
                optimizer.state[parameter][ours].float(),
                recorded,
                atol=2e-7 * recorded.abs().max().item(),
                rtol=1e-5,
            )


@pytest.mark.parametrize("precision", PRECISIONS)
def test_against_original_lamb(precision):
    dtype, tolerance = PRECISIONS[precision]
    folder = GOLDENS / "elc_optim_and_masking"
    settings = read_json(folder / "lamb_and_schedule.json")["lamb"]
    arrays = read_arrays(folder / "lamb.safetensors")
    expected = arrays
    if dtype == torch.float64:
        expected = read_arrays(folder / "lamb_f64.safetensors")
    parameters = as_parameters(arrays, "init/", dtype)
    decay_names = [name for name, decay in settings["weight_decay"].items() if decay > 0]
    groups = build_parameter_groups(parameters.items(), decay_names, 0.1, 0.01)
    optimizer = build_optimizer(
        "lamb", groups, 0.01, betas=tuple(settings["betas"]), epsilon=settings["eps"]
    )
    for step, rate in enumerate(settings["lr_per_step"]):
        for group in optimizer.param_groups:
            group["lr"] = rate
        for name, parameter in parameters.items():
            absent = step in settings["grad_is_None"].get(name, [])
            parameter.grad = None if absent else arrays[f"grad/{name}"][step].to(dtype)
        optimizer.step()
        for name, parameter in parameters.items():
            torch.testing.assert_close(
                parameter.data, expected[f"param/{name}"][step], **tolerance, msg=name
            )
    for name, parameter in parameters.items():
        for moment in ("exp_avg", "exp_avg_sq"):
            torch.testing.assert_close(
                optimizer.state[parameter][moment], expected[f"{moment}/{name}"], **tolerance
            )


@pytest.mark.parametrize("golden", ["elc_base", "elc_zero", "elc_weighted_output"])
def test_against_original_elcbert_parameter_groups(golden):
    variant = golden.removeprefix("elc_")
    model = ELCBertForMaskedLM(elcbert_config(golden, variant))
    groups = build_parameter_groups(
        model.named_parameters(), select_decay_parameters(model, "elcbert"), 0.1, 2e-3
    )
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    ours = {
        group["weight_decay"]: {names[id(parameter)] for parameter in group["params"]}
        for group in groups
    }
    recorded = read_json(GOLDENS / golden / "param_groups.json")["param_groups"]
    theirs = {0.1: set(), 0.0: set()}
    for group in recorded:
        theirs[group["weight_decay"]] |= {elcbert_name(name) for name in group["params"]}
    assert ours == theirs


def test_against_original_layerwise_factors():
    recorded = read_json(GOLDENS / "lvbert_optimizer" / "config.json")
    model = LVBertForSequenceClassification(
        LVBertConfig(vocab_size=20, hidden_size=64, embedding_size=32, num_attention_heads=1)
    )
    names = [name for name, _ in model.named_parameters()]
    factors = compute_layerwise_factors(names, model.config, 0.8)
    expected = recorded["layerwise_multipliers_decay0.8_n12"]
    for name in names:
        if name.startswith("lvbert.encoder.layers."):
            key = f"encoder/layer_{int(name.split('.')[3]) // 2}/"
        elif name.startswith("lvbert.embeddings_project."):
            key = "/embeddings_project/"
        else:
            key = "/embeddings/" if name.startswith("lvbert.embeddings.") else "task_specific/"
        assert factors[name] == pytest.approx(expected[key], rel=1e-12), name
    assert len(set(factors.values())) == 14


def test_against_original_elcbert_training_steps():
    folder = GOLDENS / "elc_base"
    recorded = read_arrays(folder / "train_steps.safetensors")
    settings = read_json(folder / "train_steps.json")["hparams"]
    model = ELCBertForMaskedLM(elcbert_config("elc_base", "base"))
    model.load_state_dict(elcbert_state("elc_base"))
    model.eval()
    inputs = read_arrays(folder / "inputs.safetensors")
    batch = {
        "input_ids": inputs["main/input_ids"].T,
        "attention_mask": (~inputs["main/attention_mask"]).long(),
        "labels": inputs["main/labels"].T,
    }
    groups = build_parameter_groups(
        model.named_parameters(),
        select_decay_parameters(model, "elcbert"),
        settings["weight_decay"],
        settings["learning_rate"],
    )
    optimizer = build_optimizer("lamb", groups, settings["learning_rate"], (0.9, 0.98), 1e-6)
    schedule = build_schedule(
        optimizer,
        "cosine",
        settings["max_steps"],
        settings["warmup_steps"],
        min_factor=settings["min_factor"],
    )
    losses, norms, rates = [], [], []
    for _ in range(5):
        loss = model(**batch).loss
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        norms.append(
            clip_gradients(model.parameters(), settings["max_gradient"], epsilon=1e-6).item()
        )
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    losses.append(model(**batch).loss.item())
    exact = {"check_dtype": False, "atol": 0.0}
    for name, values, tolerance in (
        ("loss_before_each_step_and_after_last", losses, 1e-5),
        ("grad_norm_before_clipping", norms, 1e-5),
        ("lr_used", rates, 1e-12),
    ):
        torch.testing.assert_close(
            torch.tensor(values, dtype=torch.float64),
            recorded[f"train/{name}"],
            rtol=tolerance,
            **exact,
        )
    parameters = dict(model.named_parameters())
    compared = [name for name in recorded if name.startswith("train/after/")]
    assert len(compared) == 10
    for name in compared:
        parameter = parameters[elcbert_name(name.removeprefix("train/after/"))]
        torch.testing.assert_close(parameter.data, recorded[name], atol=1e-5, rtol=0.0, msg=name)


INTERLEAVED = "lvbert_interleaved"


def read_interleaved():
    inputs = read_arrays(GOLDENS / INTERLEAVED / "inputs.npz")
    inputs = {n: v if v.is_floating_point() else v.long() for n, v in inputs.items()}
    shared = {
        "attention_mask": inputs["input_mask"],
        "token_type_ids": inputs["segment_ids"],
    }
    return inputs, shared


def build_interleaved(part, model_class):
    config = lvbert_config(INTERLEAVED, part)
    config.num_labels = 3
    model = model_class(config)
    variables = read_arrays(GOLDENS / INTERLEAVED / "weights.npz")
    state = lvbert_state(variables, model.config.layer_order, part)
    if model_class is LVBertForSequenceClassification:
        heads = read_arrays(GOLDENS / INTERLEAVED / "head_weights.npz")
        state = {name: value for name, value in state.items() if name.startswith("lvbert.")}
        state["classifier.output.weight"] = heads["task_specific/mnli/dense/kernel"].T
        state["classifier.output.bias"] = heads["task_specific/mnli/dense/bias"]
    model.load_state_dict(state)
    return model.eval()


def compare_interleaved(model, run, prefix, part):
    """Compares a model's parameters with the recorded ones; returns how many were recorded."""
    recorded = {
        name.removeprefix(prefix): value for name, value in run.items() if name.startswith(prefix)
    }
    variables = read_arrays(GOLDENS / INTERLEAVED / "weights.npz")
    full = {name: recorded.get(name, value) for name, value in variables.items()}
    expected = lvbert_state(full, model.config.layer_order, part)
    flags = lvbert_state(
        {name: torch.full_like(v, float(name in recorded)) for name, v in variables.items()},
        model.config.layer_order,
        part,
    )
    compared = 0
    for name, parameter in model.named_parameters():
        if name in flags and flags[name].any():
            torch.testing.assert_close(
                parameter.data, expected[name], atol=3e-6, rtol=0.0, msg=name
            )
            compared += 1
    return compared


def test_against_original_lvbert_pretraining_steps():
    run = read_arrays(GOLDENS / INTERLEAVED / "training_run.npz")
    recorded = read_arrays(GOLDENS / INTERLEAVED / "outputs.npz")
    inputs, shared = read_interleaved()
    generator = build_interleaved("generator", LVBertForMaskedLM)
    discriminator = build_interleaved("discriminator", LVBertForPreTraining)
    generator.lvbert.embeddings = discriminator.lvbert.embeddings
    generator.generator_lm_head.weight = discriminator.lvbert.embeddings.word_embeddings.weight
    both = torch.nn.ModuleDict({"discriminator": discriminator, "generator": generator})
    positions = inputs["masked_lm_positions"]

    def compute_loss():
        logits = generator(input_ids=inputs["masked_input_ids"], **shared).logits
        logits = logits.gather(1, positions[..., None].expand(-1, -1, logits.shape[2]))
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), inputs["masked_lm_ids"].flatten(), reduction="none"
        )
        weights = inputs["masked_lm_weights"].flatten()
        masked_lm = (losses * weights).sum() / (weights.sum() + 1e-6)
        detection = discriminator(
            input_ids=recorded["pretrain/disc_input_ids"].long(),
            labels=recorded["pretrain/disc_labels"].long(),
            **shared,
        )
        return masked_lm + 50 * detection.loss

    groups = build_parameter_groups(
        both.named_parameters(), select_decay_parameters(both, "lvbert"), 0.01, 5e-4
    )
    optimizer = build_optimizer("uncorrected_adamw", groups, 5e-4, (0.9, 0.999), 1e-6)
    schedule = build_schedule(optimizer, "linear", 20, 2)
    losses, norms = [], []
    for _ in range(4):
        loss = compute_loss()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        norms.append(clip_gradients(both.parameters(), 1.0).item())
        optimizer.step()
        schedule.step()
    losses.append(compute_loss().item())
    prefix = "pretrain/"
    for name, values in (
        ("losses_before_each_step_and_after_last", losses),
        ("global_norm_as_reference", norms),
    ):
        torch.testing.assert_close(torch.tensor(values), run[prefix + name], rtol=1e-5, atol=0.0)
    compared = compare_interleaved(
        discriminator, run, "pretrain/after_steps/", "discriminator"
    ) + compare_interleaved(generator, run, "pretrain/after_steps/", "generator")
    assert compared >= sum(name.startswith("pretrain/after_steps/") for name in run)


def test_against_original_lvbert_finetuning_steps():
    """The recorded norm counts a word's gradients one by one; the looked-up rows have these."""
    run = read_arrays(GOLDENS / INTERLEAVED / "training_run.npz")
    inputs, shared = read_interleaved()
    model = build_interleaved("discriminator", LVBertForSequenceClassification)
    words = model.lvbert.embeddings.word_embeddings
    factors = compute_layerwise_factors(
        (name for name, _ in model.named_parameters()), model.config, 0.8
    )
    groups = build_parameter_groups(
        model.named_parameters(), select_decay_parameters(model, "lvbert"), 0.01, 1e-3, factors
    )
    optimizer = build_optimizer("uncorrected_adamw", groups, 1e-3, (0.9, 0.999), 1e-6)
    schedule = build_schedule(optimizer, "linear", 10, 0.2 * 10)

    def compute_loss(rows):
        logits = model(inputs_embeds=rows, **shared).logits
        return torch.nn.functional.cross_entropy(logits, inputs["mnli_label_ids"], reduction="sum")

    losses, norms, dense_norms = [], [], []
    for _ in range(5):
        rows = words(inputs["input_ids"])
        rows.retain_grad()
        loss = compute_loss(rows)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        gradients = [p.grad for p in model.parameters() if p is not words.weight]
        norm = torch.nn.utils.get_total_norm([*gradients, rows.grad])
        norms.append(norm.item())
        dense_norms.append(torch.nn.utils.get_total_norm([*gradients, words.weight.grad]).item())
        clip_gradients(model.parameters(), 1.0, norm=norm)
        optimizer.step()
        schedule.step()
    losses.append(compute_loss(words(inputs["input_ids"])).item())
    # The last loss, 0.002, is a difference of logits of size 1 in float32. The two norms differ by
    # 8e-4 of their size at least.
    for name, values, tolerance in (
        ("losses_before_each_step_and_after_last", losses, 1e-5),
        ("global_norm_as_reference", norms, 5e-5),
        ("global_norm_dense", dense_norms, 5e-5),
    ):
        torch.testing.assert_close(
            torch.tensor(values), run[f"finetune/{name}"], rtol=tolerance, atol=2e-6, msg=name
        )
    prefix = "finetune/after_steps/"
    compared = compare_interleaved(model, run, prefix, "discriminator")
    for name, parameter in (
        ("kernel", model.classifier.output.weight.T),
        ("bias", model.classifier.output.bias),
    ):
        torch.testing.assert_close(
            parameter.data, run[f"{prefix}task_specific/mnli/dense/{name}"], atol=3e-6, rtol=0.0
        )
        compared += 1
    assert compared == sum(name.startswith(prefix) for name in run)


def make_parameters(dtype=torch.float32):
    generator = torch.Generator().manual_seed(7)
    shapes = [(3, 4), (5,), (2, 3, 2)]
    return [
        torch.nn.Parameter(torch.randn(s, generator=generator, dtype=torch.float64).to(dtype))
        for s in shapes
    ]


def fill_gradients(parameters, step, absent=()):
    generator = torch.Generator().manual_seed(step)
    for index, parameter in enumerate(parameters):
        gradient = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.grad = None if index in absent else gradient.to(parameter.dtype)


def naive_step(kind, weight, gradient, state, lr, betas, eps, decay):
    """One parameter's step as the papers' formulas have it, element by element in Python."""
    state["t"] += 1
    flat = zip(weight.flatten().tolist(), gradient.flatten().tolist(), strict=True)
    updates = []
    for index, (w, g) in enumerate(flat):
        m = state["m"][index] = betas[0] * state["m"][index] + (1 - betas[0]) * g
        v = state["v"][index] = betas[1] * state["v"][index] + (1 - betas[1]) * g * g
        if kind == "lamb":
            m, v = m / (1 - betas[0] ** state["t"]), v / (1 - betas[1] ** state["t"])
        updates.append(m / (v**0.5 + eps) + decay * w)
    ratio = 1.0
    if kind == "lamb" and decay > 0:
        norms = [sum(x * x for x in values) ** 0.5 for values in (weight.flatten(), updates)]
        ratio = float(norms[0] / norms[1]) if all(norms) else 1.0
    return weight - lr * ratio * torch.tensor(updates, dtype=weight.dtype).view_as(weight)


@pytest.mark.parametrize("decay", [0.0, 0.001, 0.3])
@pytest.mark.parametrize("kind", OURS)
def test_steps_equal_the_formulas_with_gradients_absent_at_times(kind, decay):
    settings = {"lr": 0.05, "betas": (0.8, 0.9), "eps": 1e-3}
    parameters = make_parameters(torch.float64)
    # A trust ratio far above 1, and none at all at first.
    parameters[0].data *= 100
    parameters[2].data.zero_()
    naive = [parameter.data.clone() for parameter in parameters]
    states = [{"t": 0, "m": [0.0] * w.numel(), "v": [0.0] * w.numel()} for w in naive]
    optimizer = OURS[kind](parameters, weight_decay=decay, **settings)
    for step in range(6):
        absent = {step % 4}
        fill_gradients(parameters, step, absent)
        for index, parameter in enumerate(parameters):
            if index not in absent:
                naive[index] = naive_step(
                    kind, naive[index], parameter.grad, states[index], decay=decay, **settings
                )
        before = [parameter.data.clone() for parameter in parameters]
        optimizer.step()
        for index, parameter in enumerate(parameters):
            torch.testing.assert_close(parameter.data, naive[index], rtol=0.0, atol=1e-12)
            assert torch.equal(parameter.data, before[index]) == (index in absent)


@pytest.mark.parametrize("kind", OURS)
def test_parameters_together_and_singly_move_the_same(kind, monkeypatch):
    results = []
    for together in (True, False):
        if together:
            monkeypatch.setattr(optimization, "_split_for_speed", lambda trained: [trained])
        parameters = make_parameters()
        optimizer = OURS[kind](parameters, lr=0.1, weight_decay=0.2)
        for step in range(3):
            fill_gradients(parameters, step, {step})
            optimizer.step()
        results.append(parameters)
        monkeypatch.undo()
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


@pytest.mark.parametrize("kind", OURS)
def test_a_saved_optimizer_goes_on_bit_for_bit(kind, tmp_path):
    parameters = make_parameters()
    optimizer = OURS[kind](
        [{"params": parameters[:2]}, {"params": parameters[2:], "weight_decay": 0.0}]
    )
    schedule = build_schedule(optimizer, "linear", 12, 3)
    for step in range(12):
        if step == 5:
            saved = [copy.deepcopy(parameter) for parameter in parameters]
            state = {"optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}
            torch.save(state, tmp_path / "state.pt")
        fill_gradients(parameters, step, {0} if step < 3 else ())
        optimizer.step()
        schedule.step()
    resumed = OURS[kind]([{"params": saved[:2]}, {"params": saved[2:], "weight_decay": 0.0}])
    schedule = build_schedule(resumed, "linear", 12, 3)
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    resumed.load_state_dict(state["optimizer"])
    schedule.load_state_dict(state["schedule"])
    for step in range(5, 12):
        fill_gradients(saved, step)
        resumed.step()
        schedule.step()
    for one, other in zip(parameters, saved, strict=True):
        assert torch.equal(one, other)
        for name, value in optimizer.state[one].items():
            assert torch.equal(value, resumed.state[other][name])


@pytest.mark.parametrize("kind", OURS)
def test_a_closure_computes_the_gradients(kind):
    parameters = make_parameters()
    optimizer = OURS[kind](parameters, lr=0.01)

    def closure():
        optimizer.zero_grad()
        loss = sum(parameter.square().sum() for parameter in parameters)
        loss.backward()
        return loss

    first = optimizer.step(closure)
    assert optimizer.step(closure) < first


@pytest.mark.parametrize(
    "settings",
    [{"lr": -1.0}, {"eps": 0.0}, {"weight_decay": -0.1}, {"betas": (0.9, 1.0)}],
    ids=str,
)
@pytest.mark.parametrize("kind", OURS)
def test_impossible_settings_are_refused(kind, settings):
    with pytest.raises(ValueError, match="must be at least 0"):
        OURS[kind](make_parameters(), **settings)


def test_an_unknown_optimizer_is_refused_with_the_known_ones():
    with pytest.raises(
        ValueError, match=r"'adamax': must be one of lamb, uncorrected_adamw, adamw"
    ):
        build_optimizer("adamax", [], 0.1, (0.9, 0.99), 1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_keeps_its_groups_rates(name):
    parameters = make_parameters()
    groups = [
        {"params": parameters[:1], "lr": 0.3, "weight_decay": 0.2},
        {"params": parameters[1:], "weight_decay": 0.0},
    ]
    optimizer = build_optimizer(name, groups, 0.1, (0.7, 0.8), 1e-5)
    assert [group["lr"] for group in optimizer.param_groups] == [0.3, 0.1]
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.2, 0.0]
    assert all(group["betas"] == (0.7, 0.8) for group in optimizer.param_groups)
    assert all(group["eps"] == 1e-5 for group in optimizer.param_groups)


def test_clipping_is_tensorflows_without_epsilon_and_torchs_with_it():
    for epsilon in (0.0, 1e-6):
        parameters = make_parameters(torch.float64)
        fill_gradients(parameters, 1, absent={1})
        kept = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in kept])
        norm = clip_gradients(parameters, 0.5, epsilon)
        torch.testing.assert_close(norm, flat.norm(), rtol=1e-14, atol=0.0)
        clipped = torch.cat([gradient.flatten() for gradient in kept])
        expected = flat * 0.5 / (flat.norm() + epsilon)
        torch.testing.assert_close(clipped, expected, rtol=1e-14, atol=0.0)
        assert parameters[1].grad is None
        torchs = make_parameters(torch.float64)
        fill_gradients(torchs, 1, absent={1})
        torch.nn.utils.clip_grad_norm_(torchs, 0.5)
        same = all(
            torch.equal(one.grad, other.grad)
            for one, other in zip(parameters, torchs, strict=True)
            if one.grad is not None
        )
        assert same == (epsilon > 0)


def test_small_and_zero_gradients_are_not_clipped():
    parameters = make_parameters()
    fill_gradients(parameters, 3)
    before = [parameter.grad.clone() for parameter in parameters]
    clip_gradients(parameters, 100.0)
    assert all(torch.equal(p.grad, b) for p, b in zip(parameters, before, strict=True))
    for parameter in parameters:
        parameter.grad.zero_()
    assert clip_gradients(parameters, 1.0) == 0
    assert all((parameter.grad == 0).all() for parameter in parameters)
    assert clip_gradients(make_parameters(), 1.0) == 0
    with pytest.raises(ValueError, match="max_norm 0 must be above 0"):
        clip_gradients(parameters, 0)


def elc_classifier(variant):
    config = ELCBertConfig(
        vocab_size=20,
        hidden_size=32,
        intermediate_size=32,
        num_attention_heads=2,
        layer_order="sf dsf f",
        variant=variant,
    )
    return ELCBertForSequenceClassification(config)


@pytest.mark.parametrize(
    ("unit", "exponents"),
    [
        ("word", {"0.0": 4, "1.0": 3, "1.2": 3, "2.0": 2}),
        ("letter", {"0.0": 7, "1.2": 3, "2.0": 2}),
    ],
)
def test_elcbert_rates_fall_by_word_or_letter(unit, exponents):
    model = elc_classifier("weighted_output")
    names = [name for name, _ in model.named_parameters()]
    factors = compute_layerwise_factors(names, model.config, 0.5, unit)
    assert set(factors) == set(names)
    for name, factor in factors.items():
        for place, exponent in exponents.items():
            word, letter = place.split(".")
            if name.startswith(f"elcbert.encoder.words.{word}.layers.{letter}."):
                assert factor == 0.5**exponent
    encoder = "elcbert.encoder"
    first = next(n for n in names if n.startswith(f"{encoder}.words.1.layers.0."))
    assert factors[f"{encoder}.layer_selections.1.prev_layer_weights"] == factors[first]
    assert factors[f"{encoder}.output_selection.prev_layer_weights"] == 0.5**2
    assert (
        factors["elcbert.embeddings.word_embeddings.weight"]
        == 0.5 ** {"word": 5, "letter": 8}[unit]
    )
    assert factors["classifier.output.weight"] == 1


def test_lvbert_rates_fall_by_letter():
    model = LVBertForSequenceClassification(
        LVBertConfig(vocab_size=20, hidden_size=64, embedding_size=32, layer_order="dsf")
    )
    names = [name for name, _ in model.named_parameters()]
    factors = compute_layerwise_factors(names, model.config, 0.5, "letter")
    assert [factors[f"lvbert.encoder.layers.{i}.layer_norm.weight"] for i in range(3)] == [
        0.5**4,
        0.5**3,
        0.5**2,
    ]
    assert factors["lvbert.embeddings_project.weight"] == 0.5**5
    assert set(compute_layerwise_factors(names, model.config, 1.0).values()) == {1.0}


def test_foreign_units_and_impossible_decays_are_refused():
    config = LVBertConfig()
    with pytest.raises(ValueError, match="unit 'word': lvbert has pair, letter"):
        compute_layerwise_factors([], config, 0.8, "word")
    with pytest.raises(ValueError, match="unit 'pair': elcbert has word, letter"):
        compute_layerwise_factors([], ELCBertConfig(), 0.8, "pair")
    for decay in (0.0, 1.5):
        with pytest.raises(ValueError, match=f"layer-wise decay {decay} must be"):
            compute_layerwise_factors([], config, decay)


def test_groups_hold_every_trained_parameter_once():
    model = elc_classifier("zero")
    model.elcbert.embeddings.requires_grad_(False)
    factors = compute_layerwise_factors((n for n, _ in model.named_parameters()), model.config, 0.9)
    groups = build_parameter_groups(
        model.named_parameters(), select_decay_parameters(model, "elcbert"), 0.1, 2.0, factors
    )
    grouped = [id(parameter) for group in groups for parameter in group["params"]]
    trained = {id(p) for p in model.parameters() if p.requires_grad}
    assert len(grouped) == len(set(grouped))
    assert set(grouped) == trained
    assert len({(group["lr"], group["weight_decay"]) for group in groups}) == len(groups) == 8
    assert max(group["lr"] for group in groups) == 2.0
