import pytest

from modeling_lvbert.evaluation.model_loading import ModelArguments
from modeling_lvbert.evaluation.run_checks import check_best_metric, describe_run, list_splits
from modeling_lvbert.evaluation.split_arguments import SplitArguments
from tests.evaluation.small_tasks import training_arguments

TRAINED = {"do_train": True, "do_eval": True}


def describe(folder, model=(), task=(), **training):
    model_args = ModelArguments("model", **dict(model))
    task_args = SplitArguments(**{"train_file": "a", "validation_file": "b", **dict(task)})
    return describe_run(
        (model_args, task_args),
        training_arguments(folder, **{**TRAINED, **training}),
        scores_only=task_args.SCORES_ONLY,
    )


def test_what_makes_another_model_makes_another_run(tmp_path):
    plain = describe(tmp_path)
    assert plain["learning_rate"] == 1e-2
    for changed in (
        {"model": {"tokenizer_name": "other"}},
        {"task": {"train_file": "other"}},
        {"task": {"max_train_samples": 3}},
        {"weight_decay": 0.5},
        {"lr_scheduler_type": "constant"},
        {"load_best_model_at_end": True, "metric_for_best_model": "f1"},
        {"do_train": False},
    ):
        assert describe(tmp_path, **changed) != plain, changed


def test_what_makes_the_same_model_is_the_same_run(tmp_path):
    plain = describe(tmp_path)
    for changed in (
        {"model": {"token": "secret", "cache_dir": "elsewhere", "trust_remote_code": True}},
        {"task": {"validation_file": "other", "test_file": "c", "max_eval_samples": 3}},
        {"do_predict": True, "lr_scheduler_type": "linear", "per_device_eval_batch_size": 99},
    ):
        assert describe(tmp_path, **changed) == plain, changed
    # Where nothing is trained, the data that is scored is all there is.
    first, second = (
        describe(tmp_path, task={"validation_file": name}, do_train=False) for name in "bc"
    )
    assert first != second
    assert "secret" not in str(describe(tmp_path, model={"token": "secret"}))


def test_splits_are_those_that_are_asked_for(tmp_path):
    asked = training_arguments(tmp_path, do_predict=True, do_train=True)
    assert list_splits(asked) == ["train", "test"]
    with pytest.raises(ValueError, match="nothing to do"):
        list_splits(training_arguments(tmp_path))


def test_a_metric_that_there_is_not_is_refused(tmp_path):
    arguments = training_arguments(tmp_path, metric_for_best_model="eval_f1")
    check_best_metric(arguments, ["loss", "f1"])
    check_best_metric(training_arguments(tmp_path), ["loss"])
    with pytest.raises(ValueError, match="metric_for_best_model 'eval_f1': must be one of loss"):
        check_best_metric(arguments, ["loss"])
