"""The comparison trains every contender alike, and shows what its runs have measured."""

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from modeling_lvbert import LVBertConfig
from modeling_lvbert.layer_order import join_letters

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPT = EXAMPLES / "compare_pretraining.py"
# Stands for run_pretraining.py: answers with its seed, and counts its starts.
STAND_IN = """
import json, sys
from pathlib import Path
options = sys.argv[1:]
folder = Path(options[-1].removeprefix("--output_dir="))
seed = int(options[-2].removeprefix("--seed="))
if "--fail" in options and folder.name.startswith("base"):
    sys.exit("error: no such thing")
folder.mkdir(exist_ok=True)
with (folder / "starts").open("a") as file:
    file.write("x")
sum(range(10**6))
scores = {"eval_loss": seed, "eval_unigram_entropy": 6.0, "num_parameters": 12345}
log = [{"step": step, "loss": 7.0 / step} for step in (1, 2)] + [{"step": 2, "eval_loss": seed}]
if "electra" in options:
    log[:2] = [{**e, "generator_loss": 5.0, "discriminator_loss": 0.4} for e in log[:2]]
    scores |= {"eval_generator_loss": 5.0, "eval_discriminator_loss": 0.4,
               "eval_detection_accuracy": 0.9, "eval_detection_recall": 0.0,
               "eval_detection_precision": 0.0}
(folder / "eval_results.json").write_text(json.dumps(scores))
(folder / "trainer_state.json").write_text(json.dumps({"log_history": log}))
"""


def load(path=SCRIPT):
    spec = importlib.util.spec_from_file_location("example_compare_pretraining", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def script(tmp_path, monkeypatch):
    """The script with three contenders, beside a stand-in of run_pretraining.py."""
    folder = tmp_path / "examples"
    folder.mkdir()
    (folder / "run_pretraining.py").write_text(STAND_IN)
    module = load(shutil.copy(SCRIPT, folder))
    few = {name: module.CONTENDERS[name] for name in ("published", "zero", "base")}
    monkeypatch.setattr(module, "CONTENDERS", few)
    return module


def count_starts(folder):
    return sorted(len(path.read_text()) for path in folder.glob("*/starts"))


def test_contenders_differ_in_what_is_compared_alone():
    contenders = {name: shlex.split(text) for name, text in load().CONTENDERS.items()}
    groups = (("--layer_order", ("published", "interleaved")), ("--variant", contenders))
    seen = set()
    for option, names in groups:
        group = {name: contenders[name] for name in names if name not in seen}
        seen |= set(group)
        values = set()
        for words in group.values():
            index = words.index(option)
            values.add(words[index + 1])
            del words[index : index + 2]
        assert len(values) == len(group)
        assert len({tuple(words) for words in group.values()}) == 1


def test_the_published_order_meets_as_many_interleaved_layers():
    published, interleaved = (
        shlex.split(load().CONTENDERS[name])[-1] for name in ("published", "interleaved")
    )
    assert published == join_letters(LVBertConfig().layer_order)
    assert interleaved == "sf" * (len(published) // 2)


def test_a_second_start_trains_nothing_and_shows_the_same(script, tmp_path, capsys):
    folder = tmp_path / "runs"
    arguments = [f"--output_dir={folder}", "--jobs=2", "--seeds", "3"]
    script.run(arguments)
    first = capsys.readouterr().out
    assert count_starts(folder) == [1, 1, 1]
    script.run(arguments)
    assert capsys.readouterr().out == first
    assert count_starts(folder) == [1, 1, 1]
    (folder / "zero-3.json").unlink()
    script.run(arguments)
    assert count_starts(folder) == [1, 1, 2]
    with pytest.raises(SystemExit, match=r"^error: .*-3\.json' has other options: [^\n]*$"):
        script.run([*arguments, "--max_steps=9"])


def test_means_deviations_and_processor_time_are_shown(script, tmp_path, capsys):
    folder = tmp_path / "runs"
    script.run([f"--output_dir={folder}", "--seeds", "1", "2", "3"])
    tables = capsys.readouterr().out
    assert (folder / "table.md").read_text() == tables[1:]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in tables.splitlines()]
    assert [row[0] for row in rows if row[0] in script.CONTENDERS] == list(script.CONTENDERS)
    assert ["model", "num parameters", "loss", "unigram entropy", "processor minutes"] in rows
    assert ["base", "12,345", "2.000 ± 1.000", "6.000"] in [row[:4] for row in rows]
    results = json.loads((folder / "results.json").read_text())
    assert [run["loss"] for run in results["base"]] == [1, 2, 3]
    assert all(0 < run["processor_minutes"] < 1 for run in results["base"])
    assert (folder / "curves.png").is_file() == bool(find_spec("matplotlib"))


@pytest.mark.parametrize(("found", "false_alarms"), [(0, 0), (30, 0), (30, 7), (120, 200)])
def test_the_majority_share_is_that_of_original_tokens(script, tmp_path, found, false_alarms):
    real, replaced = 1000, 130
    scores = {
        "eval_loss": 1.0,
        "eval_detection_accuracy": 1 - (replaced - found + false_alarms) / real,
        "eval_detection_recall": found / replaced,
        "eval_detection_precision": found / max(1, found + false_alarms),
    }
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "eval_results.json").write_text(json.dumps(scores))
    (tmp_path / "x.json").write_text('{"processor_seconds": 60}')
    run = script.read_run(tmp_path / "x")
    assert run["majority_share"] == pytest.approx(1 - replaced / real)


