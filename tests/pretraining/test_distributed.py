"""The split into devices, accumulation and shards changes nothing but the time."""

import json
import os
import socket
import subprocess
import sys
import traceback
import warnings

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoModelForPreTraining, AutoTokenizer

from modeling_lvbert.pretraining.packing import pack_corpus
from modeling_lvbert.pretraining.sharding import check_state_dict_type, find_shardable_layers
from modeling_lvbert.pretraining.tokenizer_training import train_tokenizer
from tests.pretraining.distributed_cases import (
    KINDS,
    build_model,
    build_trainer,
    read_case,
    run_case,
    start_case,
)

SHARDINGS = (("lamb", "FULL_STATE_DICT"), ("uncorrected_adamw", "SHARDED_STATE_DICT"))
SAVED = {"save_strategy": "steps", "save_steps": 1}


def make_case(name, kind, rows, accumulated=1, **more):
    options = {"per_device_train_batch_size": rows, "gradient_accumulation_steps": accumulated}
    return {"name": name, "kind": kind, **more, "options": {**options, **more.get("options", {})}}


@pytest.fixture(scope="module")
def folder(documents, tmp_path_factory):
    """A folder with the data of all cases."""
    folder = tmp_path_factory.mktemp("distributed")
    tokenizer = train_tokenizer(documents, "lvbert", 400, 64)
    tokenizer.save_pretrained(folder / "data")
    for name, part in (("training", range(30)), ("validation", range(30, 40))):
        rows = pack_corpus(documents.select(part), tokenizer, 24)
        rows.save_to_disk(str(folder / "data" / name))
    return folder


@pytest.fixture
def run_here(folder):
    """Runs cases in this process and returns their numbers and weights."""

    def run(case):
        run_case(case, folder / "data", folder / case["name"])
        return read_case(folder / case["name"])

    return run


def launch(folder, num_processes, cases, project_root):
    """Runs cases in processes that PyTorch's launcher starts."""
    (folder / "cases.json").write_text(json.dumps(cases))
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone",
        f"--nproc-per-node={num_processes}", "-m", "tests.pretraining.distributed_cases",
        str(folder),
    ]  # fmt: skip
    result = subprocess.run(
        command, cwd=project_root, capture_output=True, text=True, check=False, timeout=600
    )
    assert result.returncode == 0, result.stderr[-5000:]


def assert_same(run, expected, atol=1e-5):
    """Checks that two runs left the same weights, lost the same and scored the same."""
    (*_, numbers), weights = run
    (*_, expected_numbers), expected_weights = expected
    assert weights.keys() == expected_weights.keys()
    for name, weight in expected_weights.items():
        torch.testing.assert_close(weights[name], weight, atol=atol, rtol=0.0)
    assert numbers["losses"] == pytest.approx(expected_numbers["losses"], rel=atol)
    assert numbers["metrics"] == pytest.approx(expected_numbers["metrics"], rel=10 * atol)


