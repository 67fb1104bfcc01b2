"""The recipes are complete, sourced, buildable, and yield to options."""

import json
import math

import pytest
import torch
from transformers import TrainingArguments

from modeling_lvbert import ELCBertConfig, LVBertConfig
from modeling_lvbert.pretraining.arguments import (
    ConfigArguments,
    DataArguments,
    ModelArguments,
    parse_arguments,
)
from modeling_lvbert.pretraining.optimization import build_optimizer
from modeling_lvbert.pretraining.recipes import (
    RECIPES,
    SETTINGS,
    SOURCES,
    Setting,
    describe_effective,
    get_recipe,
    list_option_defaults,
    list_values,
    override_recipe,
    write_effective_recipe,
)
from modeling_lvbert.pretraining.schedules import build_schedule
from modeling_lvbert.pretraining.stages import Stage
from modeling_lvbert.pretraining.trainer import OptimizationSettings

KINDS = (ModelArguments, ConfigArguments, DataArguments, OptimizationSettings, TrainingArguments)

CONFIGS = {"lvbert": LVBertConfig, "elcbert": ELCBertConfig}


def test_the_published_recipes_are_there():
    assert set(RECIPES) == {
        "lvbert-small",
        "lvbert-medium",
        "lvbert-base",
        "elcbert-strict-small",
        "elcbert-strict",
        "ltg-bnc",
    }


@pytest.mark.parametrize("name", RECIPES)
def test_every_setting_is_there_with_a_source(name):
    recipe = get_recipe(name)
    assert set(recipe) == set(SETTINGS)
    for setting in recipe.values():
        assert isinstance(setting, Setting)
        assert setting.source in set(SOURCES) - {"option"}
        assert setting.note or setting.source in ("C", "ours")


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_builds_its_model_configuration_optimizer_and_schedule(name):
    values = list_values(get_recipe(name))
    family = CONFIGS[values["model_family"]]
    fields = set(family.__dataclass_fields__)
    config = family.from_size(
        values["model_size"], **{key: value for key, value in values.items() if key in fields}
    )
    assert config.vocab_size == values["vocab_size"]
    assert (
        values["optimizer"]
        == {"lvbert": "uncorrected_adamw", "elcbert": "lamb"}[values["model_family"]]
    )
    optimizer = build_optimizer(
        values["optimizer"],
        [{"params": [torch.nn.Parameter(torch.ones(2))]}],
        values["learning_rate"],
        (values["adam_beta1"], values["adam_beta2"]),
        values["adam_epsilon"],
    )
    num_warmup_steps = values["max_steps"] * values["warmup_steps"]
    schedule = build_schedule(
        optimizer,
        values["schedule"],
        values["max_steps"],
        num_warmup_steps,
        power=values.get("schedule_power", 1.0),
        min_factor=values.get("min_factor", 0.1),
    )
    assert schedule.get_last_lr() == [0.0]
    assert num_warmup_steps == pytest.approx(round(num_warmup_steps))


@pytest.mark.parametrize("name", RECIPES)
def test_shares_and_stages_add_up(name):
    values = list_values(get_recipe(name))
    assert math.isclose(sum(stage.fraction for stage in values["stages"]), 1.0)
    assert math.isclose(sum(values["replacement_shares"]), 1.0)
    first = values["stages"][0]
    for stage in values["stages"]:
        rows = values["global_batch_size"] * stage.batch_factor
        assert rows == int(rows)
        # The longer rows of a later stage are so many fewer: a step has as many tokens as before.
        assert rows * stage.max_seq_length == (values["global_batch_size"] * first.max_seq_length)


def test_published_numbers():
    """What facts of the papers and of their code name, once more and apart from the table."""
    expected = {
        "lvbert-small": ("small", 128, 1_000_000, 5e-4, 0.01, 1.0, 0.25),
        "lvbert-medium": ("medium", 128, 1_000_000, 5e-4, 0.01, 1.0, 1 / 3),
        "lvbert-base": ("base", 256, 1_000_000, 2e-4, 0.01, 1.0, 1 / 3),
        "elcbert-strict-small": ("small", 8192, 31_250, 1e-2, 0.1, 2.0, None),
        "elcbert-strict": ("base", 32768, 15_625, 1e-2, 0.1, 2.0, None),
        "ltg-bnc": ("base", 32768, 31_250, 1e-2, 0.1, 2.0, None),
    }
    names = (
        "model_size",
        "global_batch_size",
        "max_steps",
        "learning_rate",
        "weight_decay",
        "max_grad_norm",
        "generator_size",
    )
    for recipe, values in expected.items():
        assert tuple(RECIPES[recipe][name].value for name in names) == values
    variants = {name: RECIPES[name]["variant"].value for name in expected}
    assert variants["elcbert-strict-small"] == "base"
    assert variants["elcbert-strict"] == "zero"
    assert variants["ltg-bnc"] == "ltg"
    steps = {name: values[2] for name, values in expected.items()}
    warmups = {n: steps[n] * RECIPES[n]["warmup_steps"].value for n in expected}
    assert [round(warmups[name]) for name in expected] == [10_000] * 3 + [500, 250, 500]


