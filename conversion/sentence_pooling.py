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
"""Writes the files by which sentence-transformers opens a folder: mean pooling of all tokens."""

import json
from pathlib import Path

FILES = ("modules.json", "sentence_bert_config.json", "1_Pooling/config.json")
# The names that every release of sentence-transformers understands.
_MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]


def write_pooling(folder: Path, hidden_size: int, max_seq_length: int) -> None:
    """Writes the files into a model's folder.

    Args:
        folder: The folder.
        hidden_size: Width of the last layer's outputs.
        max_seq_length: Longest input in tokens.
    """
    contents = (
        _MODULES,
        {"max_seq_length": max_seq_length, "do_lower_case": False},
        {
            "word_embedding_dimension": hidden_size,
            "pooling_mode_cls_token": False,
            "pooling_mode_mean_tokens": True,
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
    )
    for name, content in zip(FILES, contents, strict=True):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
