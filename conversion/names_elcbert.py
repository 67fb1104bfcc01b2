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
"""Names of ELC-BERT's and LTG-BERT's tensors and of our parameters, as a table."""

import re
from collections.abc import Iterable

LAYER = {
    "attention.in_proj_qk.weight": "layers.0.query_key.weight",
    "attention.in_proj_qk.bias": "layers.0.query_key.bias",
    "attention.in_proj_v.weight": "layers.0.value.weight",
    "attention.in_proj_v.bias": "layers.0.value.bias",
    "attention.out_proj.weight": "layers.0.output.weight",
    "attention.out_proj.bias": "layers.0.output.bias",
    "attention.post_layer_norm.weight": "layers.0.post_layer_norm.weight",
    "attention.post_layer_norm.bias": "layers.0.post_layer_norm.bias",
    "mlp.mlp.1.weight": "layers.1.intermediate.weight",
    "mlp.mlp.4.weight": "layers.1.output.weight",
}
EMBEDDINGS = {
    "embedding.word_embedding.weight": "elcbert.embeddings.word_embeddings.weight",
    "embedding.relative_embedding": "elcbert.embeddings.relative_embeddings.weight",
    "embedding.relative_layer_norm.weight": "elcbert.embeddings.relative_layer_norm.weight",
    "embedding.relative_layer_norm.bias": "elcbert.embeddings.relative_layer_norm.bias",
}
# The originals call the mask head `classifier` and a task's head `head`.
HEADS = {
    "classifier": ("predictions.dense", "predictions.decoder"),
    "head": ("classifier.dense", "classifier.output"),
}
EMBEDDING_KEY = "embedding.word_embedding.weight"
DECODER_KEY = "classifier.nonlinearity.5.weight"
OUTPUT_MIX_KEY = "transformer.prev_layer_weights"
LAYER_MIX = re.compile(r"transformer\.layers\.\d+\.prev_layer_weights")
POSITIONS = re.compile(r"transformer\.layers\.(\d+)\.attention\.position_indices")
GPT_BERT_SIGNS = ("dwa_modules", "in_proj_vg")


def rename_table(
    names: Iterable[str], num_layers: int, variant: str, head: str
) -> dict[str, str | None]:
    """Returns the original's names to ours, None for what is dropped on purpose.

    Args:
        names: Names in the checkpoint: they say which position tables are dropped.
        num_layers: Layers of the original, words of ours.
        variant: One of `VARIANTS`.
        head: `classifier` (mask) or `head` (task).
    """
    table: dict[str, str | None] = dict(EMBEDDINGS)
    for index in range(num_layers):
        layer, word = f"transformer.layers.{index}", f"elcbert.encoder.words.{index}"
        table |= {f"{layer}.{name}": f"{word}.{ours}" for name, ours in LAYER.items()}
        if variant != "ltg":
            selection = f"elcbert.encoder.layer_selections.{index}"
            table[f"{layer}.prev_layer_weights"] = f"{selection}.prev_layer_weights"
    if variant == "weighted_output":
        table[OUTPUT_MIX_KEY] = "elcbert.encoder.output_selection.prev_layer_weights"
    for number, ours in zip((1, 5), HEADS[head], strict=True):
        for kind in ("weight", "bias"):
            table[f"{head}.nonlinearity.{number}.{kind}"] = f"{ours}.{kind}"
    for name in names:
        position = POSITIONS.fullmatch(name)
        if position and int(position[1]) < num_layers:
            table[name] = None
    return table
