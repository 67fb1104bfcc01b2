"""The search from the command line: what it leaves, and that nothing changes its result."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from modeling_lvbert import ELCBertForMaskedLM, LVBertForMaskedLM, LVBertForPreTraining

from .test_examples import EXAMPLES, PARAGRAPHS, QUIET, load, read, run_script

SIZES = [
    "--model_size=tiny", "--hidden_size=16", "--num_attention_heads=2", "--intermediate_size=32",
    "--vocab_size=300", "--max_seq_length=24", "--per_device_train_batch_size=4",
    "--max_steps=6", "--save_strategy=no", "--num_layers=4", "--population_size=6",
    "--num_generations=3", "--num_parents=2", "--num_scoring_rows=8", "--num_random_baselines=2",
]  # fmt: skip
KINDS = {
    "lvbert": ["--model_family=lvbert"],
    "electra": ["--model_family=lvbert", "--objective=electra", "--packing=segment_pairs"],
    "elcbert": ["--model_family=elcbert", "--path_sampling=strict", "--fitness=loss"],
    "several": ["--model_family=lvbert", "--num_supernets=2"],
}
SEARCH_ALONE = ("--path", "--fitness", "--vocab", "--num_supernets")


@pytest.fixture(scope="module")
def corpus_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n\n".join(PARAGRAPHS) + "\n")
    return path


def search_flags(corpus_file, folder, kind, *more):
    return [*KINDS[kind], *SIZES, f"--train_file={corpus_file}", f"--output_dir={folder}", *QUIET,
            *more]  # fmt: skip


@pytest.fixture(scope="module", params=KINDS)
def searched(request, corpus_file, tmp_path_factory):
    """A finished search of each kind."""
    folder = tmp_path_factory.mktemp(request.param) / "run"
    load("run_search").run(search_flags(corpus_file, folder, request.param))
    return request.param, folder


def test_a_search_leaves_all_its_artefacts(searched, corpus_file, capsys):
    kind, folder = searched
    result = read(folder, "search_result")
    lines = (folder / "history.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    assert len({entry["order"] for entry in entries}) == len(entries) == result["evaluated"] == 18
    assert {entry["generation"] for entry in entries} == {0, 1, 2}
    key = "loss" if kind == "elcbert" else "accuracy"
    values = [entry["metrics"][key] for entry in entries]
    best = next(entry for entry in entries if entry["order"] == result["best_order"])
    assert best["metrics"][key] == (min(values) if key == "loss" else max(values))
    assert best["metrics"] == result["fitness"]
    assert set(result["baselines"]) == {
        "interleaved", "sandwich", "random_1", "random_2", "runner_up",
    }  # fmt: skip
    assert result["seed"] == 42
    assert result["settings"]["num_layers"] == 4
    for name in ("fitness_by_generation", "letters_by_depth", "fitness_against_parameters"):
        assert (folder / "figures" / f"{name}.png").is_file()
    assert not any(str(folder) in line for line in lines)
    assert str(folder) not in (folder / "search_result.json").read_text()
    # Again: nothing is done anew, and the table is printed.
    before = (folder / "history.jsonl").stat().st_mtime_ns
    load("run_search").run(search_flags(corpus_file, folder, kind))
    assert (folder / "history.jsonl").stat().st_mtime_ns == before
    assert read(folder, "search_result") == result
    printed = capsys.readouterr().out
    assert f"| best | `{result['best_order']}` |" in printed
    assert f"18 orders were scored on {result['scored_rows']} rows" in printed
    assert 0 < result["scored_rows"] <= 8


def test_the_best_order_is_an_ordinary_folder_with_the_inherited_weights(searched):
    kind, folder = searched
    result = read(folder, "search_result")
    supernet = load_file(folder / "supernet" / "model.safetensors")
    families = {"electra": LVBertForPreTraining, "elcbert": ELCBertForMaskedLM}
    model = families.get(kind, LVBertForMaskedLM).from_pretrained(folder / "best")
    assert model.config.layer_order == result["best_order"]
    if kind == "electra":
        generator = LVBertForMaskedLM.from_pretrained(folder / "best" / "generator")
        assert generator.config.layer_order == result["best_order"]
        prefix, layer = "discriminator.lvbert", model.lvbert.encoder.layers[1]
    elif kind != "elcbert":
        prefix, layer = "lvbert", model.lvbert.encoder.layers[1]
    else:
        words = result["best_order"].split()
        prefix = "elcbert"
        word, place = (0, 1) if len(words[0]) > 1 else (1, 0)
        layer = model.elcbert.encoder.words[word].layers[place]
    letter = result["best_order"].replace(" ", "")[1]
    for name, weight in layer.state_dict().items():
        key = f"{prefix}.encoder.positions.1.{letter}.{name}"
        assert torch.equal(weight, supernet[key])


def test_the_winner_is_trained_from_scratch_and_from_its_inherited_weights(
    searched, corpus_file, tmp_path
):
    kind, folder = searched
    flags = [
        *KINDS[kind][:3], *SIZES[:6], "--per_device_train_batch_size=4", "--max_steps=1",
        "--save_strategy=no", f"--train_file={corpus_file}", *QUIET,
    ]  # fmt: skip
    flags = [flag for flag in flags if not flag.startswith(SEARCH_ALONE)]
    order = read(folder, "search_result")["best_order"]
    scratch = [f"--layer_order=@{folder}", f"--tokenizer_name={folder / 'best'}"]
    inherited = [f"--model_name_or_path={folder / 'best'}", "--learning_rate=1e-12"]
    for name, more in (("scratch", scratch), ("inherited", inherited)):
        load("run_pretraining").run([*flags, *more, f"--output_dir={tmp_path / name}"])
        assert read(tmp_path / name, "config")["layer_order"] == order
        assert read(tmp_path / name, "run")["layer_order"] == order
    # So short a step leaves the inherited weights as they are.
    for file in ("model.safetensors", "generator/model.safetensors"):
        if (folder / "best" / file).is_file():
            expected = load_file(folder / "best" / file)
            weights = load_file(tmp_path / "inherited" / file)
            assert weights.keys() == expected.keys()
            assert all(torch.allclose(weights[n], expected[n], atol=1e-9) for n in weights)
            other = load_file(tmp_path / "scratch" / file)
            assert not all(torch.allclose(other[n], expected[n], atol=1e-9) for n in other)


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_search_ends_with_the_same_result(corpus_file, searched, tmp_path, kind):
    name, finished = searched
    if name != kind:
        pytest.skip("the other kinds have their own turn")
    whole = (finished / "history.jsonl").read_bytes()
    expected = read(finished, "search_result")
    lines = whole.splitlines(keepends=True)
    # Nothing scored, within a generation, at its end, within a line.
    for number, content in enumerate(
        (b"", b"".join(lines[:4]), b"".join(lines[:6]), b"".join(lines[:9]) + lines[9][:20])
    ):
        folder = tmp_path / f"cut-{number}"
        shutil.copytree(finished / "supernet", folder / "supernet")
        (folder / "history.jsonl").write_bytes(content)
        load("run_search").run(search_flags(corpus_file, folder, kind))
        assert (folder / "history.jsonl").read_bytes() == whole
        assert read(folder, "search_result") == expected


def test_a_search_killed_at_once_ends_with_the_same_result(corpus_file, tmp_path):
    """A real kill, while the supernet trains and while orders are scored."""
    script = EXAMPLES / "run_search.py"
    more = ["--max_steps=8", "--save_strategy=steps", "--save_steps=2"]
    load("run_search").run(search_flags(corpus_file, tmp_path / "whole", "lvbert", *more))
    flags = search_flags(corpus_file, tmp_path / "killed", "lvbert", *more)
    for patch in (
        "import modeling_lvbert.search.supernet_trainer as t\n"
        "old = t.PathMixin.training_step\n"
        "def step(self, *args):\n"
        "    if self.state.global_step == 5: os.kill(os.getpid(), 9)\n"
        "    return old(self, *args)\n"
        "t.PathMixin.training_step = step\n",
        "import modeling_lvbert.search.history as h\n"
        "old = h.History.add\n"
        "def add(self, entries, *args):\n"
        "    old(self, entries, *args)\n"
        "    if len(self) > 8: os.kill(os.getpid(), 9)\n"
        "h.History.add = add\n",
    ):
        code = (
            f"import os, sys, runpy\n{patch}"
            f"sys.argv = {[str(script), *flags]!r}\n"
            "runpy.run_path(sys.argv[0], run_name='__main__')"
        )
        killed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        assert killed.returncode == -9, killed.stderr
    load("run_search").run(flags)
    assert read(tmp_path / "killed", "search_result") == read(tmp_path / "whole", "search_result")
    names = [(tmp_path / run / "history.jsonl").read_bytes() for run in ("whole", "killed")]
    assert names[0] == names[1]


@pytest.mark.slow
def test_the_number_of_processes_changes_no_result(corpus_file, tmp_path):
    """Candidates are spread over two processes, the supernet being the same."""
    more = ["--save_strategy=steps", "--save_steps=6"]
    load("run_search").run(search_flags(corpus_file, tmp_path / "one", "electra", *more))
    shutil.copytree(tmp_path / "one" / "supernet", tmp_path / "two" / "supernet")
    # A finished supernet is not trained again.
    launcher = ["-m", "torch.distributed.run", "--nproc_per_node=2", "--master_port=29611"]
    flags = search_flags(corpus_file, tmp_path / "two", "electra", *more)
    ended = run_script("run_search", *flags, launcher=launcher)
    assert ended.returncode == 0, ended.stderr
    for name in ("history.jsonl", "search_result.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_limits_and_several_objectives(corpus_file, tmp_path):
    flags = [
        *search_flags(corpus_file, tmp_path / "run", "lvbert"), "--objectives", "fitness",
        "parameters", "latency", "--letter_counts", "s:1", "f:2", "d:1",
    ]  # fmt: skip
    load("run_search").run(flags)
    result = read(tmp_path / "run", "search_result")
    front = result["front"]
    assert result["best_order"] in [entry["order"] for entry in front]
    assert result["latency_error"] >= 0
    assert result["evaluated"] == 12  # all that there are
    assert "search ended" in result["ended"]
    for entry in front:
        assert sorted(entry["order"]) == ["d", "f", "f", "s"]
        assert entry["latency"] != 0
    (tmp_path / "run" / "search_result.json").unlink()
    load("run_search").run(flags)
    # Times are measured once.
    assert read(tmp_path / "run", "search_result") == result


def test_the_rank_check_trains_orders_from_scratch(corpus_file, tmp_path, capsys):
    flags = search_flags(
        corpus_file, tmp_path / "run", "lvbert", "--rank_check=4", "--rank_check_steps=2",
        "--rank_check_seeds=2",
    )  # fmt: skip
    load("run_search").run(flags)
    check = read(tmp_path / "run", "rank_check")
    assert len(check["orders"]) == 4
    assert all(len(row["runs"]) == 2 for row in check["orders"])
    assert -1 <= check["all"]["loss"]["low"] <= check["all"]["loss"]["high"] <= 1
    assert "Kendall's tau of 4 orders" in capsys.readouterr().out
    files = sorted((tmp_path / "run" / "rank_check").glob("*.json"))
    assert len(files) == 8
    files[0].unlink()
    load("run_search").run(flags)
    # The missing one was trained again, to the same numbers.
    assert read(tmp_path / "run", "rank_check") == check


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--layer_order=sf"], "layer_order 'sf': the search finds it"),
        (["--num_layers=0"], "num_layers 0"),
        (["--path_sampling=fair"], "path_sampling 'fair'"),
        (["--fitness=auc"], "fitness 'auc'"),
        (["--objectives", "speed"], "objectives"),
        (["--objectives", "parameters"], "fitness must be one of them"),
        (["--letter_counts", "s:1"], "num_layers"),
        (["--letter_counts", "x"], "letter_counts"),
        (["--letter_counts", "equal"], "multiple of 3"),
        (["--max_parameters=-1"], "max_parameters -1"),
        (["--rank_check=2"], "rank_check 2"),
        (["--population_size=0"], "population_size"),
        (["--num_scoring_rows=1"], "num_scoring_rows 1"),
    ],
)
def test_a_bad_option_is_one_line_before_any_work(corpus_file, tmp_path, flags, message):
    with pytest.raises(SystemExit, match=f"error: .*{message}"):
        load("run_search").run(search_flags(corpus_file, tmp_path / "run", "lvbert", *flags))
    assert not (tmp_path / "run").exists()


def test_limits_that_leave_nothing_are_told(corpus_file, tmp_path):
    flags = search_flags(corpus_file, tmp_path / "run", "lvbert", "--max_parameters=10")
    with pytest.raises(SystemExit, match="the constraint leaves nothing to search"):
        load("run_search").run(flags)


def test_several_supernets_are_different_ones(searched):
    kind, folder = searched
    if kind != "several":
        pytest.skip("a search with one supernet")
    first, second = (load_file(folder / f"supernet{n}" / "model.safetensors") for n in ("", "-2"))
    assert first.keys() == second.keys()
    assert not all(torch.equal(first[name], second[name]) for name in first)


def test_a_finished_supernet_without_checkpoints_is_not_trained_again(
    searched, corpus_file, caplog
):
    kind, folder = searched
    before = (folder / "supernet" / "model.safetensors").stat().st_mtime_ns
    with caplog.at_level("INFO"):
        load("run_search").run(search_flags(corpus_file, folder, kind))
    assert "finished: nothing to train" in caplog.text
    assert (folder / "supernet" / "model.safetensors").stat().st_mtime_ns == before


def test_another_search_in_the_same_folder_is_refused(searched, corpus_file):
    kind, folder = searched
    flags = search_flags(corpus_file, folder, kind, "--population_size=7")
    with pytest.raises(SystemExit, match="population_size was 6, now 7"):
        load("run_search").run(flags)
    missing = Path(folder, "nowhere")
    flags = [*KINDS["lvbert"], f"--layer_order=@{missing}", f"--output_dir={folder}-2", *QUIET]
    with pytest.raises(SystemExit, match="a search's result is needed"):
        load("run_pretraining").run(flags)
    assert not os.path.exists(f"{folder}-2")
