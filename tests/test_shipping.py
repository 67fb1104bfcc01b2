"""The rules that keep a checkpoint loadable anywhere: what may be imported where, and by whom.

Every rule is a function from a source text to a list of faults, and is tried on sources that break
it besides the sources of the project.
"""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from transformers.dynamic_module_utils import get_relative_imports

import modeling_lvbert

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "modeling_lvbert"
FLAT_FILES = sorted(path for path in PACKAGE.glob("*.py") if path.name != "__init__.py")
FLAT_MODULES = {path.stem for path in FLAT_FILES}
CONVERSION_FILES = sorted((ROOT / "conversion").rglob("*.py"))
STANDARD_LIBRARY = set(sys.stdlib_module_names)

# A package beyond these becomes a requirement for whoever loads a checkpoint.
FLAT_PACKAGES = STANDARD_LIBRARY | {"torch", "transformers", "huggingface_hub"}

# Scoring knows no model of ours: what it imports, any user of transformers may have.
EVALUATION_PACKAGES = FLAT_PACKAGES | {"datasets", "evaluate", "numpy", "scipy", "sklearn"}

# Private helpers of transformers come and go between releases; these names are documented, or used
# by every model of the library.
TRANSFORMERS_NAMES = {
    "transformers": {"PreTrainedConfig", "PreTrainedModel", "initialization"},
    "transformers.activations": {"ACT2FN"},
    "transformers.masking_utils": {"create_bidirectional_mask"},
    "transformers.modeling_layers": {"GradientCheckpointingLayer"},
    "transformers.modeling_outputs": {
        "BaseModelOutput",
        "MaskedLMOutput",
        "ModelOutput",
        "MultipleChoiceModelOutput",
        "QuestionAnsweringModelOutput",
        "SequenceClassifierOutput",
        "TokenClassifierOutput",
    },
    "transformers.modeling_utils": {"ALL_ATTENTION_FUNCTIONS", "PreTrainedModel"},
    "transformers.processing_utils": {"Unpack"},
    "transformers.utils": {"ModelOutput", "TransformersKwargs"},
    "transformers.utils.generic": {"can_return_tuple", "merge_with_config_defaults"},
    "transformers.utils.output_capturing": {"OutputRecorder", "capture_outputs"},
}

# Downwards only: a module imports modules that come earlier here. A new flat file gets its place.
RANKS = (
    r"layer_order",
    r"configuration_layer_order",
    r"configuration_(lvbert|elcbert)",
    r"modeling_(initialization|attention)",
    r"modeling_dynamic_convolution",
    r"modeling_(lvbert|elcbert)_layers",
    r"modeling_heads",
    r"modeling_(lvbert|elcbert)",
)

# Which parts of the package each folder of it may import: flat files ("") and folders.
FOLDER_IMPORTS = {
    "pretraining": {"", "pretraining"},
    "search": {"", "search", "pretraining"},
    "evaluation": {"evaluation"},
    "publishing": {"", "publishing"},
}

# Folders of evaluation: none of them imports another, and what they share imports none of them.
TASKS = {path.parent.name for path in (PACKAGE / "evaluation").glob("*/__init__.py")}

LICENCE_HEADER = """\
# Copyright 2026 The lvbert authors.
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
"""


def rank(module: str) -> int:
    ranks = [index for index, pattern in enumerate(RANKS) if re.fullmatch(pattern, module)]
    assert len(ranks) == 1, f"{module} has no place in RANKS"
    return ranks[0]


def family(module: str) -> str | None:
    """The family that a flat module belongs to, None for what both share."""
    return next((name for name in ("elcbert", "lvbert") if name in module), None)


