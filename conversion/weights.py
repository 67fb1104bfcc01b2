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
"""Applies a rename table to a checkpoint: a tensor is consumed, dropped by name, or an error."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


def rename_tensors(
    source: Mapping[str, Tensor],
    renames: Mapping[str, str | None],
    shapes: Mapping[str, Sequence[int]],
) -> dict[str, Tensor]:
    """Returns the model's tensors in float32, named as the model names them.

    Args:
        source: The checkpoint's tensors, in PyTorch's layout.
        renames: Names in the checkpoint to names in the model; None drops a tensor on purpose.
        shapes: Every parameter of the model that has to be filled, with its shape.

    Raises:
        ValueError: A tensor has no rule, is absent, has another shape than the model's or holds
            values that are not finite; or a parameter of the model has no rule. All of them are
            listed.
    """
    kept = {name: target for name, target in renames.items() if target is not None}
    filled = {target: source[name] for name, target in kept.items() if name in source}
    problems = {
        "unknown": sorted(set(source) - set(renames)),
        "missing": sorted(set(kept) - set(source)),
        "not in the model": sorted(
            f"{name} (as {target})" for name, target in kept.items() if target not in shapes
        ),
        "parameters that nothing fills": sorted(set(shapes) - set(kept.values())),
        "of the wrong shape": sorted(
            f"{name}: {tuple(source[name].shape)} for {target}, needs {tuple(shapes[target])}"
            for name, target in kept.items()
            if name in source and target in shapes and source[name].shape != tuple(shapes[target])
        ),
        "not finite numbers": sorted(
            name for name in kept if name in source and not _is_finite(source[name])
        ),
    }
    listing = [
        f"  {len(names)} {problem}:\n" + "\n".join(f"    {name}" for name in names)
        for problem, names in problems.items()
        if names
    ]
    if listing:
        raise ValueError("the checkpoint does not fit; nothing was written\n" + "\n".join(listing))
    return {target: tensor.to(torch.float32).contiguous() for target, tensor in filled.items()}


def _is_finite(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and bool(torch.isfinite(tensor).all())
