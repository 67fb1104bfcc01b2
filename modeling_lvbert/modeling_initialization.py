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
"""Initial values that both families use, and the dense layers that have other ones than the rest.

transformers sets initial values module by module and only where a module has parameters of its
own, so a layer with particular initial values is a class and not a case in its parent.
"""

import torch
from torch import nn
from transformers import initialization as init


class GlorotLinear(nn.Linear):
    """A dense layer for which LV-BERT's released code names no initializer: Glorot uniform."""


class DepthScaledLinear(nn.Linear):
    """A dense layer whose initial weights shrink with its depth (LTG-BERT, section 3)."""

    def __init__(self, in_features: int, out_features: int, depth: int) -> None:
        """Builds a layer without bias; `depth` counts the words of layers before its own."""
        super().__init__(in_features, out_features, bias=False)
        self.depth = depth


def truncated_normal_(weight: torch.Tensor, std: float) -> None:
    """Draws a normal distribution of standard deviation `std` cut off at two of them."""
    init.trunc_normal_(weight, mean=0.0, std=std, a=-2 * std, b=2 * std)
