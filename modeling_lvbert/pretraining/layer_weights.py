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
"""What ELC-BERT's layers read, while they learn it (arXiv 2311.02265, section 3).

Each word mixes the embeddings and the outputs of all words before it by weights that sum to one.
"""

from typing import Any

from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ..modeling_elcbert import ELCBertPreTrainedModel

# Name of the weights in an entry of the log history.
HISTORY_KEY = "layer_weights"


def read_layer_weights(model: nn.Module) -> dict[str, Tensor]:
    """Returns the weights by what reads: `word_01`, `word_02`, …, and `mix` after the last word.

    Entry 0 of a tensor, (outputs so far,), is the share of the embeddings, entry k that of word k.
    Nothing is returned for models that select no layers, LV-BERT and variant `ltg`, nor where
    anything but FSDP2 has sharded the parameters.

    Args:
        model: May be wrapped or sharded; where it is sharded, all processes must call this.
    """
    models = (module for module in model.modules() if isinstance(module, ELCBertPreTrainedModel))
    inner = next(models, None)
    if inner is None:
        return {}
    weights = [
        (weight.full_tensor() if isinstance(weight, DTensor) else weight).cpu()
        for weight in inner.layer_selection_weights()
    ]
    if any(len(weight) != number for number, weight in enumerate(weights, start=1)):
        return {}
    num_words = inner.config.num_hidden_layers
    names = [f"word_{number:02}" for number in range(1, num_words + 1)] + ["mix"]
    return dict(zip(names, weights, strict=False))


def name_scalars(weights: dict[str, list[float]]) -> dict[str, float]:
    """Returns one named number for each weight, such as `layer_weights/word_03/output_01`.

    Args:
        weights: Entry `HISTORY_KEY` of the log history.
    """
    return {
        f"{HISTORY_KEY}/{name}/output_{number:02}": weight
        for name, row in weights.items()
        for number, weight in enumerate(row)
    }


class LayerWeightsCallback(TrainerCallback):
    """Adds the layer weights to the log history, beside each training loss.

    Only to the history: in `logs` a table would be dropped by TensorBoard with a warning and
    printed whole at each log, and 78 numbers would hide the rest. What reads the history afterwards
    has them, as `TensorBoardInRun` does.
    """

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: nn.Module | None = None,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Reads the weights on all processes, which a sharded model needs."""
        if model is None or logs is None or "loss" not in logs:
            return
        weights = read_layer_weights(model)
        if weights:
            entry: dict[str, Any] = state.log_history[-1]
            entry[HISTORY_KEY] = {
                name: [round(value, 4) for value in row.tolist()] for name, row in weights.items()
            }
