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
"""Scores a model on a folder of minimal pairs and writes what came out."""

import dataclasses
import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    PreTrainedModel,
)

from ..model_loading import ModelArguments, load_config, load_model, load_tokenizer
from ..whole_files import write_json, write_text
from .pairs import MinimalPair, PairResults, judge, read_pairs, summarize
from .pseudo_likelihood import (
    DEFAULT_BATCH_SIZE,
    Processes,
    SentenceScorer,
    SentenceScores,
)
from .pseudo_likelihood_plan import METRICS
from .table import format_table, read_published

logger = logging.getLogger(__name__)

NORMALIZATIONS = ("sum", "per_token")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_AUTO_CLASSES = {
    "pll": AutoModelForMaskedLM,
    "within_word_l2r": AutoModelForMaskedLM,
    "causal": AutoModelForCausalLM,
    "rtd": AutoModelForPreTraining,
}
_AVERAGING = "fields, terms and overall: mean over paradigms; within a paradigm: over pairs"

# By these a file is known as one that this module has written.
_RESULT_KEYS = {"overall", "by_field", "by_term", "by_paradigm"}
_SCORE_KEYS = {"paradigm", "score_good", "score_bad"}


@dataclass
class MinimalPairArguments:
    """What to score, how, and where to write."""

    blimp_dir: str = field(
        metadata={"help": "Folder of BLiMP's .jsonl files or of files like them, one a paradigm."}
    )
    output_file: str = field(metadata={"help": "Accuracies, as JSON."})
    scores_file: str | None = field(
        default=None, metadata={"help": "Also write each pair's scores, as JSON lines."}
    )
    metric: str = field(
        default="pll",
        metadata={
            "help": "pll: each token masked alone (Salazar et al. 2020); within_word_l2r: with the "
            "rest of its word (Kauf and Ivanova 2023); causal: decoders; rtd: ELECTRA's "
            "discriminators, by the probability of being original.",
            "choices": list(METRICS),
        },
    )
    normalization: str = field(
        default="sum",
        metadata={
            "help": "What is compared: sums over tokens, or means.",
            "choices": list(NORMALIZATIONS),
        },
    )
    temperature: float = field(default=1.0, metadata={"help": "Logits are divided by it."})
    batch_size: int = field(
        default=DEFAULT_BATCH_SIZE, metadata={"help": "Tokens that the model takes at once."}
    )
    dtype: str = field(
        default="float32",
        metadata={
            "help": "What the model computes in; probabilities are float32 always.",
            "choices": list(DTYPES),
        },
    )
    published_models_summary: str | None = field(
        default=None, metadata={"help": "BLiMP's models_summary.jsonl, for the table."}
    )
    published_human_summary: str | None = field(
        default=None, metadata={"help": "BLiMP's human_validation_summary.csv, for the table."}
    )

    def __post_init__(self) -> None:
        """Checks what can be checked without reading.

        Raises:
            ValueError: A value is not one of those allowed.
        """
        for name, allowed in (
            ("metric", METRICS),
            ("normalization", NORMALIZATIONS),
            ("dtype", tuple(DTYPES)),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} {getattr(self, name)!r}: must be one of {', '.join(allowed)}"
                )
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature {self.temperature}: must be positive and finite")
        if self.batch_size < 1:
            raise ValueError(f"batch_size {self.batch_size}: must be at least 1")


def _check_output(option: str, path: str, blimp_dir: str, keys: set[str]) -> None:
    """Checks that a file may be written: it is new, or an earlier one of its own kind."""
    file = Path(path).resolve()
    if file.is_relative_to(Path(blimp_dir).resolve()):
        raise ValueError(f"{option} {path!r} lies in blimp_dir {blimp_dir!r}: take another folder")
    lowest = next(parent for parent in file.parents if parent.exists())
    if not lowest.is_dir():
        raise ValueError(f"{option} {path!r}: {str(lowest)!r} is a file, no folder")
    if file.is_dir():
        raise ValueError(f"{option} {path!r} is a folder: a file's name is needed")
    if not file.exists():
        return
    try:
        with file.open(encoding="utf-8") as lines:
            content = json.loads(next(lines, "") if option == "scores_file" else lines.read())
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict) or not keys <= set(content):
        raise ValueError(f"{option} {path!r} holds something else, which is not overwritten")


