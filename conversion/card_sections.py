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
"""Sections of a model card from what a run recorded: data, recipe, search, scores, limits."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from modeling_lvbert.search.result_table import format_result

from .publishing_plan import HALVES_FOLDER, PublishingPlan, read_json
from .run_records import RunRecord, make_search_command

NO_RECORD = "The published folder holds no record of it."
# Told under other names.
_FACTS = ("_documents", "corpus_bytes")
_CHECK_FILE, _STATE_FILE = "rank_check.json", "trainer_state.json"
# The template's own words, which follow the limits that a card of its own adds.
_TEMPLATE_LIMITS = "The model fills gaps and encodes text"
_PICTURES = {
    "figures/fitness_by_generation.png": "Fitness of all scored orders by generation",
    "figures/letters_by_depth.png": "Share of each kind of layer by depth, best orders and all",
    "figures/fitness_against_parameters.png": "Fitness of all scored orders against their size",
    "figures/layer_orders.png": "The best order and the baselines, layer by layer",
}
_RUN_PICTURES = {
    "figures/learning_curves.png": "Loss in training and validation against optimizer steps",
    "figures/layer_weights.png": "What each layer reads: weights of the outputs below it",
}


def write_training_data(record: RunRecord) -> str:
    """Returns what the weights were trained on."""
    if not record.data:
        return NO_RECORD
    lines = [f"Data: {' and '.join(record.data)}. Only names of files are told here."]
    facts = {name: value for name, value in record.facts.items() if "documents" in name}
    facts |= {name: value for name, value in record.facts.items() if name == "corpus bytes"}
    if facts:
        lines += ["", *_make_table(("", "Number"), facts.items())]
    base = record.options.get("model_name_or_path")
    if base:
        lines += ["", f"The training began with the weights of `{base}`."]
    return "\n".join(lines)


def write_recipe(record: RunRecord, plan: PublishingPlan) -> str:
    """Returns how the weights were trained."""
    parts = []
    rows: list[tuple[object, ...]]
    if plan.is_inherited:
        parts.append(
            "These weights are cut out of a supernet, which was trained on many orders in turn; "
            "this order was never trained alone. Trained from scratch, the order gives better "
            "weights: `examples/run_pretraining.py --layer_order` takes it."
        )
    facts = {name: value for name, value in record.facts.items() if name != "corpus bytes"}
    facts = {name: value for name, value in facts.items() if "documents" not in name}
    if facts:
        parts.append("\n".join(_make_table(("", "Number"), facts.items())))
    if record.recipe:
        rows = [
            (f"`{name}`", _format_value(setting.get("value")), setting.get("source", ""))
            for name, setting in record.recipe.items()
            if setting.get("value") is not None
        ]
        parts.append(
            "Settings that the run used. Sources: C official code, P paper, D arithmetic on such "
            "numbers, I inference, ours where no source says, option given by the user.\n\n"
            + "\n".join(_make_table(("Setting", "Value", "Source"), rows))
        )
    elif record.options:
        # Of the supernet's order only the number of layers means something.
        left_out = ("layer_order",) if plan.is_inherited else ()
        rows = [
            (f"`{name}`", _format_value(value))
            for name, value in record.options.items()
            if value is not None and name not in left_out and not name.endswith(_FACTS)
        ]
        parts.append(
            "Options that the run recorded; all others had their defaults, or belong to the "
            "Trainer and left no record.\n\n" + "\n".join(_make_table(("Option", "Value"), rows))
        )
    parts += _show_pictures(plan, _RUN_PICTURES)
    return "\n\n".join(parts) or NO_RECORD


def _count_supernets(settings: Mapping[str, Any]) -> str:
    number = settings.get("num_supernets", 1)
    return "one supernet" if number == 1 else f"{number} supernets, the mean over them"


def write_search(record: RunRecord, plan: PublishingPlan) -> str:
    """Returns how the order was found, "" where it was not.

    Args:
        record: Of the supernet's training.
        plan: What is published.

    Raises:
        ValueError: The search's result lacks something.
    """
    if plan.search_dir is None:
        return ""
    result = dict(read_json(plan.records["search_result.json"]))
    check = read_json(plan.search_dir / _CHECK_FILE)
    if check:
        result["rank_check"] = check
    try:
        table = format_result(result)
        settings = {name: value for name, value in result["settings"].items() if value is not None}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{str(plan.search_dir)!r}: search_result.json is damaged ({error!r})"
        ) from None
    state = read_json(plan.search_dir / "supernet" / _STATE_FILE)
    parts = [
        "## Search",
        "The layer order was found by an evolution whose fitness is the score of each order with "
        f"the weights of {_count_supernets(settings)}. All orders that were scored are in "
        "`history.jsonl`, the outcome is in `search_result.json`.",
        table,
        "Numbers after ± are standard errors over rows of validation; those of the gains are "
        "paired: both orders on the same rows. Baselines have the best order's number of layers, "
        "the random ones its letters too.",
        f"```bash\n{make_search_command(record, result, state)}\n```",
        "\n".join(
            _make_table(
                ("Setting", "Value"),
                [
                    (f"`{name}`", _format_value(value))
                    for name, value in {**settings, "seed": result.get("seed")}.items()
                ],
            )
        ),
        *_show_pictures(plan, _PICTURES),
    ]
    return "\n\n".join(parts)


def write_scores(record: RunRecord, plan: PublishingPlan) -> str:
    """Returns what was measured, with the commands."""
    parts = []
    if record.scores:
        rows = [
            (score.metric.replace("_", " "), f"{score.value:.4f}", score.data)
            for score in record.scores
        ]
        parts.append("\n".join(_make_table(("Metric", "Value", "Measured on"), rows)))
        parts += [f"```bash\n{command}\n```" for command in record.commands]
    if plan.is_inherited:
        parts.append(
            "The scores in the table of the search are those of these very weights: the supernet's "
            "on this order's path."
        )
    elif plan.search_dir is not None:
        parts.append(
            "The scores in the table of the search are the supernet's, not those of these weights."
        )
    return "\n\n".join(parts) or "No score was recorded."


def write_limits(model: PreTrainedModel, record: RunRecord, plan: PublishingPlan) -> str:
    """Returns what is known to be wanting."""
    limits = []
    if plan.is_inherited:
        limits.append(
            "The weights are a supernet's. They serve to look at the search, and are a poor start "
            "for anything else."
        )
    if plan.search_dir is not None:
        limits.append(
            "The order is the best of those that were scored on one corpus with one supernet. A "
            "gain of about the size of its standard error says nothing, and orders rank otherwise "
            "with other data, sizes and budgets."
        )
    tokens = record.facts.get("tokens seen in training")
    if tokens:
        limits.append(f"The training saw {tokens} tokens.")
    if not model.config.conv_mask_padding and "d" in model.config.layer_order:
        limits.append(
            "`conv_mask_padding` is off: what the model says of a text depends on how far its "
            "batch is padded."
        )
    if not record.scores and not plan.is_inherited:
        limits.append("How well it does anything was not measured.")
    return "\n".join(f"- {limit}" for limit in limits) or "- None beyond the general ones."


def write_more_usage(
    models: Mapping[str, PreTrainedModel], plan: PublishingPlan, repo_id: str, extras: Sequence[str]
) -> str:
    """Returns further ways to open the folder.

    Args:
        models: What is published, by place.
        plan: What is published.
        repo_id: Name on the Hub.
        extras: "onnx", "sentence_transformers".
    """
    parts = []
    if HALVES_FOLDER in models:
        parts.append(
            "This is ELECTRA's discriminator. The generator, a masked language model, lies in "
            f"`{HALVES_FOLDER}`:\n\n```python\nfrom transformers import AutoModelForMaskedLM\n\n"
            "generator = AutoModelForMaskedLM.from_pretrained(\n"
            f'    "{repo_id}", subfolder="{HALVES_FOLDER}", trust_remote_code=True\n)\n```'
        )
    if "sentence_transformers" in extras:
        parts.append(
            "With sentence-transformers, which averages the last layer's outputs over the tokens; "
            "nothing was trained for that:\n\n```python\n"
            "from sentence_transformers import SentenceTransformer\n\n"
            f'encoder = SentenceTransformer("{repo_id}", trust_remote_code=True)\n'
            'vectors = encoder.encode(["The cat sat on the mat."])\n```'
        )
    if "onnx" in extras:
        parts.append(
            "`onnx/model.onnx` computes the same for ONNX Runtime, at any batch size and length; "
            "its inputs are `input_ids` and `attention_mask`."
        )
    if plan.checkpoints:
        names = ", ".join(f"`step-{step}`" for step in plan.checkpoints)
        parts.append(
            f"Intermediate weights are in the branches {names}, by optimizer steps; give the name "
            "as `revision`. Scores and figures here are those of the final weights."
        )
    return "\n\n".join(parts)


def _format_value(value: object) -> str:
    words = value if isinstance(value, list) else [value]
    return f"`{' '.join(map(str, words))}`"


def _show_pictures(plan: PublishingPlan, pictures: Mapping[str, str]) -> list[str]:
    return [f"![{text}]({name})" for name, text in pictures.items() if name in plan.figures]


def _make_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in rows:
        cells = [" ".join(str(cell).replace("|", "\\|").split()) for cell in row]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def read_earlier_card(folder: Path) -> dict[str, str]:
    """Returns what the card of a folder says, by the template's names; empty without a card.

    A converter's card tells what was converted and how, which nothing else in the folder does.

    Args:
        folder: The model's folder.
    """
    path = folder / "README.md"
    if not path.is_file() or path.is_symlink():
        return {}
    text = path.read_text(encoding="utf-8")
    found = {}
    license_line = re.search(r'(?m)^license: "?([\w.-]+)"?$', text)
    heading = re.search(r"(?ms)^# (?P<title>[^\n]+)\n(?P<summary>.*?)^\| \| \|$", text)
    if heading is None:
        return {}
    if license_line:
        found["license"] = license_line[1]
    found |= {name: value.strip() for name, value in heading.groupdict().items()}
    sections = dict(re.findall(r"(?ms)^## ([^\n]+)\n(.*?)(?=^## |\Z)", text))
    for name, title in (
        ("training_data", "Training data"),
        ("recipe", "Recipe"),
        ("scores", "Scores"),
        ("limits", "Limits and bias"),
        ("license_text", "Licence"),
    ):
        if title in sections:
            found[name] = sections[title].partition(_TEMPLATE_LIMITS)[0].strip()
    return found