def test_options_override_and_say_so():
    recipe = get_recipe("lvbert-small")
    changed = override_recipe(
        recipe, {"learning_rate": 1e-3, "max_steps": 1_000_000, "seed": None, "warmup_steps": 0}
    )
    assert changed["learning_rate"] == Setting(1e-3, "option", "the recipe has 0.0005")
    assert changed["warmup_steps"].value == 0
    assert changed["max_steps"] == recipe["max_steps"]
    assert changed["seed"] == recipe["seed"]
    assert set(changed) == set(SETTINGS)
    assert get_recipe("lvbert-small")["learning_rate"].value == 5e-4


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"'lvbert-large': must be one of lvbert-small, .*ltg-bnc"):
        get_recipe("lvbert-large")
    with pytest.raises(ValueError, match=r"recipes have no learn_rate; settings: model_family,"):
        override_recipe(get_recipe("ltg-bnc"), {"learn_rate": 1.0})


@pytest.mark.parametrize("name", RECIPES)
def test_the_effective_recipe_is_written_whole(name, tmp_path):
    recipe = override_recipe(get_recipe(name), {"max_steps": 7})
    path = tmp_path / "recipe.json"
    path.write_text("an earlier one", encoding="utf-8")
    write_effective_recipe(path, name, recipe)
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["recipe"] == name
    assert set(written["settings"]) == set(SETTINGS)
    assert written["settings"]["max_steps"]["value"] == 7
    assert written["settings"]["max_steps"]["source"] == "option"
    rate = RECIPES[name]["learning_rate"]
    assert written["settings"]["learning_rate"] == rate._asdict()
    assert [file.name for file in tmp_path.iterdir()] == ["recipe.json"]


def test_a_recipe_that_cannot_be_written_leaves_the_earlier_file(tmp_path):
    path = tmp_path / "recipe.json"
    path.write_text("an earlier one", encoding="utf-8")
    recipe = get_recipe("ltg-bnc") | {"seed": Setting(object(), "ours")}
    with pytest.raises(TypeError):
        write_effective_recipe(path, "ltg-bnc", recipe)
    assert path.read_text(encoding="utf-8") == "an earlier one"


@pytest.mark.parametrize("name", RECIPES)
def test_every_setting_of_a_recipe_is_an_option(name):
    options = list_option_defaults(name, has_accelerator=False)
    parsed = parse_arguments(KINDS, ["--recipe", name, "--output_dir", "unused"], None)
    values = {key: value for part in parsed for key, value in vars(part).items()}
    assert {key: values[key] for key in options} == options
    effective = describe_effective(name, values)
    changed = {key for key, setting in effective.items() if setting.source == "option"}
    assert changed <= {"precision"}
    shorter = describe_effective(name, {**values, "max_seq_length": 64})
    assert shorter["stages"].source == "option"
    assert shorter["stages"].value == (Stage(1.0, 64, 1.0),)


def test_an_option_overrides_the_recipe_and_is_recorded_as_one():
    arguments = ["--recipe=lvbert-small", "--learning_rate=1e-3", "--output_dir=unused"]
    parsed = parse_arguments(KINDS, arguments, None)
    values = {key: value for part in parsed for key, value in vars(part).items()}
    assert (values["learning_rate"], values["max_steps"]) == (1e-3, 1_000_000)
    effective = describe_effective("lvbert-small", values)
    assert effective["learning_rate"].source == "option"
    assert effective["max_steps"].source == "C"


def test_half_precision_comes_with_an_accelerator_only():
    assert list_option_defaults("elcbert-strict", True)["fp16"] is True
    assert "fp16" not in list_option_defaults("elcbert-strict", False)
