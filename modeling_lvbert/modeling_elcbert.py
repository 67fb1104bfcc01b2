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
"""ELC-BERT (arXiv 2311.02265): every word of layers reads a mix of all earlier outputs.

The variants are values of the configuration. Differences from the released code: relative
positions are computed from the configuration alone, so that a long input does not change later
short ones, and padding does not reach convolutions.
"""

import math
from inspect import signature
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import BaseModelOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .configuration_elcbert import ELCBertConfig
from .layer_order import join_letters, split_words
from .modeling_attention import ScaledDotProductAttention, visible_keys
from .modeling_dynamic_convolution import DepthwiseConvolution
from .modeling_elcbert_layers import (
    ELCBertWord,
    LayerSelection,
    OutputSelection,
    relative_position_rows,
)
from .modeling_heads import (
    MaskedLMMixin,
    MultipleChoiceMixin,
    QuestionAnsweringMixin,
    SequenceClassificationMixin,
    TokenClassificationMixin,
)
from .modeling_initialization import DepthScaledLinear, truncated_normal_

# Standard deviation of a standard normal variable that is cut off at two.
TRUNCATED_STD = 0.8796256610342398


class ELCBertEmbeddings(nn.Module):
    """Normalized word embeddings without positions, and the relative embeddings of attention."""

    def __init__(self, config: ELCBertConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.word_layer_norm = nn.LayerNorm(
            config.hidden_size, eps=config.layer_norm_eps, elementwise_affine=False
        )
        self.relative_embeddings = None
        # CODEPATH: every released checkpoint has self-attention; a searched order may have none.
        if "s" in join_letters(config.layer_order):
            num_rows = 2 * config.position_bucket_size - 1
            self.relative_embeddings = nn.Embedding(num_rows, config.hidden_size)
            self.relative_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, inputs_embeds: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Returns embeddings, (batch, seq, hidden), and relative ones, (2 · buckets - 1, hidden).

        Args:
            inputs_embeds: Word embeddings, (batch, seq, hidden).
        """
        relative_embeddings = None
        if self.relative_embeddings is not None:
            relative_embeddings = self.relative_layer_norm(self.relative_embeddings.weight)
        return self.dropout(self.word_layer_norm(inputs_embeds)), relative_embeddings


class ELCBertEncoder(nn.Module):
    """The words of the order, each after the selection of its input."""

    def __init__(self, config: ELCBertConfig) -> None:
        super().__init__()
        words = split_words(config.layer_order)
        self.words = nn.ModuleList(
            ELCBertWord(config, word, index) for index, word in enumerate(words)
        )
        self.layer_selections = None
        # CODEPATH: LTG-BERT checkpoints (ltg) select nothing, ELC-BERT ones do.
        if config.variant != "ltg":
            self.layer_selections = nn.ModuleList(
                LayerSelection(index + 1) for index in range(len(words))
            )
        self.output_selection = None
        # CODEPATH: the checkpoints of variant weighted_output.
        if config.variant == "weighted_output":
            self.output_selection = OutputSelection(len(words) + 1)

    def forward(
        self,
        hidden_states: torch.Tensor,
        relative_embeddings: torch.Tensor | None,
        position_rows: torch.Tensor | None,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Returns the encoder's output, (batch, seq, hidden); see `ELCBertWord.forward`."""
        states = [hidden_states]
        for index, word in enumerate(self.words):
            selected = states[-1]
            if self.layer_selections is not None:
                selected = self.layer_selections[index](states)
            # Checkpointing follows gradients through positional arguments only.
            states.append(word(selected, relative_embeddings, position_rows, **kwargs))
        if self.output_selection is not None:
            return self.output_selection(states)
        return states[-1]


class StateRecorders(list):
    """Recorders of the words and of the mix after them, whose states are counted together."""

    num_hidden_layers_key = "num_recorded_layers"


class ELCBertPreTrainedModel(PreTrainedModel):
    """Initial values, loading and saving of all ELC-BERT models."""

    config: ELCBertConfig
    config_class = ELCBertConfig
    base_model_prefix = "elcbert"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    # Releases of transformers whose flex attention takes no position terms would leave them out.
    _supports_flex_attn = (
        "position_bias" in signature(ALL_ATTENTION_FUNCTIONS["flex_attention"]).parameters
    )
    _supports_attention_backend = True
    _no_split_modules = ["ELCBertEmbeddings", "ELCBertWord"]
    _can_record_outputs = {
        "hidden_states": StateRecorders(
            [
                OutputRecorder(ELCBertWord),
                OutputRecorder(OutputSelection),
            ]
        ),
        "attentions": ScaledDotProductAttention,
    }

    def layer_selection_weights(self) -> list[torch.Tensor]:
        """Returns each word's softmax weights over the embedding output and all words before it.

        The n-th tensor has n entries (ELC-BERT, figure of layer weights). Variant `weighted_output`
        has one more tensor for the mix at the end; `ltg`, which selects nothing, has none.
        """
        encoder: Any = self.base_model.encoder
        selections = list(encoder.layer_selections or [])
        if encoder.output_selection is not None:
            selections.append(encoder.output_selection)
        return [selection.weights().detach() for selection in selections]

    # trf-ignore: TRF018 (the base class would draw every value a first time)
    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Sets initial values as the released code does.

        Truncated normal of standard deviation sqrt(2 / (5 · hidden)), in the feed-forward of word i
        times sqrt(1 / (2 (i + 1))); the selection's start is the variant's.
        """
        # The distribution's own deviation is the stated one, cut off as it is.
        std = math.sqrt(2 / (5 * self.config.hidden_size)) / TRUNCATED_STD
        if isinstance(module, DepthScaledLinear):
            truncated_normal_(module.weight, std * math.sqrt(1 / (2 * (module.depth + 1))))
        elif isinstance(module, nn.Linear | nn.Embedding):
            truncated_normal_(module.weight, std)
            if isinstance(module, nn.Linear):
                init.zeros_(module.bias)
        elif isinstance(module, nn.LayerNorm) and module.elementwise_affine:
            init.ones_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, DepthwiseConvolution):
            truncated_normal_(module.weight, 1 / self.config.conv_kernel_size)
        elif isinstance(module, LayerSelection):
            start = torch.zeros_like(module.prev_layer_weights)
            # CODEPATH: the released small checkpoint is of variant base, others start equal.
            if self.config.variant == "base":
                start[-1] = 1.0
            init.copy_(module.prev_layer_weights, start)


class ELCBertModel(ELCBertPreTrainedModel):
    """The encoder: embeddings and words of layers."""

    def __init__(self, config: ELCBertConfig) -> None:
        super().__init__(config)
        self.embeddings = ELCBertEmbeddings(config)
        self.encoder = ELCBertEncoder(config)
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
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutput:
        """Returns the last hidden state, (batch, seq, hidden).

        Hidden states, where asked for, are the embedding output and one entry a word, with variant
        `weighted_output` also the mix at the end; attentions one entry for every `s`.

        Args:
            input_ids: Token ids, (batch, seq), of any length.
            attention_mask: 1 for real tokens, (batch, seq); all are real where absent.
            token_type_ids: Taken for tokenizers that give them; the model has no segments.
            inputs_embeds: Word embeddings instead of ids, (batch, seq, hidden).
            kwargs: `output_hidden_states`, `output_attentions` and the like.

        Raises:
            ValueError: Not exactly one of ids and embeddings is given.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give exactly one of input_ids and inputs_embeds")
        if inputs_embeds is None:
            inputs_embeds = self.embeddings.word_embeddings(input_ids)
        padding_mask = None if attention_mask is None else visible_keys(attention_mask)
        hidden_states, relative_embeddings = self.embeddings(inputs_embeds)
        position_rows = None
        if relative_embeddings is not None:
            position_rows = relative_position_rows(
                inputs_embeds.shape[1],
                self.config.position_bucket_size,
                self.config.max_position_embeddings,
                inputs_embeds.device,
            )
        attention_mask = create_bidirectional_mask(
            config=self.config, inputs_embeds=hidden_states, attention_mask=attention_mask
        )
        hidden_states = self.encoder(
            hidden_states,
            relative_embeddings,
            position_rows,
            attention_mask=attention_mask,
            padding_mask=padding_mask,
            **kwargs,
        )
        return BaseModelOutput(last_hidden_state=hidden_states)


class ELCBertMaskedLMHead(nn.Module):
    """Norm, dense, GELU, norm, dropout, output matrix; the norms have no parameters."""

    def __init__(self, config: ELCBertConfig) -> None:
        super().__init__()
        self.pre_layer_norm = nn.LayerNorm(
            config.hidden_size, eps=config.layer_norm_eps, elementwise_affine=False
        )
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.post_layer_norm = nn.LayerNorm(
            config.hidden_size, eps=config.layer_norm_eps, elementwise_affine=False
        )
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Returns logits, (…, vocabulary), from (…, hidden)."""
        hidden_states = nn.functional.gelu(self.dense(self.pre_layer_norm(hidden_states)))
        return self.decoder(self.dropout(self.post_layer_norm(hidden_states)))


class ELCBertClassificationHead(nn.Module):
    """Norm, dense, GELU, norm, dropout, dense, as the released code fine-tunes."""

    def __init__(self, config: ELCBertConfig, num_outputs: int) -> None:
        super().__init__()
        dropout = config.classifier_dropout
        self.pre_layer_norm = nn.LayerNorm(
            config.hidden_size, eps=config.layer_norm_eps, elementwise_affine=False
        )
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.post_layer_norm = nn.LayerNorm(
            config.hidden_size, eps=config.layer_norm_eps, elementwise_affine=False
        )
        self.dropout = nn.Dropout(config.hidden_dropout_prob if dropout is None else dropout)
        self.output = nn.Linear(config.hidden_size, num_outputs)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Returns (…, outputs) from (…, hidden)."""
        hidden_states = nn.functional.gelu(self.dense(self.pre_layer_norm(hidden_states)))
        return self.output(self.dropout(self.post_layer_norm(hidden_states)))


class ELCBertForMaskedLM(MaskedLMMixin, ELCBertPreTrainedModel):
    """Masked language model with the embeddings as output matrix."""

    _tied_weights_keys = {"predictions.decoder.weight": "elcbert.embeddings.word_embeddings.weight"}

    def __init__(self, config: ELCBertConfig) -> None:
        super().__init__(config)
        self.elcbert = ELCBertModel(config)
        self.predictions = ELCBertMaskedLMHead(config)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        """Returns the output matrix with its bias."""
        return self.predictions.decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Replaces the output matrix with its bias."""
        self.predictions.decoder = new_embeddings

    def compute_logits(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Returns logits, (…, vocabulary), from (…, hidden)."""
        return self.predictions(hidden_states)


class ELCBertForPreTraining(ELCBertForMaskedLM):
    """ELC-BERT pre-trains as a masked language model: the same model under the other name."""


class ELCBertForSequenceClassification(SequenceClassificationMixin, ELCBertPreTrainedModel):
    """Classification or regression of whole sequences."""

    def __init__(self, config: ELCBertConfig) -> None:
        super().__init__(config)
        self.num_labels: int = config.num_labels  # type: ignore[assignment]
        self.elcbert = ELCBertModel(config)
        self.classifier = ELCBertClassificationHead(config, self.num_labels)
        self.post_init()


class ELCBertForTokenClassification(TokenClassificationMixin, ELCBertPreTrainedModel):
    """Classification of every token."""

    def __init__(self, config: ELCBertConfig) -> None:
        super().__init__(config)
        self.num_labels: int = config.num_labels  # type: ignore[assignment]
        self.elcbert = ELCBertModel(config)
        self.classifier = ELCBertClassificationHead(config, self.num_labels)
        self.post_init()


class ELCBertForQuestionAnswering(QuestionAnsweringMixin, ELCBertPreTrainedModel):
    """Extractive question answering."""

    def __init__(self, config: ELCBertConfig) -> None:
        super().__init__(config)
        self.elcbert = ELCBertModel(config)
        self.qa_outputs = ELCBertClassificationHead(config, 2)
        self.post_init()


class ELCBertForMultipleChoice(MultipleChoiceMixin, ELCBertPreTrainedModel):
    """Choice among several continuations."""

    def __init__(self, config: ELCBertConfig) -> None:
        super().__init__(config)
        self.elcbert = ELCBertModel(config)
        self.classifier = ELCBertClassificationHead(config, 1)
        self.post_init()


ELCBertModel.register_for_auto_class("AutoModel")
ELCBertForPreTraining.register_for_auto_class("AutoModelForPreTraining")
ELCBertForMaskedLM.register_for_auto_class("AutoModelForMaskedLM")
ELCBertForSequenceClassification.register_for_auto_class("AutoModelForSequenceClassification")
ELCBertForTokenClassification.register_for_auto_class("AutoModelForTokenClassification")
ELCBertForQuestionAnswering.register_for_auto_class("AutoModelForQuestionAnswering")
ELCBertForMultipleChoice.register_for_auto_class("AutoModelForMultipleChoice")

__all__ = [
    "ELCBertForMaskedLM",
    "ELCBertForMultipleChoice",
    "ELCBertForPreTraining",
    "ELCBertForQuestionAnswering",
    "ELCBertForSequenceClassification",
    "ELCBertForTokenClassification",
    "ELCBertModel",
    "ELCBertPreTrainedModel",
]
