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
"""The task models' forward passes and losses, written once for both families.

A family's class brings the encoder as its base model and a head module; the mix-ins here do the
rest. A loss is the sum over what has a label, divided by the count of that or, where the Trainer
gives it, by `num_items_in_batch`: the count over all of a step's parts, so that the update does not
depend on how the step is split. The label -100 marks what is not to be learned. A batch without
any label has the loss 0.
"""

from typing import Any

import torch
from torch import nn
from transformers.modeling_outputs import (
    MaskedLMOutput,
    ModelOutput,
    MultipleChoiceModelOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils.generic import can_return_tuple

IGNORED_LABEL = -100


def mean_over_items(
    total: torch.Tensor, count: torch.Tensor, num_items_in_batch: torch.Tensor | int | None
) -> torch.Tensor:
    """Returns a summed loss divided by its number of items, in nats per item.

    Args:
        total: Sum of the losses, a scalar.
        count: Items in this batch, a scalar.
        num_items_in_batch: Items in the whole optimizer step, where the caller knows them.
    """
    if num_items_in_batch is None:
        items = count
    elif isinstance(num_items_in_batch, torch.Tensor):
        items = num_items_in_batch.to(total.device)
    else:
        items = torch.full_like(count, num_items_in_batch)
    return total / items.clamp(min=1)


def cross_entropy(
    logits: torch.Tensor,
    labels: torch.Tensor,
    num_items_in_batch: torch.Tensor | int | None = None,
) -> torch.Tensor:
    """Returns the mean cross-entropy in nats, computed in at least float32.

    Args:
        logits: (items, classes) or any shape that flattens to it.
        labels: Class of every item, -100 to leave it out.
        num_items_in_batch: See `mean_over_items`.
    """
    logits = logits.reshape(-1, logits.shape[-1])
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    labels = labels.reshape(-1).to(logits.device)
    total = nn.functional.cross_entropy(logits, labels, ignore_index=IGNORED_LABEL, reduction="sum")
    return mean_over_items(total, labels.ne(IGNORED_LABEL).sum(), num_items_in_batch)


def binary_cross_entropy(
    logits: torch.Tensor,
    labels: torch.Tensor,
    num_items_in_batch: torch.Tensor | int | None = None,
) -> torch.Tensor:
    """Returns the mean binary cross-entropy in nats of logits and labels of equal shape."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    labels = labels.to(logits)
    kept = labels.ne(IGNORED_LABEL)
    losses = nn.functional.binary_cross_entropy_with_logits(
        logits, labels.clamp(min=0), reduction="none"
    )
    return mean_over_items(losses.masked_fill(~kept, 0.0).sum(), kept.sum(), num_items_in_batch)


def squared_error(
    logits: torch.Tensor,
    labels: torch.Tensor,
    num_items_in_batch: torch.Tensor | int | None = None,
) -> torch.Tensor:
    """Returns the mean squared error of predictions and targets with equal numbers of elements."""
    logits = logits.reshape(-1)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    labels = labels.reshape(-1).to(logits)
    kept = labels.ne(IGNORED_LABEL)
    errors = (logits - labels).square().masked_fill(~kept, 0.0)
    return mean_over_items(errors.sum(), kept.sum(), num_items_in_batch)


def sequence_classification_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    problem_type: str | None,
    num_items_in_batch: torch.Tensor | int | None = None,
) -> torch.Tensor:
    """Returns the loss of a problem type; where there is none, it is read off logits and labels.

    Args:
        logits: (batch, labels).
        labels: (batch,) classes or targets, or (batch, labels) of zeros and ones or targets.
        problem_type: `regression`, `single_label_classification`, `multi_label_classification` or
            None: regression for one logit, else one label where labels are integers.
        num_items_in_batch: See `mean_over_items`.

    Raises:
        ValueError: There is no such problem type.
    """
    if problem_type is None:
        if logits.shape[-1] == 1:
            problem_type = "regression"
        elif labels.is_floating_point():
            problem_type = "multi_label_classification"
        else:
            problem_type = "single_label_classification"
    losses = {
        "regression": squared_error,
        "single_label_classification": cross_entropy,
        "multi_label_classification": binary_cross_entropy,
    }
    if problem_type not in losses:
        raise ValueError(f"unknown problem_type {problem_type!r}; known: {', '.join(losses)}")
    return losses[problem_type](logits, labels, num_items_in_batch)


def span_loss(
    start_logits: torch.Tensor,
    end_logits: torch.Tensor,
    start_positions: torch.Tensor,
    end_positions: torch.Tensor,
    num_items_in_batch: torch.Tensor | int | None = None,
) -> torch.Tensor:
    """Returns the mean of the start's and the end's cross-entropy.

    Args:
        start_logits: (batch, seq).
        end_logits: (batch, seq).
        start_positions: (batch,) or (batch, 1); a position outside of the sequence is left out.
        end_positions: The same.
        num_items_in_batch: See `mean_over_items`.
    """
    losses = []
    for logits, positions in ((start_logits, start_positions), (end_logits, end_positions)):
        positions = positions.reshape(-1).to(logits.device)
        outside = (positions < 0) | (positions >= logits.shape[-1])
        labels = positions.masked_fill(outside, IGNORED_LABEL)
        losses.append(cross_entropy(logits, labels, num_items_in_batch))
    return (losses[0] + losses[1]) / 2


class TaskMixin:
    """The forward pass of a task with one label tensor.

    A subclass says how logits follow from the encoder's last output, what their loss is and which
    output class carries them.
    """

    output_class: type[ModelOutput]

    def compute_logits(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Returns the task's logits from the last hidden state, (batch, seq, hidden)."""
        return self.classifier(hidden_states)  # type: ignore[attr-defined]

    def compute_loss(
        self,
        logits: torch.Tensor,
        labels: torch.Tensor,
        attention_mask: torch.Tensor | None,
        num_items_in_batch: torch.Tensor | int | None,
    ) -> torch.Tensor:
        """Returns the loss, a scalar: the cross-entropy of every labelled item."""
        return cross_entropy(logits, labels, num_items_in_batch)

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> ModelOutput:
        """Returns logits, and the loss where labels are given.

        Args:
            input_ids: Token ids, (batch, seq).
            attention_mask: 1 for real tokens, (batch, seq).
            token_type_ids: Segments, (batch, seq).
            inputs_embeds: Embeddings instead of ids, (batch, seq, embedding).
            labels: The task's labels, -100 for what is not to be learned.
            kwargs: Further arguments of the encoder, and `num_items_in_batch`.
        """
        outputs = self.base_model(  # type: ignore[attr-defined]
            input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            inputs_embeds=inputs_embeds,
            return_dict=True,
            **kwargs,
        )
        logits = self.compute_logits(outputs.last_hidden_state)
        loss = None
        if labels is not None:
            num_items_in_batch = kwargs.get("num_items_in_batch")
            loss = self.compute_loss(logits, labels, attention_mask, num_items_in_batch)
        return self.output_class(
            loss=loss,
            logits=logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


class MaskedLMMixin(TaskMixin):
    """Masked language model: logits, (batch, seq, vocabulary), by the family's own head."""

    output_class = MaskedLMOutput


class TokenClassificationMixin(TaskMixin):
    """Classification of every token: logits, (batch, seq, labels)."""

    output_class = TokenClassifierOutput


class SequenceClassificationMixin(TaskMixin):
    """Classification or regression of whole sequences by the first token: (batch, labels)."""

    output_class = SequenceClassifierOutput

    def compute_logits(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Returns logits, (batch, labels)."""
        return self.classifier(hidden_states[:, 0])  # type: ignore[attr-defined]

    def compute_loss(
        self,
        logits: torch.Tensor,
        labels: torch.Tensor,
        attention_mask: torch.Tensor | None,
        num_items_in_batch: torch.Tensor | int | None,
    ) -> torch.Tensor:
        """Returns the loss of the configuration's problem type, a scalar."""
        problem_type = self.config.problem_type  # type: ignore[attr-defined]
        return sequence_classification_loss(logits, labels, problem_type, num_items_in_batch)


class QuestionAnsweringMixin:
    """Extractive question answering: `qa_outputs` scores every token as start and as end."""

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        start_positions: torch.Tensor | None = None,
        end_positions: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> QuestionAnsweringModelOutput:
        """Returns start and end logits, (batch, seq) each, and the loss where positions are given.

        Args:
            input_ids: Token ids, (batch, seq).
            attention_mask: 1 for real tokens, (batch, seq).
            token_type_ids: Segments, (batch, seq).
            inputs_embeds: Embeddings instead of ids, (batch, seq, embedding).
            start_positions: First token of the answer, (batch,).
            end_positions: Last token of the answer, (batch,).
            kwargs: Further arguments of the encoder.
        """
        outputs = self.base_model(  # type: ignore[attr-defined]
            input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            inputs_embeds=inputs_embeds,
            return_dict=True,
            **kwargs,
        )
        logits = self.qa_outputs(outputs.last_hidden_state)  # type: ignore[attr-defined]
        start_logits, end_logits = logits.unbind(dim=-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = span_loss(
                start_logits,
                end_logits,
                start_positions,
                end_positions,
                kwargs.get("num_items_in_batch"),
            )
        return QuestionAnsweringModelOutput(
            loss=loss,
            start_logits=start_logits.contiguous(),
            end_logits=end_logits.contiguous(),
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


class MultipleChoiceMixin:
    """Choice among several continuations: `classifier` scores the first token of each."""

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> MultipleChoiceModelOutput:
        """Returns logits, (batch, choices), and the loss where labels are given.

        Args:
            input_ids: Token ids, (batch, choices, seq).
            attention_mask: 1 for real tokens, (batch, choices, seq).
            token_type_ids: Segments, (batch, choices, seq).
            inputs_embeds: Embeddings instead of ids, (batch, choices, seq, embedding).
            labels: The right choice, (batch,).
            kwargs: Further arguments of the encoder.
        """
        given = input_ids if input_ids is not None else inputs_embeds
        if given is None:
            raise ValueError("give one of input_ids and inputs_embeds, got neither")
        choices = given.shape[1]
        position_ids = kwargs.pop("position_ids", None)
        if position_ids is not None:
            kwargs["position_ids"] = position_ids.flatten(0, 1)
        outputs = self.base_model(  # type: ignore[attr-defined]
            None if input_ids is None else input_ids.flatten(0, 1),
            attention_mask=None if attention_mask is None else attention_mask.flatten(0, 1),
            token_type_ids=None if token_type_ids is None else token_type_ids.flatten(0, 1),
            inputs_embeds=None if inputs_embeds is None else inputs_embeds.flatten(0, 1),
            return_dict=True,
            **kwargs,
        )
        logits = self.classifier(outputs.last_hidden_state[:, 0])  # type: ignore[attr-defined]
        # (batch, choices)
        logits = logits.view(-1, choices)
        loss = None
        if labels is not None:
            loss = cross_entropy(logits, labels, kwargs.get("num_items_in_batch"))
        return MultipleChoiceModelOutput(
            loss=loss,
            logits=logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )
