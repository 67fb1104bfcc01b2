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
"""ELECTRA's objective for LV-BERT: a generator and a discriminator in one model (arXiv 2003.10555).

The generator fills masked tokens, its samples replace them, the discriminator says of every token
whether it was replaced. Both halves walk the same layer order; the generator is narrower and
shares all embeddings (LV-BERT's released code). What differs from that code: masked positions are
distinct, and a sample is the inverse of the cumulated probabilities at one number for each
position, so that it depends on the row and position alone and not on the batch around them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import ModelOutput

from ..configuration_lvbert import LVBertConfig
from ..modeling_heads import IGNORED_LABEL, binary_cross_entropy, cross_entropy
from ..modeling_lvbert import LVBertForMaskedLM, LVBertForPreTraining

HALVES = ("discriminator", "generator")
# What the two halves share; the projection to the hidden size is each one's own.
_SHARED = (
    "lvbert.embeddings.word_embeddings.weight",
    "lvbert.embeddings.position_embeddings.weight",
    "lvbert.embeddings.token_type_embeddings.weight",
    "lvbert.embeddings.layer_norm.weight",
    "lvbert.embeddings.layer_norm.bias",
)


def derive_generator_config(config: LVBertConfig, fraction: float) -> LVBertConfig:
    """Returns the generator's configuration: the same order and embeddings, a narrower stack.

    The width is `fraction` of the discriminator's, with one head for every 64 of it and four times
    it within feed-forward layers (LV-BERT's released code).

    Args:
        config: The discriminator's configuration.
        fraction: Share of the hidden size, above 0 and at most 1.

    Raises:
        ValueError: The fraction is out of range, or the width is no multiple of its heads.
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"generator_size {fraction}: must be above 0 and at most 1")
    hidden_size = round(config.hidden_size * fraction)
    width = {
        "hidden_size": hidden_size,
        "intermediate_size": 4 * hidden_size,
        "num_attention_heads": None,
    }
    return LVBertConfig(**{**config.to_dict(), **width})


