"""What the installed package promises: its names, its version, a light import, its templates."""

import configparser
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from huggingface_hub import ModelCard
from packaging.requirements import Requirement
from transformers import PreTrainedConfig, PreTrainedModel

import modeling_lvbert

ROOT = Path(__file__).resolve().parent.parent
HEADS = (
    "Model",
    "ForPreTraining",
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
)
MODEL_NAMES = [family + head for family in ("LVBert", "ELCBert") for head in HEADS]
CONFIG_NAMES = ["LVBertConfig", "ELCBertConfig"]
HEAVY = ("datasets", "accelerate", "tensorflow", "sklearn", "scipy", "pandas", "pyarrow")


def setup_cfg() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_every_head_of_both_families_is_public(name):
    assert issubclass(getattr(modeling_lvbert, name), PreTrainedModel)


@pytest.mark.parametrize("name", CONFIG_NAMES)
def test_both_configurations_are_public(name):
    assert issubclass(getattr(modeling_lvbert, name), PreTrainedConfig)


def test_all_names_the_public_classes():
    assert set(modeling_lvbert.__all__) >= {*MODEL_NAMES, *CONFIG_NAMES}
    assert all(hasattr(modeling_lvbert, name) for name in modeling_lvbert.__all__)


def test_the_version_is_written_once():
    version = setup_cfg()["metadata"]["version"]
    assert metadata.version("lvbert") == version
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_importing_the_models_loads_no_training_libraries():
    # Whatever transformers itself loads for a model of its own is not ours to avoid.
    code = (
        "import sys\n"
        "from transformers import ElectraForMaskedLM\n"
        "before = set(sys.modules)\n"
        "import modeling_lvbert\n"
        f"models = [{', '.join(f'modeling_lvbert.{name}' for name in MODEL_NAMES)}]\n"
        f"print([name for name in {HEAVY!r} if name in set(sys.modules) - before])"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert result.stderr == ""
    assert result.stdout.strip() == "[]"


def test_every_requirement_is_met_here():
    lines = setup_cfg()["options"]["install_requires"].strip().splitlines()
    requirements = {requirement.name: requirement for requirement in map(Requirement, lines)}
    assert set(requirements) >= {"torch", "transformers", "huggingface-hub", "datasets"}
    for name, requirement in requirements.items():
        assert ">=" in str(requirement.specifier), f"{name} has no lower bound"
        assert requirement.specifier.contains(metadata.version(name), prereleases=True), name


def test_a_filled_model_card_has_valid_metadata():
    template = (ROOT / "MODEL_CARD.md").read_text(encoding="utf-8")
    values = {"model_type": "lvbert", "license": "apache-2.0", "pipeline_tag": "fill-mask"}
    text = re.sub(r"{{ (\w+) }}", lambda match: values.get(match[1], "x: y"), template)
    card = ModelCard(text)
    assert card.data.license == "apache-2.0"
    assert card.data.to_dict()["library_name"] == "transformers"
    assert card.data.pipeline_tag == "fill-mask"
    assert set(card.data.tags) >= {"lvbert", "custom_code"}


def test_the_model_card_tells_what_a_user_must_know():
    template = (ROOT / "MODEL_CARD.md").read_text(encoding="utf-8")
    placeholders = set(re.findall(r"{{ (\w+) }}", template))
    known = {"layer_order", "num_parameters", "training_data", "recipe", "scores", "limits"}
    assert placeholders >= known | {"conv_mask_padding", "revision", "repo_id", "license"}
    for words in ("trust_remote_code=True", "2106.11740", "2311.02265", "conv_mask_padding"):
        assert words in template
