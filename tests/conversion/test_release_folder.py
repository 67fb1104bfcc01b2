import ast
from pathlib import Path

import pytest

from conversion.publishing_plan import make_plan
from conversion.release_folder import check_release, fill_release, is_allowed
from conversion.saved_models import open_models, open_tokenizer
from conversion.searched_model_card import CardOptions

from .published_runs import TOKENS, make_search, train

FLAT_FILES = sorted((Path(__file__).parents[2] / "modeling_lvbert").glob("*.py"))
# What a model file of this package needs of the standard library: nothing that reaches outside.
STANDARD = {"collections", "dataclasses", "inspect", "math", "typing"}
# By attribute or name: files, processes, code from text, the network.
REACHING = {
    "open", "exec", "eval", "compile", "__import__", "breakpoint", "globals", "vars",
    "load", "save", "hub", "system", "popen", "from_pretrained", "save_pretrained", "push_to_hub",
    "hf_hub_download", "snapshot_download", "urlopen", "load_state_dict_from_url",
}  # fmt: skip


def reaching_faults(source):
    faults = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names = names or [alias.name for alias in node.names]
            if getattr(node, "level", 0):
                continue
            for name in names:
                root = name.partition(".")[0]
                allowed = root in STANDARD | {"torch", "transformers"}
                if not allowed and name != "huggingface_hub.dataclasses":
                    faults.append(f"line {node.lineno}: imports {name}")
        name = getattr(node, "attr", getattr(node, "id", None))
        if isinstance(node, ast.Attribute | ast.Name) and name in REACHING:
            faults.append(f"line {node.lineno}: {name}")
    return faults


@pytest.mark.parametrize(
    "path", [path for path in FLAT_FILES if path.name != "__init__.py"], ids=lambda path: path.stem
)
def test_shipped_code_reaches_neither_files_nor_the_network(path):
    assert reaching_faults(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "import os",
        "import urllib.request",
        "from socket import socket",
        "from huggingface_hub import hf_hub_download",
        "open('x')",
        "torch.load('x')",
        "torch.hub.load('x')",
        "eval('1')",
        "Model.from_pretrained('x')",
    ],
)
def test_the_rule_catches_code_that_does(source):
    assert reaching_faults(source)


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "config.json",
        "model.safetensors",
        "model-00001-of-00002.safetensors",
        "tokenizer_config.json",
        "modeling_lvbert.py",
        "history.jsonl",
        "figures/layer_order.png",
        "figures/learning_curves.png",
        "generator/model.safetensors",
        "onnx/model.onnx",
        "1_Pooling/config.json",
    ],
)
def test_what_a_folder_needs_is_allowed(name):
    assert is_allowed(name)


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        "optimizer.pt",
        "training_args.bin",
        "pytorch_model.bin",
        "run.json",
        "trainer_state.json",
        "figures/private.png",
        "modeling_x/evil.py",
        "figures/.env",
        "generator/.env",
        "generator/generator/config.json",
        "notes.txt",
        "setup.py",
    ],
)
def test_nothing_else_is(name):
    assert not is_allowed(name)


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("release") / "search"
    make_search(folder)
    for name in (".env", "best/.env", "best/optimizer.pt", "best/modeling_evil.py"):
        (folder / name).write_text(f"KEY={TOKENS['API key']}")
    train(folder / "best")
    return make_plan(folder)


def fill(plan, folder):
    folder.mkdir()
    models, tokenizer = open_models(plan.model_dir), open_tokenizer(plan.model_dir)
    fill_release(folder, plan, models, tokenizer, CardOptions("ada/best-order"))
    return folder


def test_a_release_holds_the_listed_files_and_nothing_that_was_planted(plan, tmp_path):
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    folder = fill(plan, tmp_path / "out")
    check_release(folder, plan)
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert names == {
        "README.md", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
        "configuration_layer_order.py", "configuration_lvbert.py", "layer_order.py",
        "modeling_attention.py", "modeling_dynamic_convolution.py", "modeling_heads.py",
        "modeling_initialization.py", "modeling_lvbert.py", "modeling_lvbert_layers.py",
        "history.jsonl", "search_result.json", "figures/layer_order.png",
        "figures/layer_orders.png",
    }  # fmt: skip
    again = fill(plan, tmp_path / "again")
    for name in names:
        assert (folder / name).read_bytes() == (again / name).read_bytes(), name


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("notes.txt", "x", "notes.txt is not on the list"),
        ("history.jsonl", '{}\n{"a": "/home/ada/x"}', "history.jsonl, line 2: absolute path"),
        ("search_result.json", TOKENS["AWS access key"], "search_result.json, line 1: AWS"),
        ("README.md", "\n\n/home/ada/x", "README.md, line 3: absolute path"),
        ("figures/layer_order.png", TOKENS["Slack token"], "layer_order.png: Slack token"),
    ],
)
def test_a_leak_stops_everything_and_is_named(plan, tmp_path, name, content, message):
    folder = tmp_path / "out"
    (folder / "figures").mkdir(parents=True)
    (folder / name).write_text(content)
    with pytest.raises(ValueError, match=message) as error:
        check_release(folder, plan)
    assert content not in str(error.value) or content == "x"


def test_a_link_in_a_release_stops_everything(plan, tmp_path):
    (tmp_path / "secret").write_text("x")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "README.md").symlink_to(tmp_path / "secret")
    with pytest.raises(ValueError, match=r"README.md is not on the list"):
        check_release(tmp_path / "out", plan)
