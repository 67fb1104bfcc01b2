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
"""LV-BERT (arXiv 2106.11740): a post-norm encoder of layers in any order, and its task models.

Differences from the released TensorFlow code: the order is a string, convolutions do not see
padding unless `conv_mask_padding` is False, and a sequence without any token is allowed.
"""

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .configuration_lvbert import LVBertConfig
from .layer_order import join_letters
from .modeling_attention import ScaledDotProductAttention, visible_keys
from .modeling_dynamic_convolution import DepthwiseConvolution
from .modeling_heads import (
    IGNORED_LABEL,
    MaskedLMMixin,
    MultipleChoiceMixin,
    QuestionAnsweringMixin,
    SequenceClassificationMixin,
    TokenClassificationMixin,
    binary_cross_entropy,
)
from .modeling_initialization import GlorotLinear, truncated_normal_
from .modeling_lvbert_layers import LVBertLayer


class LVBertEmbeddings(nn.Module):
    """Sum of word, position and segment embeddings, layer norm, dropout; of the embedding size."""

    def __init__(self, config: LVBertConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.embedding_size)
        self.position_embeddings = nn.Embedding(
            config.max_position_embeddings, config.embedding_size
        )
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.embedding_size)
        self.layer_norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(
        self,
        inputs_embeds: torch.Tensor,
        token_type_ids: torch.Tensor | None,
        position_ids: torch.Tensor | None,
    ) -> torch.Tensor:
        """Returns the embeddings, (batch, seq, embedding).

        Args:
            inputs_embeds: Word embeddings, (batch, seq, embedding).
            token_type_ids: Segments, (batch, seq); 0 everywhere where absent.
            position_ids: Positions, (batch, seq) or (1, seq); 0, 1, … where absent.
        """
        if position_ids is None:
            positions = self.position_embeddings.weight[: inputs_embeds.shape[1]]
        else:
            positions = self.position_embeddings(position_ids)
        if token_type_ids is None:
            segments = self.token_type_embeddings.weight[0]
        else:
            segments = self.token_type_embeddings(token_type_ids)
        return self.dropout(self.layer_norm(inputs_embeds + segments + positions))


class LVBertEncoder(nn.Module):
    """The layers of the order, one after the other."""

    def __init__(self, config: LVBertConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            LVBertLayer(config, letter) for letter in join_letters(config.layer_order)
        )

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: Any,
        padding_mask: torch.Tensor | None,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Returns the last layer's output, (batch, seq, hidden); see `LVBertLayer.forward`."""
        for layer in self.layers:
            hidden_states = layer(
                hidden_states, attention_mask=attention_mask, padding_mask=padding_mask, **kwargs
            )
        return hidden_states


