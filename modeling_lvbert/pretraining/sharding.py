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
"""What models need to be sharded by FSDP, and processes of the CPU to shard at all.

accelerate (checked up to 1.15) takes FSDP for several CPU processes, does not shard, and says
nothing: each process then has a whole copy of the model.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import torch
from accelerate import PartialState
from accelerate.utils import DistributedType
from torch.distributed.fsdp import FSDPModule
from transformers import PreTrainedModel, TrainingArguments

# What FSDP names the weights in a checkpoint, by how they are divided.
_WEIGHTS = {
    "FULL_STATE_DICT": "pytorch_model_fsdp.bin",
    "SHARDED_STATE_DICT": "pytorch_model_fsdp_0",
}


@contextmanager
def sharding_on_cpu(args: TrainingArguments) -> Iterator[None]:
    """Makes an `Accelerator` built within the `with` block shard where that was asked for.

    Args:
        args: Arguments of training; `fsdp` there or accelerate's own configuration may ask.
    """
    is_asked = bool(args.fsdp) or os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true"
    state = PartialState()
    if not is_asked or state.distributed_type != DistributedType.MULTI_CPU:
        yield
        return
    # Where the accelerator looks for what can shard. It writes FSDP here in the end.
    state.distributed_type = DistributedType.MULTI_GPU
    try:
        yield
    finally:
        if state.distributed_type != DistributedType.FSDP:
            state.distributed_type = DistributedType.MULTI_CPU


def find_shardable_layers(model: PreTrainedModel) -> list[str]:
    """Returns the names of the classes of the layers that may be sharded one by one.

    They are those that transformers never splits, without those that have tied weights: all
    modules that share a weight must be sharded together.
    """
    tied = model.all_tied_weights_keys
    shared = {id(model.get_parameter(name)) for name in {*tied, *tied.values()}}
    classes: dict[str, bool] = {}
    for module in model.modules():
        name = type(module).__name__
        if name in (model._no_split_modules or ()):
            is_shared = any(id(parameter) in shared for parameter in module.parameters())
            classes[name] = classes.get(name, False) or is_shared
    return sorted(name for name, is_shared in classes.items() if not is_shared)


def copy_without_weights(model: PreTrainedModel) -> PreTrainedModel:
    """Returns a model of the same kind that has no memory for weights.

    FSDP gives a model a class of its own, whose source files would be saved with it.
    """
    kinds = cast(tuple[type[PreTrainedModel], ...], type(model).__mro__)
    kind = next(kind for kind in kinds if not issubclass(kind, FSDPModule))
    with torch.device("meta"):
        return kind(model.config)


def check_state_dict_type(checkpoint: str, wanted: str | None) -> None:
    """Checks that a run can go on from a checkpoint with its kind of sharding.

    Args:
        checkpoint: The checkpoint.
        wanted: FSDP's state dict type in this run; None without FSDP.

    Raises:
        ValueError: The checkpoint was written with another one.
    """
    found = [kind for kind, name in _WEIGHTS.items() if Path(checkpoint, name).exists()]
    if found != ([] if wanted is None else [wanted]):
        raise ValueError(
            f"{checkpoint} was written with {' and '.join(found) or 'no'} sharding by FSDP, now it "
            f"is {wanted or 'none'}: go on with the same options"
        )
