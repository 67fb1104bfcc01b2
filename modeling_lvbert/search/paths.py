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
"""Which orders a supernet trains on: a function of the seed and the step.

So they are the same on every rank and after every restart. Uniform sampling is Single-Path
One-Shot's (arXiv 1904.00420), strict fairness FairNAS's (arXiv 1907.01845).
"""

import random

from ..layer_order import LAYER_NAMES

# uniform: each letter at each position alike. balanced: as many of each letter, or one more.
# strict: three paths a step, which take all letters of a position once.
SAMPLINGS = ("uniform", "balanced", "strict")


def draw_paths(
    sampling: str, num_layers: int, seed: int, step: int, has_words: bool = False
) -> list[str]:
    """Returns the orders of an optimizer step, one, or three with strict fairness.

    Args:
        sampling: One of `SAMPLINGS`.
        num_layers: Number of letters.
        seed: The run's seed.
        step: Number of the step.
        has_words: Whether words end at random, half of the time after each letter.

    Raises:
        ValueError: Unknown sampling.
    """
    if sampling not in SAMPLINGS:
        raise ValueError(f"path_sampling {sampling!r}: must be one of {', '.join(SAMPLINGS)}")
    rng = random.Random(f"{seed} path {step}")
    letters = sorted(LAYER_NAMES)
    if sampling == "strict":
        columns = [rng.sample(letters, len(letters)) for _ in range(num_layers)]
        paths = [list(path) for path in zip(*columns, strict=True)]
    elif sampling == "balanced":
        num_each, num_left = divmod(num_layers, len(letters))
        path = letters * num_each + rng.sample(letters, num_left)
        rng.shuffle(path)
        paths = [path]
    else:
        paths = [rng.choices(letters, k=num_layers)]
    if has_words:
        paths = [_end_words(path, rng) for path in paths]
    return ["".join(path) for path in paths]


def _end_words(path: list[str], rng: random.Random) -> list[str]:
    inner = [letter + " " * rng.randint(0, 1) for letter in path[:-1]]
    return [*inner, path[-1]]