class LVBertPreTrainedModel(PreTrainedModel):
    """Initial values, loading and saving of all LV-BERT models."""

    config: LVBertConfig
    config_class = LVBertConfig
    base_model_prefix = "lvbert"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    _no_split_modules = ["LVBertEmbeddings", "LVBertLayer"]
    _can_record_outputs = {
        "hidden_states": LVBertLayer,
        "attentions": ScaledDotProductAttention,
    }

    # trf-ignore: TRF018 (the base class would draw every value a first time)
    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Sets initial values as the released code does.

        Truncated normal in general, of standard deviation 1 / kernel size for the depthwise
        convolution; Glorot uniform where that code names no initializer.
        """
        if isinstance(module, GlorotLinear):
            init.xavier_uniform_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, nn.Linear | nn.Embedding):
            truncated_normal_(module.weight, self.config.initializer_range)
            if isinstance(module, nn.Linear):
                init.zeros_(module.bias)
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, DepthwiseConvolution):
            truncated_normal_(module.weight, 1 / self.config.conv_kernel_size)


class LVBertModel(LVBertPreTrainedModel):
    """The encoder: embeddings, their projection to the hidden size where it differs, layers."""

    def __init__(self, config: LVBertConfig) -> None:
        super().__init__(config)
        self.embeddings = LVBertEmbeddings(config)
        self.embeddings_project = None
        # CODEPATH: small and medium checkpoints have narrower embeddings, base ones have not.
        if config.embedding_size != config.hidden_size:
            self.embeddings_project = GlorotLinear(config.embedding_size, config.hidden_size)
        self.encoder = LVBertEncoder(config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """Returns the word embeddings."""
        return self.embeddings.word_embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replaces the word embeddings."""
        self.embeddings.word_embeddings = value  # type: ignore[assignment]

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutput:
        """Returns the last hidden state, (batch, seq, hidden).

        Hidden states, where asked for, are the projected embeddings and one entry a letter;
        attentions one entry for every `s`.

        Args:
            input_ids: Token ids, (batch, seq).
            attention_mask: 1 for real tokens, (batch, seq); all are real where absent.
            token_type_ids: Segments, (batch, seq); 0 where absent.
            position_ids: Positions, (batch, seq); 0, 1, … where absent.
            inputs_embeds: Word embeddings instead of ids, (batch, seq, embedding).
            kwargs: `output_hidden_states`, `output_attentions` and the like.

        Raises:
            ValueError: Not exactly one of ids and embeddings is given, or the sequence is longer
                than the position table.
        """
        given = inputs_embeds if input_ids is None else input_ids
        if given is None or (input_ids is not None and inputs_embeds is not None):
            raise ValueError("give exactly one of input_ids and inputs_embeds")
        length = given.shape[1]
        if position_ids is None and length > self.config.max_position_embeddings:
            raise ValueError(
                f"the sequence has {length} tokens, but the position table ends at "
                f"max_position_embeddings = {self.config.max_position_embeddings}: truncate it"
            )
        if inputs_embeds is None:
            inputs_embeds = self.embeddings.word_embeddings(input_ids)
        padding_mask = None if attention_mask is None else visible_keys(attention_mask)
        hidden_states = self.embeddings(inputs_embeds, token_type_ids, position_ids)
        if self.embeddings_project is not None:
            hidden_states = self.embeddings_project(hidden_states)
        attention_mask = create_bidirectional_mask(
            config=self.config, inputs_embeds=hidden_states, attention_mask=attention_mask
        )
        hidden_states = self.encoder(hidden_states, attention_mask, padding_mask, **kwargs)
        return BaseModelOutput(last_hidden_state=hidden_states)


