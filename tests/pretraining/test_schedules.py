"""The learning-rate schedules have the originals' recorded values."""

import math

import pytest
import torch

from modeling_lvbert.pretraining.schedules import SCHEDULES, build_schedule, compute_factor
from tests.original_checkpoints import GOLDENS, read_arrays, read_json

COSINES = ("small", "official_defaults", "no_warmup")
# Peak rate, steps and warm-up of the recorded cases: LV-BERT's pre-training and fine-tuning
# defaults, and a run without warm-up.
LINEAR = {
    "official_small": (5e-4, 1_000_000, 10_000),
    "finetune": (3e-4, 803, 0.1 * 803),
    "warmup_zero": (1e-3, 100, 0),
}


@pytest.mark.parametrize("case", COSINES)
def test_against_original_cosine_schedule(case):
    recorded = read_json(GOLDENS / "elc_optim_and_masking" / "lamb_and_schedule.json")
    settings = recorded["cosine_schedule"][case]
    for step, rate in zip(settings["steps"], settings["lr"], strict=True):
        factor = compute_factor(
            step,
            "cosine",
            settings["num_training_steps"],
            settings["num_warmup_steps"],
            min_factor=settings["min_factor"],
        )
        assert settings["base_lr"] * factor == pytest.approx(rate, abs=1e-12, rel=0)


@pytest.mark.parametrize("case", LINEAR)
def test_against_original_linear_schedule(case):
    peak, num_steps, num_warmup_steps = LINEAR[case]
    recorded = read_arrays(GOLDENS / "lvbert_optimizer" / "outputs.npz")
    steps = recorded[f"schedule/{case}/step"].tolist()
    rates = recorded[f"schedule/{case}/lr"].tolist()
    for step, rate in zip(steps, rates, strict=True):
        factor = compute_factor(step, "linear", num_steps, num_warmup_steps)
        # The recorded run subtracts in float32: it ends within 2^-24 of the peak from 0.
        assert peak * factor == pytest.approx(rate, abs=peak * 2**-23, rel=1e-7)


def test_against_original_linear_schedule_of_a_run():
    recorded = read_arrays(GOLDENS / "lvbert_optimizer" / "outputs.npz")["full/base_lr"]
    rates = [0.01 * compute_factor(step, "linear", 8, 2.0) for step in range(5)]
    assert rates == pytest.approx(recorded.tolist(), rel=1e-7)


def walk(name, num_steps, **settings):
    parameter = torch.nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.SGD([{"params": [parameter], "lr": 3.0}])
    schedule = build_schedule(optimizer, name, num_steps, **settings)
    rates = []
    for _ in range(num_steps + 1):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return rates


def test_linear_falls_from_the_first_step_on_to_zero():
    assert walk("linear", 4, num_warmup_steps=2) == pytest.approx([0, 1.125, 1.5, 0.75, 0])
    assert walk("linear", 4) == pytest.approx([3, 2.25, 1.5, 0.75, 0])


def test_polynomial_is_linear_to_a_power():
    linear = walk("linear", 6)
    assert walk("polynomial", 6, power=2.0) == pytest.approx([rate**2 / 3 for rate in linear])
    assert walk("polynomial", 6) == linear
    assert walk("linear", 6, power=2.0) == linear


def test_cosine_ends_at_the_lowest_factor_and_constant_stays():
    rates = walk("cosine", 10, num_warmup_steps=2, min_factor=0.1)
    assert rates[:3] == pytest.approx([0, 1.5, 3])
    assert rates[6] == pytest.approx(3 * 0.55)
    assert rates[-1] == pytest.approx(0.3)
    assert rates[2:] == sorted(rates[2:], reverse=True)
    assert walk("constant", 5, num_warmup_steps=2) == pytest.approx([0, 1.5, 3, 3, 3, 3])


def test_every_group_keeps_its_share_of_the_rate():
    parameters = [torch.nn.Parameter(torch.zeros(())) for _ in range(2)]
    optimizer = torch.optim.SGD(
        [{"params": [parameters[0]], "lr": 1.0}, {"params": [parameters[1]], "lr": 0.25}]
    )
    schedule = build_schedule(optimizer, "cosine", 20, 3)
    for _ in range(20):
        first, second = (group["lr"] for group in optimizer.param_groups)
        assert second == pytest.approx(first / 4, rel=1e-15)
        optimizer.step()
        schedule.step()


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_step_without_peak_is_finite_for_runs_of_one_step(name):
    for num_warmup_steps in (0, 0.5, 1):
        factors = [compute_factor(step, name, 1, num_warmup_steps) for step in range(3)]
        assert all(math.isfinite(factor) and 0 <= factor <= 1 for factor in factors)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "sawtooth"}, "'sawtooth': must be one of linear, polynomial, cosine, constant"),
        ({"num_training_steps": 0}, "num_training_steps 0"),
        ({"num_warmup_steps": 11}, "num_warmup_steps 11 must be from 0 to num_training_steps 10"),
        ({"num_warmup_steps": -1}, "num_warmup_steps -1"),
        ({"power": 0.0}, "power 0.0 must be above 0"),
        ({"min_factor": 1.5}, "min_factor 1.5 from 0 to 1"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_impossible_schedules_are_refused(settings, message):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(()))], lr=1.0)
    with pytest.raises(ValueError, match=message):
        build_schedule(optimizer, **{"name": "linear", "num_training_steps": 10, **settings})
