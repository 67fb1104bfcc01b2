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
"""A model's logits at chosen positions, and checks that it is of the kind it is taken for."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from .pseudo_likelihood_plan import EncodedSentence

logger = logging.getLogger(__name__)

# Logits that are computed at once where a model computes them at every position.
_MOST_LOGITS = 2**26
_SHIFTS = (-2, -1, 0, 1, 2)
_NUM_CHECKED = 32


class SelectedLogits:
    """Computes a model's logits at chosen positions only, where that gives the same.

    The output matrix gets the chosen positions' hidden states alone. Whether the logits are still
    those of the whole model is tried on a sample; where they are not, or where the model does not
    use its output matrix in the usual way, all logits are computed.
    """

    def __init__(self, model: PreTrainedModel, sample: Tensor) -> None:
        """Tries the short way.

        Args:
            model: Any model whose logits are (batch, seq, vocabulary); in evaluation mode.
            sample: Token ids of a few inputs, (batch, seq).
        """
        self.model = model
        self.head = model.get_output_embeddings()
        self.selects_before_head = self.head is not None and self._gives_the_same(sample)
        if not self.selects_before_head:
            logger.info("logits are computed at every position: the model has no separable head")

    def __call__(self, input_ids: Tensor, positions: Tensor) -> Tensor:
        """Returns logits, (positions, vocabulary).

        Args:
            input_ids: Token ids without padding, (batch, seq).
            positions: Places in the flattened ids, ascending, (positions,).
        """
        if self.selects_before_head:
            return self._select_before_head(input_ids, positions)
        length = input_ids.shape[1]
        most_rows = max(1, _MOST_LOGITS // (length * count_vocabulary(self.model)))
        parts = []
        for start in range(0, len(input_ids), most_rows):
            rows = input_ids[start : start + most_rows]
            inside = (positions >= start * length) & (positions < (start + len(rows)) * length)
            logits = compute_logits(self.model, rows)
            parts.append(logits.flatten(0, 1)[positions[inside] - start * length])
        return torch.cat(parts)

    def _select_before_head(self, input_ids: Tensor, positions: Tensor) -> Tensor:
        def select(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            return (inputs[0].flatten(0, 1)[positions], *inputs[1:])

        handle = self.head.register_forward_pre_hook(select)
        try:
            return compute_logits(self.model, input_ids)
        finally:
            handle.remove()

    def _gives_the_same(self, sample: Tensor) -> bool:
        positions = torch.arange(0, sample.numel(), 2, device=sample.device)
        try:
            selected = self._select_before_head(sample, positions)
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError):
            return False
        expected = compute_logits(self.model, sample).flatten(0, 1)[positions]
        if selected.shape != expected.shape:
            return False
        largest = max(1.0, expected.abs().max().item())
        tolerance = 16 * torch.finfo(expected.dtype).eps * largest
        return (selected - expected).abs().max().item() <= tolerance


def count_vocabulary(model: PreTrainedModel) -> int:
    """Returns the number of ids that a model has a row for."""
    embeddings: Any = model.get_input_embeddings()
    return int(embeddings.weight.shape[0])


def compute_logits(model: PreTrainedModel, input_ids: Tensor) -> Tensor:
    """Returns a model's logits for token ids without padding, (batch, seq)."""
    outputs = model(input_ids=input_ids, attention_mask=torch.ones_like(input_ids))
    return outputs["logits"] if isinstance(outputs, Mapping) else outputs[0]


def _choose_sample(sentences: Sequence[EncodedSentence]) -> list[EncodedSentence]:
    """Returns some sentences from all over."""
    return list(sentences)[:: max(1, len(sentences) // _NUM_CHECKED)][:_NUM_CHECKED]


def _to_input(sentence: EncodedSentence, model: PreTrainedModel) -> Tensor:
    return torch.tensor([sentence.ids], device=model.device)


@torch.inference_mode()
def count_shifted_hits(
    model: PreTrainedModel, sentences: Sequence[EncodedSentence]
) -> tuple[dict[int, int], int]:
    """Counts how often the logits at a position, shown the text, are largest for a token near by.

    The tokens are the same for every shift, so that a model that always says the same word has as
    many hits at each.

    Args:
        model: A masked language model.
        sentences: Sentences.

    Returns:
        Hits by the token's distance to the right of its logits, and the number of tokens.
    """
    hits, num_tokens = dict.fromkeys(_SHIFTS, 0), 0
    for sentence in _choose_sample(sentences):
        guesses = compute_logits(model, _to_input(sentence, model))[0].argmax(dim=-1).tolist()
        for position in sentence.scored:
            num_tokens += 1
            for shift in _SHIFTS:
                source = position - shift
                if 0 <= source < len(guesses):
                    hits[shift] += guesses[source] == sentence.ids[position]
    return hits, num_tokens


def check_output_shift(model: PreTrainedModel, sentences: Sequence[EncodedSentence]) -> None:
    """Checks that the logits at a position are about the token there.

    Some models that fill masks, as those trained on masked next-token prediction, say at each
    position what comes one later.

    Raises:
        ValueError: They are clearly about another token.
    """
    hits, num_tokens = count_shifted_hits(model, sentences)
    best = max(_SHIFTS, key=lambda shift: (hits[shift], -abs(shift)))
    margin = hits[best] - hits[0]
    # Three standard deviations of a difference of counts, and no small share of the tokens.
    if best and margin > max(0.1 * num_tokens, 3 * (hits[best] + hits[0]) ** 0.5):
        raise ValueError(
            f"the model's logits at a position are about the token {best:+d} from there: shown the "
            f"text, they are largest for {hits[best]} of {num_tokens} tokens at this shift and for "
            f"{hits[0]} at shift 0; a masked language model without shift is needed"
        )


@torch.inference_mode()
def check_causality(model: PreTrainedModel, sentences: Sequence[EncodedSentence]) -> None:
    """Checks that a model's logits do not depend on later tokens.

    Raises:
        ValueError: They do.
    """
    longest = max(_choose_sample(sentences), key=lambda sentence: len(sentence.ids))
    original = _to_input(longest, model)
    changed = original.clone()
    changed[0, -1] = longest.ids[0]
    before, after = (compute_logits(model, ids)[0, :-1] for ids in (original, changed))
    if not torch.allclose(before, after, rtol=1e-3, atol=1e-3):
        raise ValueError(
            f"{type(model).__name__} sees the tokens after a position: metric 'causal' needs a "
            "decoder; a masked language model is scored with metric 'pll'"
        )