class LVBertDiscriminatorHead(nn.Module):
    """Scores every token as replaced: dense, activation, dense (ELECTRA, section 2)."""

    def __init__(self, config: LVBertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = ACT2FN[config.hidden_act]
        self.dense_prediction = GlorotLinear(config.hidden_size, 1)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Returns the logits of being replaced, (batch, seq), from (batch, seq, hidden)."""
        return self.dense_prediction(self.activation(self.dense(hidden_states))).squeeze(-1)


class LVBertGeneratorHead(nn.Module):
    """Maps hidden states to the embedding size: dense, activation, layer norm."""

    def __init__(self, config: LVBertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.embedding_size)
        self.activation = ACT2FN[config.hidden_act]
        self.layer_norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Returns (batch, seq, embedding) from (batch, seq, hidden)."""
        return self.layer_norm(self.activation(self.dense(hidden_states)))


class LVBertClassificationHead(nn.Module):
    """Dropout and one dense layer, without pooler or tanh, as the released code fine-tunes."""

    def __init__(self, config: LVBertConfig, num_outputs: int) -> None:
        super().__init__()
        dropout = config.classifier_dropout
        self.dropout = nn.Dropout(config.hidden_dropout_prob if dropout is None else dropout)
        self.output = GlorotLinear(config.hidden_size, num_outputs)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Returns (…, outputs) from (…, hidden)."""
        return self.output(self.dropout(hidden_states))


class LVBertForPreTraining(TokenClassificationMixin, LVBertPreTrainedModel):
    """The discriminator: replaced-token detection, as transformers' ELECTRA names it.

    Logits are (batch, seq), positive for replaced; labels 1 for replaced, 0 for original. Padded
    tokens have no loss, whatever their label.
    """

    def __init__(self, config: LVBertConfig) -> None:
        super().__init__(config)
        self.lvbert = LVBertModel(config)
        self.discriminator_predictions = LVBertDiscriminatorHead(config)
        self.post_init()

    def compute_logits(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Returns the logits of being replaced, (batch, seq)."""
        return self.discriminator_predictions(hidden_states)

    def compute_loss(
        self,
        logits: torch.Tensor,
        labels: torch.Tensor,
        attention_mask: torch.Tensor | None,
        num_items_in_batch: torch.Tensor | int | None,
    ) -> torch.Tensor:
        """Returns the binary cross-entropy over real tokens, a scalar (ELECTRA, section 2)."""
        if attention_mask is not None:
            labels = labels.masked_fill(~visible_keys(attention_mask), IGNORED_LABEL)
        return binary_cross_entropy(logits, labels, num_items_in_batch)


class LVBertForMaskedLM(MaskedLMMixin, LVBertPreTrainedModel):
    """The generator: masked language model with the embeddings as output matrix."""

    _tied_weights_keys = {"generator_lm_head.weight": "lvbert.embeddings.word_embeddings.weight"}

    def __init__(self, config: LVBertConfig) -> None:
        super().__init__(config)
        self.lvbert = LVBertModel(config)
        self.generator_predictions = LVBertGeneratorHead(config)
        self.generator_lm_head = nn.Linear(config.embedding_size, config.vocab_size)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        """Returns the output matrix with its bias."""
        return self.generator_lm_head

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Replaces the output matrix with its bias."""
        self.generator_lm_head = new_embeddings

    def compute_logits(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Returns logits, (…, vocabulary), from (…, hidden)."""
        return self.generator_lm_head(self.generator_predictions(hidden_states))


class LVBertForSequenceClassification(SequenceClassificationMixin, LVBertPreTrainedModel):
    """Classification or regression of whole sequences."""

    def __init__(self, config: LVBertConfig) -> None:
        super().__init__(config)
        self.num_labels: int = config.num_labels  # type: ignore[assignment]
        self.lvbert = LVBertModel(config)
        self.classifier = LVBertClassificationHead(config, self.num_labels)
        self.post_init()


class LVBertForTokenClassification(TokenClassificationMixin, LVBertPreTrainedModel):
    """Classification of every token."""

    def __init__(self, config: LVBertConfig) -> None:
        super().__init__(config)
        self.num_labels: int = config.num_labels  # type: ignore[assignment]
        self.lvbert = LVBertModel(config)
        self.classifier = LVBertClassificationHead(config, self.num_labels)
        self.post_init()


class LVBertForQuestionAnswering(QuestionAnsweringMixin, LVBertPreTrainedModel):
    """Extractive question answering."""

    def __init__(self, config: LVBertConfig) -> None:
        super().__init__(config)
        self.lvbert = LVBertModel(config)
        self.qa_outputs = LVBertClassificationHead(config, 2)
        self.post_init()


class LVBertForMultipleChoice(MultipleChoiceMixin, LVBertPreTrainedModel):
    """Choice among several continuations."""

    def __init__(self, config: LVBertConfig) -> None:
        super().__init__(config)
        self.lvbert = LVBertModel(config)
        self.classifier = LVBertClassificationHead(config, 1)
        self.post_init()


LVBertModel.register_for_auto_class("AutoModel")
LVBertForPreTraining.register_for_auto_class("AutoModelForPreTraining")
LVBertForMaskedLM.register_for_auto_class("AutoModelForMaskedLM")
LVBertForSequenceClassification.register_for_auto_class("AutoModelForSequenceClassification")
LVBertForTokenClassification.register_for_auto_class("AutoModelForTokenClassification")
LVBertForQuestionAnswering.register_for_auto_class("AutoModelForQuestionAnswering")
LVBertForMultipleChoice.register_for_auto_class("AutoModelForMultipleChoice")

__all__ = [
    "LVBertForMaskedLM",
    "LVBertForMultipleChoice",
    "LVBertForPreTraining",
    "LVBertForQuestionAnswering",
    "LVBertForSequenceClassification",
    "LVBertForTokenClassification",
    "LVBertModel",
    "LVBertPreTrainedModel",
]
