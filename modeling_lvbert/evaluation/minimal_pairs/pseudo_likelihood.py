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
"""Scores sentences by any language model of transformers.

The metrics are those of `pseudo_likelihood_plan`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from .pseudo_likelihood_model import (
    SelectedLogits,
    check_causality,
    check_output_shift,
    compute_logits,
    count_vocabulary,
)
from .pseudo_likelihood_plan import (
    MASKING_METRICS,
    METRICS,
    EncodedSentence,
    ScoringPlan,
    check_special_tokens,
    encode_sentences,
    make_batches,
    plan_scoring,
)

DEFAULT_BATCH_SIZE = 8192


class Processes(Protocol):
    """What is needed of accelerate's `AcceleratorState`."""

    process_index: int
    num_processes: int
    device: torch.device
    is_main_process: bool


@dataclass(frozen=True)
class SentenceScores:
    """Scores of sentences, in nats.

    Attributes:
        totals: Sums over the tokens that are scored, (sentences,).
        num_tokens: Their numbers, (sentences,).
        is_constant: Whether every token of every sentence got the same score: such a model tells
            nothing, and sums of its scores only count tokens.
    """

    totals: np.ndarray
    num_tokens: np.ndarray
    is_constant: bool

    def per_token(self) -> np.ndarray:
        """Returns the mean score of each sentence's tokens, (sentences,)."""
        return self.totals / self.num_tokens