def fork(num_processes, function):
    """Runs a function as every rank in copies of this process, which spares them the imports."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    children = []
    for rank in range(num_processes):
        if (child := os.fork()) == 0:
            code = 1
            try:
                os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), MASTER_PORT=str(port))
                os.environ.update(WORLD_SIZE=str(num_processes), MASTER_ADDR="127.0.0.1")
                os.environ.update(LOCAL_WORLD_SIZE=str(num_processes))
                # PyTorch tells of strides that a dimension of size 1 makes all the same.
                warnings.simplefilter("default")
                function()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


# From Python 3.12; the copies compute on one thread and none holds a lock.
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a copy of a process is needed")
def test_two_processes_train_and_evaluate_as_one(folder, run_here):
    case = make_case("forked", "electra", 4)
    path = folder / case["name"]
    assert fork(2, lambda: run_case(case, folder / "data", path)) == [0, 0]
    forked = read_case(path)
    assert forked[0][0]["num_processes"] == 2
    assert_same(forked, run_here(make_case("unforked", "electra", 8)))


@pytest.fixture(scope="module")
def pairs(folder, project_root):
    """Runs of two processes, whole copies of the model in each."""
    dropout = {"dropout": 0.1, "options": SAVED}
    cases = []
    for kind in KINDS:
        begun = make_case(f"{kind}-begun-by-one", kind, 8, stop_after=3, options=SAVED)
        start_case(begun, folder / "data", folder / begun["name"])
        checkpointing = {"dropout": 0.1, "options": {"gradient_checkpointing": True}}
        cases += [
            make_case(f"{kind}-pair", kind, 4),
            make_case(f"{kind}-dropout", kind, 4, **dropout),
            make_case(f"{kind}-stopped", kind, 4, stop_after=3, starts=2, **dropout),
            make_case(f"{kind}-checkpointing", kind, 4, **checkpointing),
            make_case(begun["name"], kind, 4, options=SAVED),
        ]
    launch(folder, 2, cases, project_root)
    runs = {case["name"]: read_case(folder / case["name"]) for case in cases}
    assert {start["num_processes"] for starts, _ in runs.values() for start in starts} == {2}
    return runs


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_split_of_a_step_does_not_change_the_update(kind, run_here, pairs):
    whole = run_here(make_case(f"{kind}-whole", kind, 8))
    assert_same(run_here(make_case(f"{kind}-accumulated", kind, 4, 2)), whole)
    assert_same(run_here(make_case(f"{kind}-accumulated-more", kind, 2, 4)), whole)
    assert_same(pairs[f"{kind}-pair"], whole)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_dropout_is_that_of_the_part_whichever_process_has_it(kind, run_here, pairs):
    accumulated = run_here(make_case(f"{kind}-one-dropout", kind, 4, 2, dropout=0.1))
    assert_same(pairs[f"{kind}-dropout"], accumulated)
    _, without = pairs[f"{kind}-pair"]
    changes = [(weight - without[name]).abs().max() for name, weight in accumulated[1].items()]
    assert max(changes) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_checkpointing_changes_nothing(kind, pairs):
    assert_same(pairs[f"{kind}-checkpointing"], pairs[f"{kind}-dropout"], atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_go_on_to_the_last_bit(kind, pairs):
    (rest, again), weights = pairs[f"{kind}-stopped"]
    (whole,), expected = pairs[f"{kind}-dropout"]
    assert rest == whole
    # Started once more, the finished run evaluates only.
    assert again == whole
    assert all(torch.equal(weights[name], weight) for name, weight in expected.items())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_go_on_from_a_checkpoint_of_one(kind, run_here, pairs):
    begun = pairs[f"{kind}-begun-by-one"]
    assert_same(begun, run_here(make_case(f"{kind}-never-begun", kind, 8)))


@pytest.mark.slow
@pytest.mark.parametrize("num_processes", [2, 3])
def test_no_row_is_evaluated_twice(num_processes, folder, run_here, project_root):
    # Seven rows, two at a time: some process lacks one.
    idle = {"options": {"max_steps": 1, "learning_rate": 1e-30}}
    cases = [make_case(f"{kind}-scored-by-{num_processes}", kind, 4, **idle) for kind in KINDS]
    launch(folder, num_processes, cases, project_root)
    for kind, case in zip(KINDS, cases, strict=True):
        (scored,), _ = read_case(folder / case["name"])
        assert scored["num_processes"] == num_processes
        name = f"{kind}-scored-by-one-of-{num_processes}"
        (expected,), _ = run_here(make_case(name, kind, 4, **idle))
        counted = "eval_num_masked_tokens"
        assert scored["metrics"].get(counted) == expected["metrics"].get(counted)
        assert scored["metrics"] == pytest.approx(expected["metrics"], rel=1e-6)


def shard(kind, optimizer, state_dict_type, **more):
    fsdp = {"version": 2, "state_dict_type": state_dict_type}
    return make_case(
        f"{kind}-{optimizer}-{state_dict_type}{'-stopped' if more else ''}",
        kind,
        4,
        dropout=0.1,
        optimization={"optimizer": optimizer, "clipping_epsilon": 0.0},
        options={"fsdp": True, "fsdp_config": fsdp, "max_grad_norm": 0.5, **SAVED},
        **more,
    )


@pytest.fixture(scope="module")
def sharded(folder, project_root):
    """Runs of two processes that share one model."""
    cases = [
        shard(kind, optimizer, state_dict_type, **more)
        for kind in KINDS
        for optimizer, state_dict_type in SHARDINGS
        for more in ({}, {"stop_after": 3, "starts": 2})
    ]
    launch(folder, 2, cases, project_root)
    return {case["name"]: read_case(folder / case["name"]) for case in cases}


@pytest.mark.slow
@pytest.mark.parametrize(("optimizer", "state_dict_type"), SHARDINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_shards_train_as_the_whole_model(
    kind, optimizer, state_dict_type, folder, run_here, sharded
):
    whole = make_case(
        f"{kind}-{optimizer}",
        kind,
        4,
        2,
        dropout=0.1,
        optimization={"optimizer": optimizer, "clipping_epsilon": 0.0},
        options={"max_grad_norm": 0.5},
    )
    expected = run_here(whole)
    name = f"{kind}-{optimizer}-{state_dict_type}"
    (numbers,), _ = sharded[name]
    assert (numbers["num_processes"], numbers["num_sharded"] > 20) == (2, True)
    assert_same(sharded[name], expected)
    # The folder is that of a whole model, too.
    files = {path.name for path in (folder / name).glob("[!c.]*")}
    assert files == {path.name for path in (folder / whole["name"]).glob("[!c.]*")}


@pytest.mark.slow
@pytest.mark.parametrize(("optimizer", "state_dict_type"), SHARDINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_shards_go_on_to_the_last_bit(kind, optimizer, state_dict_type, sharded):
    name = f"{kind}-{optimizer}-{state_dict_type}"
    (rest, again), weights = sharded[f"{name}-stopped"]
    (whole,), expected = sharded[name]
    assert rest == whole
    assert again["metrics"] == pytest.approx(whole["metrics"], rel=1e-6)
    assert all(torch.equal(weights[key], weight) for key, weight in expected.items())


@pytest.mark.slow
@pytest.mark.parametrize(("optimizer", "state_dict_type"), SHARDINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_shards_leave_opens_as_any_model(kind, optimizer, state_dict_type, folder, sharded):
    path = folder / f"{kind}-{optimizer}-{state_dict_type}"
    opened = [(AutoModelForMaskedLM, path)]
    if kind == "electra":
        opened = [(AutoModelForPreTraining, path), (AutoModelForMaskedLM, path / "generator")]
    for auto_class, place in opened:
        _, problems = auto_class.from_pretrained(
            place, trust_remote_code=True, output_loading_info=True
        )
        assert not any(problems.values())


# The compiler looks at the gradient of whatever it meets.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_compiled_model_is_saved_under_its_own_names_and_goes_on(kind, folder, run_here):
    compiled = {
        "dropout": 0.1,
        "options": {"torch_compile": True, "torch_compile_backend": "aot_eager", **SAVED},
    }
    whole = run_here(make_case(f"{kind}-compiled", kind, 4, **compiled))
    stopped = make_case(f"{kind}-compiled-stopped", kind, 4, stop_after=3, starts=2, **compiled)
    (rest, again), weights = run_here(stopped)
    assert rest["losses"] == whole[0][0]["losses"]
    assert again["metrics"] == pytest.approx(rest["metrics"], rel=1e-6)
    assert all(torch.equal(weights[key], weight) for key, weight in whole[1].items())
    plain = run_here(make_case(f"{kind}-not-compiled", kind, 4, dropout=0.1))
    assert_same(whole, plain)


def test_layers_with_tied_weights_are_not_sharded_alone(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder / "data")
    layers = {kind: find_shardable_layers(build_model(kind, tokenizer, 0.0)) for kind in KINDS}
    assert layers == {
        "lvbert": ["LVBertLayer"],
        "elcbert": ["ELCBertWord"],
        "electra": ["LVBertLayer"],
    }


def test_a_checkpoint_is_read_only_as_it_was_sharded(tmp_path):
    (tmp_path / "pytorch_model_fsdp_0").mkdir()
    check_state_dict_type(str(tmp_path), "SHARDED_STATE_DICT")
    for wanted in ("FULL_STATE_DICT", None):
        with pytest.raises(ValueError, match="was written with SHARDED_STATE_DICT"):
            check_state_dict_type(str(tmp_path), wanted)


def test_processes_that_see_different_checkpoints_are_told(folder, tmp_path, monkeypatch):
    case = make_case("alone", "lvbert", 4, stop_after=2, options=SAVED)
    start_case(case, folder / "data", tmp_path / "run")
    trainer = build_trainer(case, folder / "data", tmp_path / "run")
    # Another machine, with a disk of its own, sees none.
    monkeypatch.setattr(
        trainer.accelerator, "gather", lambda step: torch.cat([step, torch.zeros_like(step)])
    )
    with pytest.raises(ValueError, match=r"steps \[1, 0\].*that all machines share"):
        trainer.train_from(str(tmp_path / "run" / "checkpoint-1"))
