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
"""Models sharded over processes of the CPU, as FSDP does over GPUs.

accelerate (checked up to 1.15) takes FSDP for several CPU processes, does not shard, and says
nothing: each process then has a whole copy of the model.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from accelerate import PartialState
from accelerate.utils import DistributedType
from transformers import TrainingArguments


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
    # The accelerator looks here for what can shard; the processes stay what they are.
    state.distributed_type = DistributedType.MULTI_GPU
    try:
        yield
    finally:
        state.distributed_type = DistributedType.MULTI_CPU