def test_a_failed_run_is_one_line_and_the_others_are_kept(script, tmp_path):
    folder = tmp_path / "runs"
    with pytest.raises(SystemExit, match=r"^error: run 'base-1' failed, [^\n]*no such thing$"):
        script.run([f"--output_dir={folder}", "--seeds", "1", "--fail"])
    assert (folder / "zero-1.json").is_file()
    assert not (folder / "base-1.json").exists()


def test_no_jobs_are_refused(script, tmp_path):
    with pytest.raises(SystemExit, match="^error: .*greater than 0"):
        script.run([f"--output_dir={tmp_path / 'runs'}", "--jobs=0"])


def test_a_search_brings_its_own_contenders(script, tmp_path):
    search, folder = tmp_path / "search", tmp_path / "runs"
    search.mkdir()
    orders = {"best": "sd f", "interleaved": "sf s"}
    baselines = {"interleaved": {"order": orders["interleaved"], "loss": 5.0}}
    result = {"best_order": orders["best"], "baselines": baselines}
    (search / "search_result.json").write_text(json.dumps(result))
    script.run([f"--output_dir={folder}", "--search", str(search), "--seeds", "4", "--max_steps=7"])
    assert list(json.loads((folder / "results.json").read_text())) == list(orders)
    for name, order in orders.items():
        options = json.loads((folder / f"{name}-4.json").read_text())["options"]
        assert options[options.index("--layer_order") + 1] == order
        assert "--max_steps=7" in options


@pytest.mark.parametrize("content", ["{", "[]", '{"best_order": "sf"}'])
def test_a_damaged_search_is_refused_before_any_run(script, tmp_path, content):
    (tmp_path / "search_result.json").write_text(content)
    with pytest.raises(SystemExit, match=r"^error: search .* is not a search's result$"):
        script.run([f"--output_dir={tmp_path / 'runs'}", f"--search={tmp_path}"])
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_every_contender_trains_on_the_text_that_comes_with_python(tmp_path):
    folder = tmp_path / "runs"
    result = subprocess.run(
        [sys.executable, str(SCRIPT), "--max_steps=2", "--logging_steps=1", "--vocab_size=500",
         "--jobs=2", "--seeds", "1", f"--output_dir={folder}"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONWARNINGS": "default"},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    results = json.loads((folder / "results.json").read_text())
    assert list(results) == list(load().CONTENDERS)
    assert all(name in result.stdout for name in results)
    for (run,) in results.values():
        assert run["processor_minutes"] > 0
        # After two steps a model knows less than the frequencies.
        assert run.get("generator_loss", run.get("loss")) > run["unigram_entropy"] - 0.1
    for name in ("published", "interleaved"):
        assert 0.8 < results[name][0]["majority_share"] < 1
