import json
import shlex

import pytest

from conversion import run_records
from modeling_lvbert.pretraining.arguments import parse_arguments

from .published_runs import METRICS, RUN, STATE, make_result, train, write_json


def words(command):
    python, script, *flags = shlex.split(command.replace("\\\n", " "))
    assert python == "python"
    return script, flags


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("/home/ada/corpus.txt", "corpus.txt"),
        ("C:\\Users\\ada\\corpus.txt", "corpus.txt"),
        ("./runs/a", "a"),
        ("~/a/b.txt", "b.txt"),
        ("@/home/ada/search", "@search"),
        ("/home/ada/run/", "run"),
        ("/", "folder"),
        ("nyu-mll/glue", "nyu-mll/glue"),
        ("dsf", "dsf"),
        (["/a/b/c", 3], ["c", 3]),
        (3.5, 3.5),
        (None, None),
    ],
)
def test_paths_of_this_machine_become_names(value, expected):
    assert run_records.shorten(value) == expected


def test_a_relative_path_that_is_there_becomes_a_name(tmp_path, monkeypatch):
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "corpus.txt").write_text("")
    monkeypatch.chdir(tmp_path)
    assert run_records.shorten("private/corpus.txt") == "corpus.txt"


def test_a_training_tells_data_length_scores_and_command(tmp_path):
    train(tmp_path)
    record = run_records.read_run(tmp_path, "LVBertForMaskedLM", "user/name")
    assert record.kind == "pre-training"
    assert record.data == ("`corpus.txt` (train_file)",)
    assert {score.metric: score.value for score in record.scores} == {
        "loss": 3.25,
        "masked_accuracy": 0.125,
    }
    assert record.facts["tokens seen in training"] == "4,360"
    assert record.facts["highest learning rate in the log"] == "0.002"
    assert "ada" not in repr(record)
    (command,) = record.commands
    script, flags = words(command)
    assert script == "examples/run_pretraining.py"
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    assert given["--max_steps"] == "6"
    assert given["--max_seq_length"] == "24"
    assert given["--train_file"] == "corpus.txt"


def test_the_command_of_a_training_is_understood_by_its_script(tmp_path):
    from examples.run_pretraining import KINDS

    train(tmp_path, stages=["0.9:128:1", "0.1:512:0.25"], segment=None)
    write_json(
        tmp_path / "run.json",
        {**RUN, "stages": ["0.9:128:1", "0.1:512:0.25"], "replacement_shares": [1.0, 0.0, 0.0]},
    )
    (command,) = run_records.read_run(tmp_path, "LVBertForMaskedLM", "user/name").commands
    model_args, config_args, data_args, _, training_args = parse_arguments(
        KINDS, words(command)[1], None
    )
    assert data_args.stages == ["0.9:128:1", "0.1:512:0.25"]
    assert data_args.replacement_shares == [1.0, 0.0, 0.0]
    assert config_args.hidden_size == 32
    assert model_args.model_size == "tiny"
    assert training_args.per_device_train_batch_size == 4


def test_the_command_of_a_search_is_understood_by_its_script(tmp_path):
    from examples.run_search import KINDS

    train(tmp_path, layer_order="sfsf")
    record = run_records.read_run(tmp_path, "LVBertForMaskedLM", "user/name", "run_search")
    command = run_records.make_search_command(record, make_result("dsf", "lvbert"), STATE)
    script, flags = words(command)
    assert script == "examples/run_search.py"
    *_, config_args, _, _, search_args, training_args = parse_arguments(KINDS, flags, None)
    assert config_args.layer_order is None
    assert search_args.num_generations == 3
    assert search_args.letter_counts is None
    assert training_args.seed == 42


FINE_TUNING = {
    "do_train": True,
    "learning_rate": 5e-05,
    "max_seq_length": 32,
    "model_name_or_path": "/home/ada/model",
    "seed": 42,
    "train_file": "/home/ada/train.jsonl",
}


@pytest.mark.parametrize(
    ("head", "script"),
    [
        ("ForSequenceClassification", "examples/run_glue.py"),
        ("ForTokenClassification", "examples/run_tagging.py"),
        ("ForQuestionAnswering", "examples/run_qa.py"),
    ],
)
def test_a_fine_tuning_is_scored_by_the_script_of_its_head(tmp_path, head, script):
    write_json(tmp_path / "fine_tuning.json", FINE_TUNING)
    write_json(tmp_path / "eval_results.json", {"eval_accuracy": 0.75, "eval_samples": 16})
    record = run_records.read_run(tmp_path, f"ELCBert{head}", "user/name")
    assert record.kind == "fine-tuning"
    assert [score.metric for score in record.scores] == ["accuracy"]
    assert record.scores[0].data == "a validation file whose name was not recorded"
    (command,) = record.commands
    assert words(command)[0] == script
    assert "ada" not in command


def test_several_trials_give_their_mean(tmp_path):
    write_json(tmp_path / "fine_tuning.json", {**FINE_TUNING, "task_name": "cola"})
    write_json(tmp_path / "all_results.json", {"mean": {"eval_f1": 0.5}, "num_trials": 5})
    (score,) = run_records.read_run(tmp_path, "LVBertForSequenceClassification", "a/b").scores
    assert (score.metric, score.value) == ("f1", 0.5)
    assert "cola" in score.data and "mean of 5 trials" in score.data


def test_minimal_pairs_scored_into_the_folder_are_found(tmp_path):
    tally = {"accuracy": 0.6, "ties": 0, "pairs": 67000}
    content = {
        "overall": tally,
        "by_field": {},
        "by_term": {},
        "by_paradigm": {},
        "settings": {
            "model_name_or_path": "/home/ada/model",
            "model_revision": None,
            "blimp_dir": "/home/ada/blimp",
            "metric": "pll",
        },
    }
    write_json(tmp_path / "pairs.json", content)
    write_json(tmp_path / "list.json", [1])
    record = run_records.read_run(tmp_path, "LVBertForMaskedLM", "user/name")
    (score,) = record.scores
    assert (score.metric, score.value) == ("minimal_pair_accuracy", 0.6)
    assert score.data == "blimp, 67,000 minimal pairs, pll"
    script, flags = words(record.commands[0])
    assert script == "examples/run_blimp.py"
    assert flags[flags.index("--model_name_or_path") + 1] == "user/name"
    assert "ada" not in repr(record)


def test_a_recipe_keeps_its_sources(tmp_path):
    train(tmp_path)
    settings = {"learning_rate": {"value": 0.0005, "source": "C", "note": ""}}
    write_json(tmp_path / "recipe.json", {"recipe": "lvbert", "settings": settings})
    record = run_records.read_run(tmp_path, "LVBertForMaskedLM", "user/name")
    assert record.recipe == settings


def test_without_records_nothing_is_claimed(tmp_path):
    record = run_records.read_run(tmp_path, "LVBertForMaskedLM", "user/name")
    assert record == run_records.RunRecord()


def test_a_damaged_record_is_an_error(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(METRICS)[:-3])
    with pytest.raises(ValueError, match=r"run.json' cannot be read"):
        run_records.read_run(tmp_path, "LVBertForMaskedLM", "user/name")
