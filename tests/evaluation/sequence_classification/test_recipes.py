import dataclasses

import pytest
from transformers import TrainingArguments

from modeling_lvbert.evaluation.model_loading import ModelArguments
from modeling_lvbert.evaluation.sequence_classification.glue import GLUE_TASKS, SYMMETRIC_TASKS
from modeling_lvbert.evaluation.sequence_classification.options import (
    TASK_METRIC,
    FineTuningArguments,
    list_defaults,
)
from modeling_lvbert.evaluation.sequence_classification.recipes import (
    FINE_TUNING_RECIPES,
    SOURCES,
    find_settings,
)
from modeling_lvbert.evaluation.sequence_classification.task_data import TaskArguments
from modeling_lvbert.pretraining.arguments import parse_arguments

KINDS = (ModelArguments, TaskArguments, TrainingArguments, FineTuningArguments)
OPTIONS = {option.name for kind in KINDS for option in dataclasses.fields(kind)}


def parse(tmp_path, *words):
    line = ["--model_name_or_path=x", f"--output_dir={tmp_path}", "--use_cpu", *words]
    return parse_arguments(KINDS, line, None, list_defaults)


@pytest.mark.parametrize("name", FINE_TUNING_RECIPES)
@pytest.mark.parametrize("task", [None, *GLUE_TASKS])
def test_every_setting_is_an_option_with_a_source(name, task, tmp_path):
    settings = find_settings(name, task)
    assert set(settings) <= OPTIONS
    assert {setting.source for setting in settings.values()} <= set(SOURCES)
    line = ["--train_file=a.csv"] if task is None else [f"--task_name={task}"]
    parsed = {}
    for arguments in parse(tmp_path, f"--recipe={name}", *line):
        parsed.update(vars(arguments))
    for option, setting in settings.items():
        assert getattr(parsed[option], "value", parsed[option]) == setting.value, option
    assert task in (None, *SYMMETRIC_TASKS) or "pair_both_orders" not in settings


def test_published_numbers():
    def values(name, task):
        return {option: setting.value for option, setting in find_settings(name, task).items()}

    assert values("lvbert-small", "cola")["learning_rate"] == 3e-4
    assert values("lvbert-medium", "cola")["learning_rate"] == 3e-4
    assert values("lvbert-base", "cola")["learning_rate"] == 1e-4
    epochs = {task: values("lvbert-base", task)["num_train_epochs"] for task in GLUE_TASKS}
    assert {task for task, number in epochs.items() if number == 10} == {"rte", "stsb"}
    assert {number for number in epochs.values() if number != 10} == {3}
    patience = {task: values("elcbert", task)["early_stopping_patience"] for task in GLUE_TASKS}
    assert {task for task, number in patience.items() if number == 100} == {
        "mnli", "qqp", "qnli", "sst2",
    }  # fmt: skip
    assert values("ltgbert", "rte")["per_device_train_batch_size"] == 16
    assert values("ltgbert", "mnli")["num_train_epochs"] == 4
    assert values("ltgbert", "cola")["head_learning_rate"] == 1e-3


def test_an_option_that_is_given_overrides_the_recipe(tmp_path):
    _, _, training, method = parse(
        tmp_path, "--task-name=STS-B", "--recipe=lvbert-base", "--learning_rate=5e-5",
        "--layerwise_lr_decay_unit=letter",
    )  # fmt: skip
    assert (training.learning_rate, training.num_train_epochs) == (5e-5, 10.0)
    assert (method.layerwise_lr_decay, method.layerwise_lr_decay_unit) == (0.8, "letter")
    assert method.pair_both_orders


def test_a_file_of_options_may_name_a_recipe(tmp_path):
    path = tmp_path / "options.yaml"
    path.write_text(
        "model_name_or_path: x\ntask_name: rte\nrecipe: lvbert-small\nweight_decay: 0.5\n"
        f"use_cpu: true\noutput_dir: {tmp_path}\n"
    )
    _, _, training, _ = parse_arguments(KINDS, [str(path)], None, list_defaults)
    assert (training.num_train_epochs, training.weight_decay) == (10.0, 0.5)


def test_without_a_recipe_only_the_metric_has_another_default():
    assert list_defaults(["--task_name", "rte"]) == {"metric_for_best_model": TASK_METRIC}


def test_an_unknown_recipe_is_refused(tmp_path):
    with pytest.raises(ValueError, match="recipe 'bert': must be one of lvbert-small, "):
        parse(tmp_path, "--task_name=rte", "--recipe=bert")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"recipe": "bert"}, "recipe 'bert'"),
        ({"layerwise_lr_decay": 0.0}, "layerwise_lr_decay 0.0: must be above 0"),
        ({"layerwise_lr_decay": 1.5}, "at most 1"),
        ({"layerwise_lr_decay_unit": "word"}, "must be one of letter, pair"),
        ({"head_learning_rate": float("nan")}, "head_learning_rate nan"),
        ({"num_trials": 0}, "num_trials 0: must be at least 1"),
        ({"early_stopping_patience": 0}, "early_stopping_patience 0"),
        ({"freeze_encoder": True, "layerwise_lr_decay": 0.8}, "freeze_encoder and layerwise"),
    ],
)
def test_bad_options_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        FineTuningArguments(**fields)
