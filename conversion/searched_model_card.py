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
"""Fills MODEL_CARD.md for a run that is published: every number comes from the run's files."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from huggingface_hub import EvalResult, ModelCard
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from . import card_sections
from .model_card import FLOPS_LENGTH, PLACEHOLDER, TEMPLATE, describe_model, fill_template
from .order_figure import describe_order
from .publishing_plan import PublishingPlan, read_json
from .run_records import RunRecord, Score, read_run

DEFAULT_LICENSE = "apache-2.0"
_FAMILIES = {"lvbert": "LV-BERT", "elcbert": "ELC-BERT"}
_HEADS = {
    "ForMaskedLM": "a masked language model",
    "ForPreTraining": "a discriminator of replaced tokens (ELECTRA)",
    "ForSequenceClassification": "fine-tuned to classify texts",
    "ForTokenClassification": "fine-tuned to classify tokens",
    "ForQuestionAnswering": "fine-tuned to find answers in a text",
    "ForMultipleChoice": "fine-tuned to choose among texts",
}


@dataclass(frozen=True)
class CardOptions:
    """What the user decides about the card.

    Attributes:
        repo_id: Name on the Hub.
        revision: Branch that the example opens.
        license: Identifier of the weights' licence; None for the earlier card's or Apache-2.0.
        language: Code of the texts' language; None where it is not told.
        extras: "onnx", "sentence_transformers".
    """

    repo_id: str
    revision: str = "main"
    license: str | None = None
    language: str | None = None
    extras: Sequence[str] = ()


def write_card(
    plan: PublishingPlan,
    models: Mapping[str, PreTrainedModel],
    tokenizer: PreTrainedTokenizerBase,
    options: CardOptions,
    figure: str | None,
) -> str:
    """Returns the card, metadata included.

    Args:
        plan: What is published.
        models: The models by place.
        tokenizer: Their tokenizer.
        options: What the user decides.
        figure: Name of the picture of the order, None where it could not be drawn.

    Raises:
        ValueError: A record is damaged, or the metadata are not valid.
    """
    model, heading = models[""], type(models[""]).__name__
    script = "run_search" if plan.is_inherited else None
    record = read_run(plan.record_dirs[0], heading, options.repo_id, script)
    record = _add_search_scores(record, plan)
    supernet = record
    if plan.search_dir is not None and not plan.is_inherited:
        supernet = read_run(plan.search_dir / "supernet", heading, options.repo_id, "run_search")
    values = {
        **describe_model(model, _find_length(record)),
        "language": options.language or "",
        "title": options.repo_id.rpartition("/")[2],
        "summary": _summarize(model, plan),
        "order_figure": _show_order(model, figure),
        "repo_id": options.repo_id,
        "revision": options.revision,
        "example_input": _choose_example(heading, tokenizer),
        "more_usage": card_sections.write_more_usage(models, plan, options.repo_id, options.extras),
        "training_data": card_sections.write_training_data(record),
        "recipe": card_sections.write_recipe(record, plan),
        "search": card_sections.write_search(supernet, plan),
        "scores": card_sections.write_scores(record, plan),
        "limits": card_sections.write_limits(model, record, plan),
    }
    if record.kind == "none" and plan.search_dir is None:
        values |= card_sections.read_earlier_card(plan.model_dir)
    earlier = values.pop("license", None)
    values["license"] = options.license or earlier or DEFAULT_LICENSE
    if options.license or "license_text" not in values:
        values["license_text"] = _describe_license(str(values["license"]))
    text = fill_template(TEMPLATE.read_text(encoding="utf-8"), values)
    return _add_metadata(text, record, options, heading)


def _add_search_scores(record: RunRecord, plan: PublishingPlan) -> RunRecord:
    """Returns the record with the supernet's score of the order, where these are its weights."""
    if not plan.is_inherited:
        return record
    result = read_json(plan.records["search_result.json"])
    fitness = result.get("fitness", {})
    where = f"{result.get('scored_rows')} rows of validation of {' and '.join(record.data)}"
    data_id = str(record.options.get("dataset_name") or "local")
    scores = [
        Score(f"supernet_{name}", float(fitness[name]), where.replace("`", ""), data_id)
        for name in ("accuracy", "loss")
        if isinstance(fitness.get(name), int | float)
    ]
    return RunRecord(**{**vars(record), "scores": (*record.scores, *scores)})


def _find_length(record: RunRecord) -> int:
    """Returns the length of the run's first rows in tokens, the usual one where none is told."""
    length = record.options.get("max_seq_length")
    stages = record.options.get("stages")
    if length is None and isinstance(stages, list) and stages:
        length = str(stages[0]).split(":")[1]
    return int(length or FLOPS_LENGTH)


def _summarize(model: PreTrainedModel, plan: PublishingPlan) -> str:
    heading = type(model).__name__
    what = next((text for end, text in _HEADS.items() if heading.endswith(end)), "an encoder")
    family = _FAMILIES[model.config.model_type]
    origin = ""
    if plan.search_dir is not None:
        result = read_json(plan.records["search_result.json"])
        origin = f" Its layer order is the best of {result.get('evaluated')} that a search scored."
    return f"{family}, {what}.{origin} The head is the one of `{heading}`."


def _show_order(model: PreTrainedModel, figure: str | None) -> str:
    text = describe_order(model.config.layer_order)
    return f"![{text}]({figure})" if figure else f"{text}."


def _choose_example(heading: str, tokenizer: PreTrainedTokenizerBase) -> str:
    """Returns the arguments of the example's call, as Python."""
    if heading.endswith("ForQuestionAnswering"):
        return 'question="Who sat?", context="The cat sat on the mat."'
    if heading.endswith("ForMaskedLM"):
        return json.dumps(f"The cat sat on the {tokenizer.mask_token}.")
    return json.dumps("The cat sat on the mat.")


def _describe_license(name: str) -> str:
    return (
        f"The weights are published under `{name}`, as chosen by who published them. The code "
        "files in this repository are Apache-2.0. What the owners of the training text allow is "
        "not known here: look at the licences of the data before you use or share the weights."
    )


def _add_metadata(text: str, record: RunRecord, options: CardOptions, heading: str) -> str:
    """Returns the card with scores, data and language in its metadata.

    Raises:
        ValueError: The metadata are not valid, or a placeholder is left.
    """
    card = ModelCard(text)
    data: Any = card.data
    data.language = options.language
    if record.options.get("dataset_name"):
        data.datasets = [record.options["dataset_name"]]
    base = record.options.get("model_name_or_path")
    # What was shortened is a folder, which means nothing elsewhere.
    if isinstance(base, str) and base.count("/") == 1:
        data.base_model = base
    if record.scores:
        data.model_name = options.repo_id.rpartition("/")[2]
        data.eval_results = [_make_result(score, data.pipeline_tag) for score in record.scores]
    content = str(card)
    # Read again as the Hub does: what cannot be parsed stops here.
    parsed: Any = ModelCard(content).data
    if parsed.eval_results != data.eval_results or PLACEHOLDER.search(content):
        raise ValueError(f"the card of {heading} is not valid: {parsed.to_dict()}")
    return content


def _make_result(score: Score, task: str) -> EvalResult:
    return EvalResult(
        task_type=task,
        dataset_type=score.data_id,
        dataset_name=score.data,
        # The client puts scores together whose data differ in their names alone.
        dataset_split=score.data,
        metric_type=score.metric,
        metric_name=score.metric.replace("_", " "),
        metric_value=score.value,
    )
