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
"""Configuration of ELC-BERT (arXiv 2311.02265): words of layers that read all before them."""

from typing import Any, ClassVar

from huggingface_hub.dataclasses import strict

from .configuration_layer_order import LayerOrderConfig, check_at_least
from .layer_order import split_words

AUTO_MAP = {
    "AutoConfig": "configuration_elcbert.ELCBertConfig",
    "AutoModel": "modeling_elcbert.ELCBertModel",
    "AutoModelForPreTraining": "modeling_elcbert.ELCBertForPreTraining",
    "AutoModelForMaskedLM": "modeling_elcbert.ELCBertForMaskedLM",
    "AutoModelForSequenceClassification": "modeling_elcbert.ELCBertForSequenceClassification",
    "AutoModelForTokenClassification": "modeling_elcbert.ELCBertForTokenClassification",
    "AutoModelForQuestionAnswering": "modeling_elcbert.ELCBertForQuestionAnswering",
    "AutoModelForMultipleChoice": "modeling_elcbert.ELCBertForMultipleChoice",
}
VARIANTS = ("base", "zero", "normalized", "weighted_output", "ltg")
POSITION_LAYOUTS = ("halves", "per_head")


@strict
class ELCBertConfig(LayerOrderConfig):
    """Sizes, layer order and variant of an ELC-BERT model; the defaults are its small size.

    The fields that are not listed here are `LayerOrderConfig`'s.

    Attributes:
        vocab_size: Entries of the vocabulary.
        hidden_size: Width of embeddings and layers.
        layer_order: Words of letters, parted by blanks. Each word selects its input among the
            outputs of all words before it and runs its letters as a residual stream.
        variant: How layers are selected, one of `VARIANTS`: `zero` starts from equal weights,
            `base` leans to the previous word, `normalized` adds a layer norm after each word,
            `weighted_output` mixes all outputs at the end, `ltg` is LTG-BERT (arXiv 2303.09859)
            without any selection.
        position_layout: How the projected relative embedding is parted into query and key, one of
            `POSITION_LAYOUTS`: two `halves`, or `per_head` as LTG-BERT's first training code does.
        intermediate_size: Inner width of the gated feed-forward layers.
        position_bucket_size: Size b of the relative positions' table of 2b - 1 rows.
        max_position_embeddings: Distance in tokens that the last bucket starts at. Longer sequences
            work: farther tokens share that bucket.
        layer_norm_eps: Epsilon of the layer norms.
        pad_token_id: Id of the padding token.
    """

    model_type = "elcbert"
    auto_classes: ClassVar = AUTO_MAP
    sizes: ClassVar = {
        "small": {
            "vocab_size": 6144,
            "hidden_size": 384,
            "num_attention_heads": 6,
            "intermediate_size": 1024,
        },
        "base": {
            "vocab_size": 16384,
            "hidden_size": 768,
            "num_attention_heads": 12,
            "intermediate_size": 2048,
        },
    }

    vocab_size: int = 6144
    hidden_size: int = 384
    layer_order: Any = "sf sf sf sf sf sf sf sf sf sf sf sf"
    variant: str = "zero"
    position_layout: str = "halves"
    intermediate_size: int = 1024
    position_bucket_size: int = 32
    max_position_embeddings: int = 512
    layer_norm_eps: float = 1e-7
    pad_token_id: int | None = 3

    @property
    def num_recorded_layers(self) -> int:
        """Hidden states after the embeddings': one a word, and the mix of `weighted_output`."""
        return self.num_hidden_layers + (self.variant == "weighted_output")

    def _count_hidden_layers(self) -> int:
        return len(split_words(self.layer_order))

    def _check_fields(self) -> None:
        super()._check_fields()
        check_at_least(self, 2, ("position_bucket_size",))
        nearest = self.position_bucket_size // 2
        if self.max_position_embeddings < nearest + 2:
            raise ValueError(
                f"max_position_embeddings must be at least position_bucket_size // 2 + 2 = "
                f"{nearest + 2}, got {self.max_position_embeddings}"
            )
        for name, known in (("variant", VARIANTS), ("position_layout", POSITION_LAYOUTS)):
            value = getattr(self, name)
            if value not in known:
                raise ValueError(f"unknown {name} {value!r}; known: {', '.join(known)}")


ELCBertConfig.register_for_auto_class()

__all__ = ["ELCBertConfig"]