@strict
class ElectraConfig(PreTrainedConfig):
    """Both halves' configurations and the objective's options.

    Attributes:
        discriminator_fields: Fields of the discriminator's `LVBertConfig`.
        generator_fields: Fields of the generator's. (The Trainer takes an attribute `generator` for
            a configuration of its own kind.)
        generator_weight: Weight of the generator's loss.
        discriminator_weight: Weight of the detection loss.
        temperature: Divides the generator's logits before a sample is drawn.
        disallow_correct: Whether a sample is never the original token.
        uniform_generator: Whether samples are ordinary tokens drawn evenly, without a generator's
            opinion; its loss then has no part.
        tie_embeddings: Whether the halves share word, position and segment embeddings and their
            layer norm.
        special_token_ids: Ids that an even draw never gives.
    """

    model_type = "lvbert_electra"

    discriminator_fields: dict | None = None
    generator_fields: dict | None = None
    generator_weight: float | int = 1.0
    discriminator_weight: float | int = 50.0
    temperature: float | int = 1.0
    disallow_correct: bool = False
    uniform_generator: bool = False
    tie_embeddings: bool = True
    special_token_ids: list[int] | None = None
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs: Any) -> None:
        for name in ("generator_weight", "discriminator_weight"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.temperature <= 0:
            raise ValueError(f"temperature must be positive, got {self.temperature}")
        self.discriminator_fields = self.discriminator_fields or LVBertConfig().to_dict()
        if self.generator_fields is None:
            self.generator_fields = derive_generator_config(
                self.half("discriminator"), 0.25
            ).to_dict()
        if self.tie_embeddings:
            self._check_shared_sizes()
        self.pad_token_id = self.discriminator_fields["pad_token_id"]
        super().__post_init__(**kwargs)

    def half(self, name: str) -> LVBertConfig:
        """Returns one half's configuration."""
        return LVBertConfig(**getattr(self, f"{name}_fields"))

    def _check_shared_sizes(self) -> None:
        discriminator, generator = self.half("discriminator"), self.half("generator")
        names = ("vocab_size", "embedding_size", "max_position_embeddings", "type_vocab_size")
        for name in names:
            ours, theirs = getattr(discriminator, name), getattr(generator, name)
            if ours != theirs:
                raise ValueError(
                    f"{name} is {ours} in the discriminator and {theirs} in the generator: they "
                    "cannot share embeddings; make them equal or set tie_embeddings=False"
                )


@dataclass
class ElectraOutput(ModelOutput):
    """What one forward pass of both halves gives.

    Attributes:
        loss: The weighted sum of both losses, a scalar.
        generator_loss: Nats for each masked token.
        discriminator_loss: Nats for each real token.
        generator_logits: The generator's at masked positions, row after row, (masked, vocabulary);
            absent with the uniform generator.
        generator_predictions: The generator's best token at every position, (batch, seq).
        sampled_ids: The discriminator's input, (batch, seq).
        logits: The discriminator's, positive for replaced, (batch, seq).
        replaced: What the discriminator had to find: 1 replaced, 0 original, -100 padding.
    """

    loss: Tensor = None  # type: ignore[assignment]
    generator_loss: Tensor = None  # type: ignore[assignment]
    discriminator_loss: Tensor = None  # type: ignore[assignment]
    generator_logits: Tensor | None = None
    generator_predictions: Tensor = None  # type: ignore[assignment]
    sampled_ids: Tensor = None  # type: ignore[assignment]
    logits: Tensor = None  # type: ignore[assignment]
    replaced: Tensor = None  # type: ignore[assignment]


def sample_tokens(logits: Tensor, fractions: Tensor, excluded: Tensor | None = None) -> Tensor:
    """Draws one token from each distribution by inverting its cumulated probabilities.

    Args:
        logits: (items, vocabulary), already divided by the temperature.
        fractions: Where each draw falls, from 0 to below 1, (items,).
        excluded: A token for each item that must not be drawn, (items,).
    """
    probabilities = nn.functional.softmax(logits, dim=-1, dtype=torch.float32)
    if excluded is not None:
        probabilities = probabilities.scatter(1, excluded.unsqueeze(1), 0.0)
    # float32 sums of tens of thousands of terms would favour the last tokens.
    cumulated = probabilities.double().cumsum(dim=1)
    draws = fractions.to(cumulated.dtype).unsqueeze(1) * cumulated[:, -1:]
    # The first token whose cumulated probability exceeds the draw: one with probability above 0.
    return (
        torch.searchsorted(cumulated, draws, right=True).squeeze(1).clamp(max=logits.shape[1] - 1)
    )


class ElectraForPreTraining(PreTrainedModel):
    """Generator and discriminator, trained and saved together.

    One checkpoint holds both halves; embeddings are tied again on loading. `export_half` writes one
    of them as an ordinary folder.
    """

    config_class = ElectraConfig
    config: ElectraConfig
    base_model_prefix = "discriminator"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _supports_sdpa = True

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__(config)
        halves = {name: config.half(name) for name in HALVES}
        for half in halves.values():
            half._attn_implementation = config._attn_implementation
        self.discriminator = LVBertForPreTraining(halves["discriminator"])
        self.generator = LVBertForMaskedLM(halves["generator"])
        if config.tie_embeddings:
            # One source for all that is tied: a chain of ties would not survive loading.
            self._tied_weights_keys = {
                "generator.generator_lm_head.weight": f"discriminator.{_SHARED[0]}",
                **{f"generator.{name}": f"discriminator.{name}" for name in _SHARED},
            }
            self.generator.all_tied_weights_keys = {}
            self.generator._tied_weights_keys = {}
        self.post_init()

    def get_input_embeddings(self) -> None:  # type: ignore[override]
        """Returns None: no module alone has the embeddings, which both halves share.

        FSDP would shard what is named here apart from the other half's.
        """
        return

    def forward(
        self,
        input_ids: Tensor,
        labels: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        sample_fractions: Tensor | None = None,
        num_items_in_batch: Tensor | None = None,
        **kwargs: Any,
    ) -> ElectraOutput:
        """Returns the losses and what metrics need; see `ElectraOutput`.

        Args:
            input_ids: Masked token ids, (batch, seq).
            labels: Original ids where the generator predicts, -100 elsewhere, (batch, seq).
            attention_mask: 1 for real tokens, (batch, seq).
            token_type_ids: Segments, (batch, seq).
            sample_fractions: Where each position's draw falls, from 0 to below 1, (batch, seq);
                drawn from PyTorch's generator where absent.
            num_items_in_batch: Masked and real tokens of the whole optimizer step, (2,).
            kwargs: Further arguments of both encoders.
        """
        batch = {"attention_mask": attention_mask, "token_type_ids": token_type_ids, **kwargs}
        masked = labels.ne(IGNORED_LABEL)
        targets = labels[masked]
        num_masked, num_real = (None, None) if num_items_in_batch is None else num_items_in_batch
        if self.config.uniform_generator:
            predictions = torch.full_like(input_ids, IGNORED_LABEL)
            generator_loss = self.discriminator.lvbert.embeddings.word_embeddings.weight.new_zeros(
                ()
            )
            logits = self._even_logits(targets)
        else:
            hidden_states = self.generator.lvbert(input_ids, **batch).last_hidden_state
            logits = self.generator.compute_logits(hidden_states[masked])
            generator_loss = cross_entropy(logits, targets, num_masked)
            predictions = torch.full_like(input_ids, IGNORED_LABEL)
            predictions = predictions.masked_scatter(masked, logits.argmax(dim=-1))
        sampled_ids = self._replace(input_ids, labels, masked, logits.detach(), sample_fractions)
        original_ids = torch.where(masked, labels, input_ids)
        replaced = sampled_ids.ne(original_ids).long()
        if attention_mask is not None:
            replaced = replaced.masked_fill(attention_mask == 0, IGNORED_LABEL)
        hidden_states = self.discriminator.lvbert(sampled_ids, **batch).last_hidden_state
        detection = self.discriminator.compute_logits(hidden_states)
        discriminator_loss = binary_cross_entropy(detection, replaced, num_real)
        return ElectraOutput(
            loss=self.config.generator_weight * generator_loss
            + self.config.discriminator_weight * discriminator_loss,
            generator_loss=generator_loss,
            discriminator_loss=discriminator_loss,
            generator_logits=None if self.config.uniform_generator else logits,
            generator_predictions=predictions,
            sampled_ids=sampled_ids,
            logits=detection,
            replaced=replaced,
        )

    def export_half(
        self, name: str, folder: str | Path, weights: dict[str, Tensor] | None = None
    ) -> None:
        """Writes one half as an ordinary folder that opens under every Auto class.

        Args:
            name: "discriminator" or "generator".
            folder: Where to; made if it is not there.
            weights: State dict of the whole model, where its own is not at hand (sharded).

        Raises:
            ValueError: There is no such half.
        """
        if name not in HALVES:
            raise ValueError(f"unknown half {name!r}; known: {', '.join(HALVES)}")
        half: PreTrainedModel = getattr(self, name)
        model = type(half)(half.config)
        weights = self.state_dict() if weights is None else weights
        prefix = f"{name}."
        model.load_state_dict(
            {
                key.removeprefix(prefix): weight
                for key, weight in weights.items()
                if key.startswith(prefix)
            }
        )
        model.save_pretrained(folder)

    def _even_logits(self, targets: Tensor) -> Tensor:
        """Returns logits that make every ordinary token equally likely, (items, vocabulary)."""
        shape = (len(targets), self.discriminator.config.vocab_size)
        logits = torch.zeros(shape, device=targets.device)
        logits[:, self.config.special_token_ids or []] = -torch.inf
        return logits

    def _replace(
        self,
        input_ids: Tensor,
        labels: Tensor,
        masked: Tensor,
        logits: Tensor,
        sample_fractions: Tensor | None,
    ) -> Tensor:
        """Returns the ids with a sample at every masked position, (batch, seq)."""
        if sample_fractions is None:
            sample_fractions = torch.rand(input_ids.shape, device=input_ids.device)
        samples = sample_tokens(
            logits / self.config.temperature,
            sample_fractions[masked],
            labels[masked] if self.config.disallow_correct else None,
        )
        return input_ids.masked_scatter(masked, samples)