def imports(tree: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def absolute_roots(node: ast.Import | ast.ImportFrom) -> set[str]:
    """The top-level packages that an absolute import names."""
    if isinstance(node, ast.Import):
        return {alias.name.split(".")[0] for alias in node.names}
    return set() if node.level else {node.module.split(".")[0]}


def sibling_faults(node: ast.ImportFrom, module: str, lines: list[str]) -> list[str]:
    """What is wrong with `from .x import X` in a flat file."""
    if node.module is None or node.level != 1 or "." in node.module:
        return [f"line {node.lineno}: not of the form 'from .x import X'"]
    if node.module not in FLAT_MODULES:
        return [f"line {node.lineno}: {node.module} is no flat file"]
    faults = []
    if lines[node.lineno - 1].rstrip().endswith("\\"):
        faults.append(f"line {node.lineno}: a continued import is not copied to a checkpoint")
    if any(alias.name == "*" for alias in node.names):
        faults.append(f"line {node.lineno}: names are imported one by one")
    if rank(node.module) >= rank(module):
        faults.append(f"line {node.lineno}: {module} imports {node.module}, which is not below it")
    if None not in (family(module), family(node.module)) and family(module) != family(node.module):
        faults.append(f"line {node.lineno}: {module} imports the other family's {node.module}")
    return faults


def transformers_faults(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names if alias.name.startswith("transformers")]
        return [f"line {node.lineno}: import the names used, not {name}" for name in names]
    if node.level or node.module.split(".")[0] != "transformers":
        return []
    known = TRANSFORMERS_NAMES.get(node.module, set())
    return [
        f"line {node.lineno}: {node.module}.{alias.name} is not on the list of stable names"
        for alias in node.names
        if alias.name not in known
    ]


def flat_file_faults(module: str, source: str) -> list[str]:
    """What would keep a flat file from being copied to a checkpoint, or from loading there."""
    tree = ast.parse(source)
    faults = []
    for node in imports(tree):
        foreign = absolute_roots(node) - FLAT_PACKAGES
        faults += [f"line {node.lineno}: imports {name}" for name in sorted(foreign)]
        faults += transformers_faults(node)
        if isinstance(node, ast.ImportFrom) and node.level:
            faults += sibling_faults(node, module, source.splitlines())
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            faults.append(f"line {node.lineno}: string annotations hide the configuration's class")
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and imports(node):
            faults.append(f"line {node.lineno}: imports inside try")
        if isinstance(node, ast.Name) and node.id == "__file__":
            faults.append(f"line {node.lineno}: files beside the code are not copied")
    siblings = {node.module for node in imports(tree) if getattr(node, "level", 0)}
    scanned = set(re.findall(r"^\s*from\s+\.(\S+)\s+import", source, flags=re.MULTILINE))
    faults += [f"text that reads as an import of {name}" for name in sorted(scanned - siblings)]
    return faults


def folder_faults(place: str, source: str) -> list[str]:
    """Imports in a folder of the package, as `evaluation.tagging`, that point up or sideways."""
    folder, *inner = place.split(".")
    allowed = FOLDER_IMPORTS[folder]
    faults = []
    for node in imports(ast.parse(source)):
        roots = absolute_roots(node)
        faults += [
            f"line {node.lineno}: imports {root}"
            for root in sorted(roots & {"conversion", "examples", "benchmarks", "tests"})
        ]
        paths = package_paths(node, place)
        parts = {path[0] if path[0] in FOLDER_IMPORTS else "" for path in paths}
        for part in parts - allowed:
            faults.append(f"line {node.lineno}: {folder} imports {part or 'the models'}")
        tasks = {path[1] for path in paths if path[0] == folder and len(path) > 1} & TASKS
        for task in tasks - set(inner[:1]):
            faults.append(f"line {node.lineno}: {place} imports {task}")
        if folder == "evaluation":
            foreign = roots - EVALUATION_PACKAGES - {"modeling_lvbert"}
            faults += [f"line {node.lineno}: imports {name}" for name in sorted(foreign)]
    return faults


def package_paths(node: ast.Import | ast.ImportFrom, place: str) -> list[list[str]]:
    """What of our package an import in one of its folders names, as paths from the package."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
        paths = [name.split(".")[1:] for name in names if name.split(".")[0] == "modeling_lvbert"]
    elif node.level == 0:
        parts = node.module.split(".")
        paths = [parts[1:]] if parts[0] == "modeling_lvbert" else []
    else:
        levels = place.split(".")
        outer = levels[: len(levels) + 1 - node.level]
        paths = [[*outer, *(node.module.split(".") if node.module else ())]]
    if isinstance(node, ast.ImportFrom):
        paths = [[*path, alias.name] for path in paths for alias in node.names]
    return [path or [""] for path in paths]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", FLAT_FILES, ids=relative)
def test_flat_files_import_only_what_a_checkpoint_has(path):
    assert flat_file_faults(path.stem, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", FLAT_FILES, ids=relative)
def test_transformers_finds_exactly_the_siblings_that_are_imported(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    siblings = {node.module for node in imports(tree) if getattr(node, "level", 0)}
    assert set(get_relative_imports(path)) == siblings


@pytest.mark.parametrize(
    "source",
    [
        "from . import layer_order",
        "from .layer_order import parse_layer_order as p, \\\n    LETTERS",
        "from .\\\nlayer_order import LETTERS",
        "from .layer_order import *",
        "from ..modeling_lvbert.layer_order import LETTERS",
        "from .pretraining.corpus import read",
        "from .pretraining import corpus",
        "from .not_there import X",
        "from .modeling_elcbert import ELCBertModel",
        "from .configuration_elcbert import ELCBertConfig",
        "from .modeling_lvbert import LVBertModel",
        "import modeling_lvbert",
        "def load():\n    from modeling_lvbert.layer_order import LETTERS",
        "from layer_order import LETTERS",
        "import numpy",
        "import einops.layers.torch",
        "import transformers.pytorch_utils",
        "from transformers.pytorch_utils import find_pruneable_heads_and_indices",
        "from __future__ import annotations",
        "try:\n    from .layer_order import LETTERS\nexcept ImportError:\n    LETTERS = ''",
        "try:\n    import torch\nexcept ImportError:\n    torch = None",
        '"""Reads names.\n\nfrom .elsewhere import names\n"""',
        "open(__file__)",
    ],
)
def test_the_rules_of_flat_files_catch_what_does_not_load(source):
    assert flat_file_faults("modeling_lvbert", source)


def test_the_order_of_flat_files_is_downwards_only():
    assert flat_file_faults("layer_order", "from .configuration_lvbert import LVBertConfig")
    assert flat_file_faults("modeling_heads", "from .modeling_lvbert import LVBertModel")
    assert not flat_file_faults("modeling_lvbert", "from .configuration_lvbert import LVBertConfig")


def test_the_package_imports_only_its_flat_files():
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    for node in imports(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            assert node.level == 1
            assert node.module in FLAT_MODULES
        else:
            assert absolute_roots(node) <= {"transformers", "importlib"}


def folder_files() -> list[Path]:
    return sorted(path for folder in FOLDER_IMPORTS for path in (PACKAGE / folder).rglob("*.py"))


def test_every_folder_of_the_package_has_a_rule():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders <= set(FOLDER_IMPORTS)


@pytest.mark.parametrize("path", folder_files(), ids=relative)
def test_folders_import_downwards_only(path):
    place = ".".join(path.relative_to(PACKAGE).parts[:-1])
    assert folder_faults(place, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        ("pretraining", "from modeling_lvbert.search.evolution import evolve"),
        ("pretraining", "from modeling_lvbert import search"),
        ("pretraining", "from ..search.evolution import evolve"),
        ("pretraining", "from .. import search"),
        ("pretraining", "import conversion.weights"),
        ("pretraining", "from examples.run_pretraining import main"),
        ("search", "from modeling_lvbert.evaluation.minimal_pairs.pairs import judge"),
        ("publishing", "import modeling_lvbert.pretraining.corpus"),
        ("evaluation", "from modeling_lvbert import LVBertModel"),
        ("evaluation", "from ..layer_order import LETTERS"),
        ("evaluation", "import tensorflow"),
        ("evaluation", "from .tagging.data import read_sentences"),
        ("evaluation", "from . import tagging"),
        ("evaluation.tagging", "from ...layer_order import LETTERS"),
        ("evaluation.tagging", "from ... import search"),
        ("evaluation.tagging", "from ..question_answering.data import read_questions"),
        ("evaluation.tagging", "from .. import minimal_pairs"),
        ("evaluation.tagging", "import modeling_lvbert.evaluation.minimal_pairs.pairs"),
    ],
)
def test_the_rules_of_folders_catch_imports_upwards_and_sideways(folder, source):
    assert folder_faults(folder, source)


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        ("pretraining", "from modeling_lvbert import LVBertModel"),
        ("pretraining", "from ..layer_order import LETTERS"),
        ("pretraining", "from .corpus import read"),
        ("pretraining", "from . import corpus"),
        ("search", "from modeling_lvbert.pretraining.corpus import read"),
        ("evaluation", "from transformers import AutoModelForMaskedLM"),
        ("evaluation", "from .model_loading import load_model"),
        ("evaluation.tagging", "from ..tables import read_table"),
        ("evaluation.tagging", "from .data import read_sentences"),
        ("evaluation.tagging", "from .. import tables"),
    ],
)
def test_the_rules_of_folders_allow_imports_downwards(folder, source):
    assert folder_faults(folder, source) == []


def test_evolution_needs_only_the_standard_library():
    path = PACKAGE / "search" / "evolution.py"
    for node in imports(ast.parse(path.read_text(encoding="utf-8"))):
        assert not getattr(node, "level", 0)
        assert absolute_roots(node) <= STANDARD_LIBRARY


@pytest.mark.parametrize("path", [*sorted(PACKAGE.rglob("*.py")), *CONVERSION_FILES], ids=relative)
def test_every_file_that_ships_or_converts_carries_the_licence(path):
    assert path.read_text(encoding="utf-8").startswith(LICENCE_HEADER)


def test_mlinter_finds_nothing_in_the_models(tmp_path):
    report = tmp_path / "findings.json"
    command = [sys.executable, "-m", "mlinter", "--no-progress", "--no-cache"]
    subprocess.run([*command, "--output-json", report, PACKAGE], capture_output=True, check=False)
    findings = json.loads(report.read_text(encoding="utf-8"))["findings"]
    # TRF057: see .ci/mlinter_rules.py.
    assert [finding for finding in findings if finding["rule"] != "TRF057"] == []


def closure(module: str) -> set[str]:
    """The flat modules that a module needs, itself included."""
    found, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += get_relative_imports(PACKAGE / f"{name}.py")
    return found


@pytest.mark.parametrize(
    ("config_class", "model_class", "entry"),
    [
        ("LVBertConfig", "LVBertForMaskedLM", "modeling_lvbert"),
        ("ELCBertConfig", "ELCBertForMaskedLM", "modeling_elcbert"),
    ],
)
def test_a_checkpoint_holds_the_files_of_its_family_and_no_others(
    config_class, model_class, entry, tmp_path
):
    config = getattr(modeling_lvbert, config_class)(
        vocab_size=50, hidden_size=8, num_attention_heads=2, intermediate_size=8, layer_order="dsf"
    )
    getattr(modeling_lvbert, model_class)(config).save_pretrained(tmp_path)
    saved = {path.stem for path in tmp_path.rglob("*.py")}
    assert saved == closure(entry)
    assert not any(family(name) not in (None, family(entry)) for name in saved)


def test_every_folder_with_code_is_a_package_that_setuptools_finds():
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [relative(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_only_the_package_is_installed():
    setup = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    included = re.search(r"include =\n((?:    .+\n)+)", setup).group(1).split()
    assert included == ["modeling_lvbert", "modeling_lvbert.*"]