def check_vocabulary(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> None:
    """Checks that the model has a row for each id of the tokenizer.

    Raises:
        ValueError: It has not; says which tokens.
    """
    num_rows = count_vocabulary(model)
    beyond = sorted(
        (number, token) for token, number in tokenizer.get_vocab().items() if number >= num_rows
    )
    if beyond:
        names = ", ".join(f"{token!r} ({number})" for number, token in beyond[:5])
        more = f" and {len(beyond) - 5} more" if len(beyond) > 5 else ""
        raise ValueError(
            f"the tokenizer has ids that the model, with a vocabulary of {num_rows}, has no row "
            f"for: {names}{more}; they do not belong together"
        )


def find_longest_input(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> int:
    """Returns the most tokens that a model takes, as far as it and its tokenizer say."""
    name = model.config.attribute_map.get("max_position_embeddings", "max_position_embeddings")
    most = model.config.to_dict().get(name)
    longest = tokenizer.model_max_length
    # Models without a table of positions say nothing, or -1.
    return longest if most is None or most < 1 else min(most, longest)


class SentenceScorer:
    """Scores sentences by one model."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        metric: str = "pll",
        *,
        temperature: float = 1.0,
        batch_size: int = DEFAULT_BATCH_SIZE,
        processes: Processes | None = None,
    ) -> None:
        """Sets up the scorer; the model is put into evaluation mode.

        Args:
            model: The model, on its device: a masked language model, for `causal` a decoder, for
                `rtd` a discriminator.
            tokenizer: Its tokenizer.
            metric: One of `METRICS`.
            temperature: Logits are divided by it.
            batch_size: Tokens that the model takes at once.
            processes: The processes that share the work, each with this model; one if None.

        Raises:
            ValueError: There is no such metric, a number is out of range, or model and tokenizer do
                not fit the metric or each other.
        """
        if metric not in METRICS:
            raise ValueError(f"metric {metric!r}: must be one of {', '.join(METRICS)}")
        if not 0 < temperature < float("inf"):
            raise ValueError(f"temperature {temperature}: must be positive and finite")
        if batch_size < 1:
            raise ValueError(f"batch_size {batch_size}: must be at least 1")
        check_vocabulary(tokenizer, model)
        check_special_tokens(tokenizer, metric)
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.metric = metric
        self.temperature = temperature
        self.batch_size = batch_size
        self.processes = processes

    def encode(
        self, sentences: Sequence[str], names: Sequence[str] | None = None
    ) -> list[EncodedSentence]:
        """Returns sentences as the model takes them.

        Args:
            sentences: Plain text.
            names: What the sentences are called in errors; themselves if None.

        Raises:
            ValueError: A sentence has no token that could be scored, or too many.
        """
        encoded = encode_sentences(self.tokenizer, sentences, self.metric)
        longest = find_longest_input(self.tokenizer, self.model)
        for number, sentence in enumerate(encoded):
            name = repr(sentences[number]) if names is None else names[number]
            if not sentence.scored:
                raise ValueError(f"{name}: {sentences[number]!r} has no token that can be scored")
            if len(sentence.ids) > longest:
                raise ValueError(
                    f"{name}: {len(sentence.ids)} tokens, but the model takes {longest} at most"
                )
        return encoded

    def score(self, sentences: Sequence[str], names: Sequence[str] | None = None) -> SentenceScores:
        """Returns the scores of sentences.

        The logarithms of probabilities are computed in at least float32, whatever the model
        computes in, and added in float64.

        Args:
            sentences: Plain text; equal ones are scored once.
            names: What the sentences are called in errors; themselves if None.

        Raises:
            ValueError: A sentence cannot be scored, or the model is not of the metric's kind.
        """
        distinct = list(dict.fromkeys(sentences))
        places = {sentence: place for place, sentence in enumerate(distinct)}
        if names is not None:
            first = dict(zip(reversed(sentences), reversed(names), strict=True))
            names = [first[sentence] for sentence in distinct]
        encoded = self.encode(distinct, names)
        plan = plan_scoring(encoded, self.metric, self.tokenizer.mask_token_id)
        terms = self._score_terms(plan, encoded)
        totals = np.bincount(plan.term_sentences, weights=terms, minlength=len(encoded))
        counts = np.bincount(plan.term_sentences, minlength=len(encoded))
        order = [places[sentence] for sentence in sentences]
        return SentenceScores(totals[order], counts[order], bool(np.ptp(terms) == 0))

    @torch.inference_mode()
    def _score_terms(self, plan: ScoringPlan, encoded: list[EncodedSentence]) -> np.ndarray:
        """Returns the score of each term, (terms,): equal for any number of processes."""
        batches = make_batches(plan.rows, self.batch_size)
        compute = self._prepare_model(plan, batches, encoded)
        rank, size, is_main = 0, 1, True
        if self.processes is not None:
            rank, size = self.processes.process_index, self.processes.num_processes
            is_main = self.processes.is_main_process
        device = self.model.device
        # Each process leaves 0 where the others compute.
        terms = torch.zeros(len(plan.term_rows), dtype=torch.float64)
        own = batches[rank::size]
        for batch in transformers_logging.tqdm(own, desc="scoring", disable=not is_main):
            chosen = plan.select_terms(batch)
            ids = torch.tensor([plan.rows[row] for row in batch], device=device)
            local = np.searchsorted(batch, plan.term_rows[chosen])
            flat, inverse = np.unique(
                local * ids.shape[1] + plan.term_positions[chosen], return_inverse=True
            )
            scores = compute(
                ids,
                torch.from_numpy(flat).to(device),
                torch.from_numpy(inverse).to(device),
                torch.from_numpy(plan.term_tokens[chosen]).to(device),
            )
            terms[torch.from_numpy(chosen)] = scores.double().cpu()
        if size > 1:
            shared = terms.to(device)
            torch.distributed.all_reduce(shared)
            terms = shared.cpu()
        if not torch.isfinite(terms).all():
            raise ValueError("the model gives scores that are not finite: its weights are damaged")
        return terms.numpy()

    def _prepare_model(
        self, plan: ScoringPlan, batches: list[np.ndarray], encoded: list[EncodedSentence]
    ) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
        """Checks that the model is of the metric's kind and returns how it scores a batch.

        What is returned takes ids (batch, seq), places of logits in the flattened ids, the place
        among these for each term, and each term's token; it gives each term's score.
        """
        sample = torch.tensor([plan.rows[row] for row in batches[0][:4]], device=self.model.device)
        if self.metric == "rtd":
            logits = compute_logits(self.model, sample)
            if logits.shape != sample.shape:
                raise ValueError(
                    f"{type(self.model).__name__} is no discriminator: metric 'rtd' needs one "
                    f"logit for each token, got {tuple(logits.shape)} for {tuple(sample.shape)}"
                )
            return self._score_originals
        if self.metric in MASKING_METRICS:
            check_output_shift(self.model, encoded)
        else:
            check_causality(self.model, encoded)
        select = SelectedLogits(self.model, sample)

        def score(ids: Tensor, flat: Tensor, inverse: Tensor, tokens: Tensor) -> Tensor:
            logits = self._cool(select(ids, flat))
            # (positions, vocabulary)
            return torch.log_softmax(logits, dim=-1)[inverse, tokens]

        return score

    def _score_originals(self, ids: Tensor, flat: Tensor, inverse: Tensor, _: Tensor) -> Tensor:
        logits = self._cool(compute_logits(self.model, ids).flatten()[flat])
        return torch.nn.functional.logsigmoid(-logits)[inverse]

    def _cool(self, logits: Tensor) -> Tensor:
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return logits if self.temperature == 1.0 else logits / self.temperature
