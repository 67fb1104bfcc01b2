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
"""Where a run's progress is shown: the bar, TensorBoard's events and the log history."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from transformers import Trainer, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations import TensorBoardCallback, is_tensorboard_available
from transformers.trainer_callback import ProgressCallback

from .layer_weights import HISTORY_KEY, LayerWeightsCallback, name_scalars
from .progress import ProgressWithSpeed

# Folder of TensorBoard's events in a run's folder.
EVENTS_FOLDER = "runs"
_WITHOUT_TENSORFLOW = "tensorboard.compat.notf"


def default_report_to() -> list[str]:
    """Returns what a run reports to where the user does not say: TensorBoard where installed."""
    # Where it finds this module, TensorBoard does without TensorFlow, which takes seconds to load
    # and talks of its own matters.
    sys.modules.setdefault(_WITHOUT_TENSORFLOW, ModuleType(_WITHOUT_TENSORFLOW))
    return ["tensorboard"] if is_tensorboard_available() else []


def add_reporting(trainer: Trainer) -> None:
    """Gives a Trainer our bar, layer weights in the log history, and one folder of events.

    Each of its own callbacks is replaced where it has one, and only there: `disable_tqdm` and
    `report_to` are kept.
    """
    trainer.add_callback(LayerWeightsCallback())
    if trainer.pop_callback(TensorBoardCallback) is not None:
        trainer.add_callback(TensorBoardInRun(trainer.args))
    if trainer.pop_callback(ProgressCallback) is not None:
        trainer.add_callback(ProgressWithSpeed())


class TensorBoardInRun(TensorBoardCallback):
    """Writes a run's events to one folder within the run's, whatever the number of its starts.

    `TENSORBOARD_LOGGING_DIR` names another folder, as for transformers' own callback. That one
    makes a folder at every start, named by time and host, which TensorBoard shows as several runs.
    """

    def __init__(self, args: TrainingArguments) -> None:
        super().__init__()
        self.logging_dir = self.logging_dir or str(Path(str(args.output_dir), EVENTS_FOLDER))

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Opens the events; what an earlier start wrote after the checkpoint is void."""
        if state.is_world_process_zero and self.tb_writer is None:
            # The step after the checkpoint is the first one that comes again.
            first = state.global_step + 1 if state.global_step else None
            self.tb_writer = self._SummaryWriter(log_dir=self.logging_dir, purge_step=first)
        super().on_train_begin(args, state, control, **kwargs)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Writes the logged values, and the layer weights from the log history."""
        if self.tb_writer is not None and state.log_history:
            entry: dict[str, Any] = state.log_history[-1]
            for name, value in name_scalars(entry.get(HISTORY_KEY, {})).items():
                self.tb_writer.add_scalar(name, value, state.global_step)
        super().on_log(args, state, control, logs=logs, **kwargs)