def _check_outputs(arguments: MinimalPairArguments) -> None:
    _check_output("output_file", arguments.output_file, arguments.blimp_dir, _RESULT_KEYS)
    if arguments.scores_file is None:
        return
    _check_output("scores_file", arguments.scores_file, arguments.blimp_dir, _SCORE_KEYS)
    if Path(arguments.scores_file).resolve() == Path(arguments.output_file).resolve():
        raise ValueError(f"scores_file and output_file are both {arguments.output_file!r}")


def load_language_model(
    model_args: ModelArguments, metric: str, dtype: torch.dtype
) -> PreTrainedModel:
    """Loads a model for a metric; each of its weights is a saved one.

    Args:
        model_args: Where it lies.
        metric: One of `METRICS`.
        dtype: What it shall compute in.

    Raises:
        ValueError: It cannot be loaded, or has no saved head of the metric's kind.
    """
    if model_args.ignore_mismatched_sizes:
        raise ValueError("ignore_mismatched_sizes: a model with a new head cannot be scored")
    config = load_config(model_args)
    try:
        model = load_model(_AUTO_CLASSES[metric], model_args, config, head_may_be_new=False)
    except ValueError as error:
        raise ValueError(
            f"metric {metric!r}: {error} (pll and within_word_l2r are for masked language models, "
            "causal for decoders, rtd for ELECTRA's discriminators)"
        ) from error
    return model.to(dtype)  # type: ignore[arg-type]


def _format_scores(
    pairs: list[MinimalPair], good: np.ndarray, bad: np.ndarray, verdicts: list[float]
) -> str:
    rows = zip(pairs, good.tolist(), bad.tolist(), verdicts, strict=True)
    return "".join(
        json.dumps(
            {
                "paradigm": pair.paradigm,
                "sentence_good": pair.good,
                "sentence_bad": pair.bad,
                "score_good": score_good,
                "score_bad": score_bad,
                "verdict": verdict,
            },
            ensure_ascii=False,
        )
        + "\n"
        for pair, score_good, score_bad, verdict in rows
    )


def _compare(
    scores: SentenceScores, normalization: str
) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Returns scores of the good and of the bad sentences, which take turns, and the verdicts."""
    values = scores.totals if normalization == "sum" else scores.per_token()
    good, bad = values[0::2], values[1::2]
    if scores.is_constant:
        logger.warning(
            "the model gives every token the same probability: it tells nothing about any pair, "
            "and all count as ties"
        )
        return good, bad, [0.5] * len(good)
    return good, bad, [judge(*both) for both in zip(good, bad, strict=True)]


def evaluate_minimal_pairs(
    model_args: ModelArguments, arguments: MinimalPairArguments, processes: Processes
) -> tuple[PairResults, str]:
    """Scores a model on minimal pairs and writes the results.

    Args:
        model_args: The model.
        arguments: What to score and how.
        processes: The processes that share the work; the main one writes.

    Returns:
        The results, and a table of them.

    Raises:
        ValueError: Something given is wrong, or the model is not of the metric's kind.
    """
    _check_outputs(arguments)
    published = read_published(
        arguments.published_models_summary, arguments.published_human_summary
    )
    pairs = read_pairs(arguments.blimp_dir)
    tokenizer = load_tokenizer(model_args)
    model = load_language_model(model_args, arguments.metric, DTYPES[arguments.dtype])
    scorer = SentenceScorer(
        model.to(processes.device),  # type: ignore[arg-type]
        tokenizer,
        arguments.metric,
        temperature=arguments.temperature,
        batch_size=arguments.batch_size,
        processes=processes,
    )
    scores = scorer.score(
        [sentence for pair in pairs for sentence in (pair.good, pair.bad)],
        [f"{pair.place}, {key}" for pair in pairs for key in ("sentence_good", "sentence_bad")],
    )
    good, bad, verdicts = _compare(scores, arguments.normalization)
    results = summarize(pairs, verdicts)
    if processes.is_main_process:
        if arguments.scores_file is not None:
            text = _format_scores(pairs, good, bad, verdicts)
            write_text(Path(arguments.scores_file), text)
        content: dict[str, Any] = {
            **dataclasses.asdict(results),
            "averaging": _AVERAGING,
            "settings": {
                "model_name_or_path": model_args.model_name_or_path,
                "model_revision": model_args.model_revision,
                **{
                    name: getattr(arguments, name)
                    for name in ("blimp_dir", "metric", "normalization", "temperature", "dtype")
                },
            },
        }
        write_json(Path(arguments.output_file), content)
    return results, format_table(results, pairs, published)
