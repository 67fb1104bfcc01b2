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
"""A small acceptability task made from plain sentences.

Each sentence stands against itself with two neighbouring words exchanged.
"""

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

from .whole_files import write_text

LABELS = ("unacceptable", "acceptable")

# Plain words and inner commas; anything else makes a poor pair.
_SENTENCE = re.compile(r"[A-Z][A-Za-z'-]*(,? [A-Za-z'-]+)+[.!?]")


def is_suitable(sentence: str) -> bool:
    """Tells whether a sentence has 5 to 25 plain words."""
    return bool(_SENTENCE.fullmatch(sentence)) and 5 <= len(sentence.split()) <= 25


def exchange_neighbours(sentence: str, rng: random.Random) -> str:
    """Exchanges two neighbouring words of a sentence that differ and are not at its ends.

    Raises:
        ValueError: There are no such words.
    """
    words = sentence.split()
    places = [i for i in range(1, len(words) - 2) if words[i].strip(",") != words[i + 1].strip(",")]
    if not places:
        raise ValueError(f"{sentence!r} has no two neighbouring inner words that differ")
    place = rng.choice(places)
    words[place], words[place + 1] = words[place + 1], words[place]
    return " ".join(words)


def write_task(
    sentences: Sequence[str], folder: str | Path, num_validation: int, seed: int = 0
) -> dict[str, int]:
    """Writes `train.jsonl` and `validation.jsonl` and returns their numbers of rows.

    Each suitable sentence gives two rows, one for each label, in the same file: a model that knows
    no order of words scores one half.

    Args:
        sentences: Any sentences; those that are not suitable or come twice are left out.
        folder: Where to write.
        num_validation: Sentences for validation.
        seed: Seed of the exchanges and of the rows' order.

    Raises:
        ValueError: Too few suitable sentences.
    """
    rng = random.Random(seed)
    suitable = sorted({sentence for sentence in sentences if is_suitable(sentence)})
    if len(suitable) <= num_validation:
        raise ValueError(
            f"{len(suitable)} suitable sentences: more than num_validation {num_validation} "
            "are needed"
        )
    rng.shuffle(suitable)
    parts = {"validation": suitable[:num_validation], "train": suitable[num_validation:]}
    for name, part in parts.items():
        rows = [(sentence, LABELS[1]) for sentence in part]
        rows += [(exchange_neighbours(sentence, rng), LABELS[0]) for sentence in part]
        rng.shuffle(rows)
        lines = [
            json.dumps({"sentence": sentence, "label": label}) + "\n" for sentence, label in rows
        ]
        write_text(Path(folder, f"{name}.jsonl"), "".join(lines))
    return {name: 2 * len(part) for name, part in parts.items()}
