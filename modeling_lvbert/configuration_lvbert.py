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
"""Configuration of LV-BERT (arXiv 2106.11740): post-norm layers in any order."""

import math
from typing import Any, ClassVar

from huggingface_hub.dataclasses import strict
from transformers.activations import ACT2FN

from .configuration_layer_order import LayerOrderConfig, check_at_least
from .layer_order import join_letters

AUTO_MAP = {
    "AutoConfig": "configuration_lvbert.LVBertConfig",
    "AutoModel": "modeling_lvbert.LVBertModel",
    "AutoModelForPreTraining": "modeling_lvbert.LVBertForPreTraining",
    "AutoModelForMaskedLM": "modeling_lvbert.LVBertForMaskedLM",
    "AutoModelForSequenceClassification": "modeling_lvbert.LVBertForSequenceClassification",
    "AutoModelForTokenClassification": "modeling_lvbert.LVBertForTokenClassification",
    "AutoModelForQuestionAnswering": "modeling_lvbert.LVBertForQuestionAnswering",
    "AutoModelForMultipleChoice": "modeling_lvbert.LVBertForMultipleChoice",
}


@strict
class LVBertConfig(LayerOrderConfig):
    """Sizes and layer order of an LV-BERT model; the defaults are the published small model.

    One letter of `layer_order` is one layer; blanks do not matter. The fields that are not listed
    here are `LayerOrderConfig`'s.

    Attributes:
        vocab_size: Entries of the vocabulary.
        embedding_size: Width of the embeddings; a projection follows where it is not `hidden_size`.
        hidden_size: Width of every layer.
        layer_order: The order that the paper's search found, of the released small model.
        intermediate_size: Inner width of the feed-forward layers.
        hidden_act: Activation of feed-forward layers and heads.
        max_position_embeddings: Longest sequence, in tokens.
        type_vocab_size: Number of segments.
        initializer_range: Standard deviation of the truncated normal initial values.
        layer_norm_eps: Epsilon of the layer norms.
        pad_token_id: Id of the padding token.
    """

    model_type = "lvbert"
    auto_classes: ClassVar = AUTO_MAP
    sizes: ClassVar = {
        "small": {
            "embedding_size": 128,
            "hidden_size": 256,
            "num_attention_heads": 4,
            "intermediate_size": 1024,
        },
        "medium": {
            "embedding_size": 128,
            "hidden_size": 384,
            "num_attention_heads": 6,
            "intermediate_size": 1536,
        },
        "base": {
            "embedding_size": 768,
            "hidden_size": 768,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
        },
    }

    vocab_size: int = 30522
    embedding_size: int = 128
    hidden_size: int = 256
    layer_order: Any = "ddsffsdffsddsfdfsdfdssfs"
    intermediate_size: int = 1024
    hidden_act: str = "gelu"
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0

    def _count_hidden_layers(self) -> int:
        return len(join_letters(self.layer_order))

    def _check_fields(self) -> None:
        super()._check_fields()
        check_at_least(self, 1, ("embedding_size", "type_vocab_size"))
        if self.hidden_act not in ACT2FN:
            raise ValueError(f"unknown hidden_act {self.hidden_act!r}; known: {sorted(ACT2FN)}")
        if not 0 < self.initializer_range < math.inf:
            raise ValueError(f"initializer_range must be positive, got {self.initializer_range}")


LVBertConfig.register_for_auto_class()

__all__ = ["LVBertConfig"]
