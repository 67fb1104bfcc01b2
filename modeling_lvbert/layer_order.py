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
"""Layer orders: the strings that say which layers a model has (LV-BERT, arXiv 2106.11740).

One letter is one layer with its own parameters, the first letter is nearest the input. Blanks part
the letters into words; a word is one unit for ELC-BERT's layer selection, LV-BERT ignores blanks.
This module is the one place that knows the alphabet; the released code writes it 0, 1, 2.
"""

LAYER_NAMES = {
    "d": "dynamic convolution",
    "f": "feed-forward",
    "s": "self-attention",
}


def normalize_layer_order(layer_order: str) -> str:
    """Returns the order in lower case with single blanks between its words.

    Raises:
        ValueError: The order is no string, has no letter or has letters that name no layer.
    """
    known = ", ".join(repr(letter) for letter in LAYER_NAMES)
    if not isinstance(layer_order, str):
        raise ValueError(
            f"layer_order must be a string of the letters {known}, got {layer_order!r} "
            f"({type(layer_order).__name__})"
        )
    words = layer_order.lower().split()
    if not words:
        raise ValueError(
            f"layer_order {layer_order!r} names no layer; give at least one of the letters {known}"
        )
    unknown = sorted(set("".join(words)) - set(LAYER_NAMES))
    if unknown:
        raise ValueError(f"layer_order {layer_order!r}: unknown letters {unknown}; known: {known}")
    return " ".join(words)


def split_words(layer_order: str) -> list[str]:
    """Returns the order's words: the units of ELC-BERT's layer selection."""
    return normalize_layer_order(layer_order).split(" ")


def join_letters(layer_order: str) -> str:
    """Returns the order's letters without blanks: LV-BERT's view of it."""
    return normalize_layer_order(layer_order).replace(" ", "")
