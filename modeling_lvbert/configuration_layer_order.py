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
"""What the configurations of both families share: a layer order and the checks of common fields.

Every field is checked at construction and again when the configuration is saved. Errors are
`ValueError`s that say what was got and what is allowed; a value of the wrong type is refused by
`huggingface_hub`'s strict dataclasses, also on assignment.
"""

import math
from typing import Any, ClassVar

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from .layer_order import normalize_layer_order


def check_at_least(config: "LayerOrderConfig", minimum: int, names: tuple[str, ...]) -> None:
    """Checks that each named integer field is not below `minimum`.

    Raises:
        ValueError: A field is smaller.
    """
    for name in names:
        value = getattr(config, name)
        if value < minimum:
            raise ValueError(f"{name} must be at least {minimum}, got {value}")


@strict
class LayerOrderConfig(PreTrainedConfig):
    """The fields that `LVBertConfig` and `ELCBertConfig` share, and their checks.

    Attributes:
        layer_order: Letters, first letter nearest the input: `s` self-attention, `f` feed-forward,
            `d` dynamic convolution. Case does not matter.
        num_attention_heads: Heads of self-attention and of the convolution's kernels; where absent
            one for every 64 of `hidden_size`, as in the released code.
        conv_kernel_size: Tokens that one convolution spans, odd.
        conv_mask_padding: Whether convolutions see zeros at padded positions. LV-BERT's released
            code lets padding in; converted checkpoints carry False to equal it.
        hidden_dropout_prob: Dropout of the embeddings and of every layer's output.
        attention_probs_dropout_prob: Dropout of attention probabilities.
        classifier_dropout: Dropout before a task's output; `hidden_dropout_prob` where absent.
        tie_word_embeddings: Whether the masked language model's output matrix is the embeddings'.
    """

    keys_to_ignore_at_inference = ["hidden_states", "attentions"]
    auto_classes: ClassVar[dict[str, str]] = {}
    sizes: ClassVar[dict[str, dict[str, Any]]] = {}

    vocab_size: int = 1
    hidden_size: int = 64
    # Checked by `normalize_layer_order` alone, so that every malformed order is a ValueError.
    layer_order: Any = "sf"
    num_attention_heads: int | None = None
    intermediate_size: int = 256
    max_position_embeddings: int = 512
    conv_kernel_size: int = 9
    conv_mask_padding: bool = True
    hidden_dropout_prob: float | int = 0.1
    attention_probs_dropout_prob: float | int = 0.1
    classifier_dropout: float | int | None = None
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs: Any) -> None:
        self.layer_order = normalize_layer_order(self.layer_order)
        if self.num_attention_heads is None:
            self.num_attention_heads = max(1, self.hidden_size // 64)
        self._check_fields()
        kwargs.setdefault("auto_map", dict(self.auto_classes))
        super().__post_init__(**kwargs)

    @classmethod
    def from_size(cls, size: str, **fields: Any) -> "LayerOrderConfig":
        """Returns the configuration of a published size; `fields` override its values.

        Args:
            size: Name of the size, a key of `sizes`.
            fields: Configuration fields, for example `layer_order`.

        Raises:
            ValueError: There is no such size.
        """
        if size not in cls.sizes:
            raise ValueError(f"unknown size {size!r} of {cls.__name__}; known: {sorted(cls.sizes)}")
        return cls(**{**cls.sizes[size], **fields})

    @property
    def head_size(self) -> int:
        """Width of one head of attention or convolution."""
        return self.hidden_size // (self.num_attention_heads or 1)

    @property
    def num_hidden_layers(self) -> int:
        """Units of the layer order; derived, so that there is one source of truth."""
        return self._count_hidden_layers()

    @num_hidden_layers.setter
    def num_hidden_layers(self, value: int) -> None:
        if value != self.num_hidden_layers:
            raise ValueError(
                f"num_hidden_layers is derived from layer_order {self.layer_order!r}, which has "
                f"{self.num_hidden_layers}; got {value}: change layer_order instead"
            )

    def validate_layer_order(self) -> None:
        """Checks all fields; the strict dataclass calls it at construction and before saving."""
        normalize_layer_order(self.layer_order)
        self._check_fields()

    def _count_hidden_layers(self) -> int:
        raise ValueError(f"{type(self).__name__} does not say what it counts as one layer")

    def _check_fields(self) -> None:
        check_at_least(
            self,
            1,
            (
                "vocab_size",
                "hidden_size",
                "num_attention_heads",
                "intermediate_size",
                "max_position_embeddings",
                "conv_kernel_size",
            ),
        )
        if self.head_size * (self.num_attention_heads or 1) != self.hidden_size:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads "
                f"{self.num_attention_heads}"
            )
        if self.conv_kernel_size % 2 == 0:
            raise ValueError(f"conv_kernel_size must be odd, got {self.conv_kernel_size}")
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise ValueError(f"{name} must be at least 0 and below 1, got {value}")
        if not 0 < self.layer_norm_eps < math.inf:
            raise ValueError(f"layer_norm_eps must be positive, got {self.layer_norm_eps}")
        if self.pad_token_id is not None and not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(
                f"pad_token_id must be from 0 to vocab_size - 1 = {self.vocab_size - 1}, "
                f"got {self.pad_token_id}"
            )
