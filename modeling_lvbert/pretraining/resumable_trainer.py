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
"""A Trainer that a kill at any instant costs nothing but time.

Step k of a run sees the same rows, masks and dropout whatever came before it: restarts, the number
of ranks, or loader processes. What it writes appears complete or not at all.
"""

import contextlib
import json
import logging
import math
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.distributed.checkpoint import CheckpointException
from torch.utils.data import DataLoader, Dataset
from transformers import (
    PreTrainedModel,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.integrations.deepspeed import deepspeed_init, deepspeed_load_checkpoint
from transformers.trainer_utils import rotate_checkpoints

from .arguments import check_streaming
from .averaging import WeightAverage
from .checkpoints import (
    STATE_FILE,
    UNFINISHED,
    clear_unfinished,
    find_last_checkpoint,
    publish_checkpoint,
    publish_files,
    read_state,
)
from .masking import MaskingCollator
from .progress import SpeedMeter
from .reporting import add_reporting
from .rows import START, StepSampler, StreamedBatches, TrainingData, count_steps
from .sharding import (
    check_state_dict_type,
    copy_without_weights,
    find_shardable_layers,
    sharding_on_cpu,
)
from .stages import RunPlan

logger = logging.getLogger(__name__)

# What the run's folder has when all is saved, and what a checkpoint has beside the Trainer's files.
_RESULTS_FILE = "train_results.json"
_AVERAGE_FILE = "weight_average.pt"
_STREAM_FILE = "stream_position.json"


class _Progress(TrainerCallback):
    """Tells the rows which epoch begins, and averages weights."""

    def __init__(self, start_average: Callable[[], None]) -> None:
        self.start_average = start_average
        self.sampler: StepSampler | None = None
        self.average: WeightAverage | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.start_average()

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        # Also right where the Trainer skips the first batches of an epoch, which hides the sampler
        # from it.
        if self.sampler is not None:
            self.sampler.set_epoch(math.floor(state.epoch or 0))

    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self.average is not None:
            self.average.update()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self.sampler is None:
            # A stream has no end to count epochs by: an epoch is the whole run.
            state.epoch = state.global_step / state.max_steps


def _is_end(checkpoint: str, num_steps: int) -> bool:
    return bool(read_state(checkpoint)["global_step"] >= num_steps)


def _plan_run(data: TrainingData, args: TrainingArguments) -> RunPlan:
    num_steps = args.max_steps
    if num_steps <= 0:
        num_rows = args.train_batch_size * args.world_size * args.gradient_accumulation_steps
        num_steps = math.ceil(args.num_train_epochs * count_steps(data.count_rows()[0], num_rows))
    return RunPlan(data.stages, num_steps, args.train_batch_size, data.mask_fractions)


class _TracingCollator:
    """Adds to a batch where it is from, so that a fault can be traced and a stream go on."""

    def __init__(self, collator: MaskingCollator) -> None:
        self.collator = collator

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        batch = self.collator(rows)
        batch["row_numbers"] = torch.tensor([row["mask_key"][-1] for row in rows])
        if "stream_position" in rows[-1]:
            batch["stream_position"] = torch.tensor(rows[-1]["stream_position"])
        return batch


class ResumableTrainer(Trainer):
    """Trains on the rows of a run's stages; goes on after an interruption as if there was none."""

    def __init__(
        self,
        model: PreTrainedModel,
        args: TrainingArguments,
        training_data: TrainingData,
        collator: MaskingCollator,
        callbacks: Iterable[TrainerCallback] = (),
        ema_decay: float | None = None,
        **kwargs: Any,
    ) -> None:
        """Builds the Trainer.

        Args:
            model: The model.
            args: Arguments of training; rows keep all their columns whatever
                `remove_unused_columns` says.
            training_data: Rows of every stage.
            collator: Masks the rows; its tokenizer is saved with the model.
            callbacks: More callbacks.
            ema_decay: Share of the averaged weights that a step keeps; None averages nothing.
            kwargs: Further arguments of transformers' Trainer.

        Raises:
            ValueError: The run is too short for its stages, a device's batch cannot be divided by
                a stage's factor, or an option does not go with streaming or a sharded model.
        """
        # The collator needs each row's key, which no model takes.
        args.remove_unused_columns = False
        if args.ddp_find_unused_parameters is None:
            # Every parameter takes part in the loss.
            args.ddp_find_unused_parameters = False
        if args.include_num_input_tokens_seen == "no":
            args.include_num_input_tokens_seen = "non_padding"
        if training_data.is_streamed:
            check_streaming(args)
            # The stream goes on by itself.
            args.ignore_data_skip = True
        self._training_data = training_data
        self._data_seed = args.seed if args.data_seed is None else args.data_seed
        self._plan = _plan_run(training_data, args)
        self._progress = _Progress(self._start_average)
        self._speed = SpeedMeter()
        self._ema_decay = ema_decay
        self._row_numbers: list[int] = []
        self._stream_position = START
        # The step in work, and how many of its parts this rank has done.
        self._parts_of_step = (-1, 0)
        self._unfinished: Path | None = None
        self._shardable_layers = find_shardable_layers(model)
        self._tokenizer = collator.tokenizer
        super().__init__(
            model=model,
            args=args,
            train_dataset=training_data.build(
                self._plan,
                self._data_seed,
                args.gradient_accumulation_steps,
                args.process_index,
                args.world_size,
            ),
            data_collator=_TracingCollator(collator),
            processing_class=collator.tokenizer,
            callbacks=[*callbacks, self._progress, self._speed],
            **kwargs,
        )
        add_reporting(self)
        if ema_decay is not None and (self.is_fsdp_enabled or self.is_deepspeed_enabled):
            raise ValueError("ema_decay: weights that are sharded over devices cannot be averaged")

    def create_accelerator_and_postprocess(self) -> None:
        """Builds the accelerator, which shards on CPUs as well."""
        with sharding_on_cpu(self.args):
            super().create_accelerator_and_postprocess()
        if self.is_fsdp_enabled:
            plugin = self.accelerator.state.fsdp_plugin
            if plugin.transformer_cls_names_to_wrap is None:
                plugin.transformer_cls_names_to_wrap = self._shardable_layers

    def get_train_dataloader(self) -> DataLoader:
        """Returns what reads this rank's own rows, one batch for each part of each step."""
        args = self.args
        options: dict[str, Any] = {
            "collate_fn": self.data_collator,
            "num_workers": args.dataloader_num_workers,
            "pin_memory": args.dataloader_pin_memory,
            "persistent_workers": args.dataloader_persistent_workers,
            "prefetch_factor": args.dataloader_prefetch_factor,
        }
        if isinstance(self.train_dataset, StreamedBatches):
            return DataLoader(self.train_dataset, batch_size=None, **options)
        self._progress.sampler = StepSampler(
            self._plan,
            self._training_data.count_rows(),
            self._data_seed,
            args.gradient_accumulation_steps,
            args.process_index,
            args.world_size,
        )
        rows = cast(Dataset, self.train_dataset)
        return DataLoader(rows, batch_sampler=self._progress.sampler, **options)

    def train_from(self, checkpoint: str | None) -> None:
        """Trains to the end of the run, and saves the model, the state and the metrics.

        Args:
            checkpoint: Where to go on; where it is the end already, its weights are loaded and
                nothing is trained.

        Raises:
            ValueError: The processes see different checkpoints, or it was sharded in another way.
        """
        self._check_start(checkpoint)
        is_end = checkpoint is not None and _is_end(checkpoint, self._plan.num_steps)
        if checkpoint is not None and is_end:
            logger.info("%s is the end of the run: nothing to train", checkpoint)
            self._load_end(checkpoint)
            self.state = TrainerState.load_from_json(str(Path(checkpoint, STATE_FILE)))
            trained = {"epoch": self.state.epoch or 0.0}
        else:
            if checkpoint is not None:
                logger.info("going on from %s", checkpoint)
                self._find_stream_position(checkpoint)
            trained = self.train(resume_from_checkpoint=checkpoint).metrics
        if not is_end or not self._is_saved():
            self.save_model()
            self.save_state()
            self.log_metrics("train", trained)
            # The last file of a finished run.
            self.save_metrics("train", trained)

    def is_finished(self) -> bool:
        """Tells whether an earlier start has trained to the end and saved the model."""
        folder = str(self.args.output_dir)
        return self._is_saved() and _is_end(folder, self._plan.num_steps)

    def _is_saved(self) -> bool:
        folder = Path(str(self.args.output_dir))
        return (folder / _RESULTS_FILE).is_file() and any(folder.glob("model*.safetensors"))

    def _check_start(self, checkpoint: str | None) -> None:
        step = 0 if checkpoint is None else read_state(checkpoint)["global_step"]
        steps = self.accelerator.gather(torch.tensor([step], device=self.args.device)).tolist()
        if len(set(steps)) > 1:
            raise ValueError(
                f"output_dir {self.args.output_dir!r}: the processes see checkpoints of the steps "
                f"{steps}; it must be a folder that all machines share"
            )
        if checkpoint is not None and not self.is_deepspeed_enabled:
            plugin = self.accelerator.state.fsdp_plugin if self.is_fsdp_enabled else None
            check_state_dict_type(checkpoint, plugin and plugin.state_dict_type.name)

    def _load_end(self, checkpoint: str) -> None:
        """Loads the weights of a finished run.

        FSDP and DeepSpeed share a model out together with its optimizer alone.
        """
        if self.is_deepspeed_enabled:
            self.optimizer, _ = deepspeed_init(self, num_training_steps=self._plan.num_steps)
            prepared = self.accelerator.prepare(self.model, self.optimizer)
            self.deepspeed = self.model_wrapped = prepared[0]
            deepspeed_load_checkpoint(self.deepspeed, checkpoint)
            return
        if self.is_fsdp_enabled:
            prepared = self.accelerator.prepare(self.model, self.create_optimizer())
            self.model, self.optimizer = prepared
            self.model_wrapped = self.model
        self._load_from_checkpoint(checkpoint)
        self._load_average(checkpoint)

    def _find_stream_position(self, checkpoint: str) -> None:
        """Lets the stream go on from a checkpoint."""
        if isinstance(self.train_dataset, StreamedBatches):
            path = Path(checkpoint, _STREAM_FILE)
            position = json.loads(path.read_text(encoding="utf-8"))
            self._stream_position = tuple(position)
            step = read_state(checkpoint)["global_step"]
            self.train_dataset.start_at(step, self._stream_position)

    def _prepare_inputs(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Moves a batch to the device; where it is from is no model's business."""
        inputs = super()._prepare_inputs(inputs)
        numbers = inputs.pop("row_numbers", None)
        if numbers is not None:
            self._row_numbers = numbers.tolist()
        position = inputs.pop("stream_position", None)
        if position is not None:
            self._stream_position = tuple(position.tolist())
        return inputs

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> Tensor:
        """Returns the loss of one part of a step.

        Raises:
            ValueError: The loss is not finite. The weights are still those of the step before.
        """
        torch.manual_seed(self._seed_of_part())
        loss = super().training_step(model, inputs, num_items_in_batch)
        if not bool(torch.isfinite(loss)):
            checkpoint = find_last_checkpoint(str(self.args.output_dir))
            raise ValueError(
                f"the loss is {loss.item()} in step {self.state.global_step + 1}, with the "
                f"training rows {self._row_numbers}; the last complete checkpoint is "
                f"{checkpoint or 'none: nothing was saved yet'}. Lower learning_rate, or lengthen "
                "the warm-up, and start again"
            )
        return loss

    def _seed_of_part(self) -> int:
        """Returns the seed of dropout in the next part of this step.

        It depends on the run's seed, the step and the part's number alone: not on a restart, nor on
        which rank has the part.
        """
        step = self.state.global_step
        part = self._parts_of_step[1] if self._parts_of_step[0] == step else 0
        self._parts_of_step = (step, part + 1)
        number = part * self.args.world_size + self.args.process_index
        return random.Random(f"{self.args.seed} {step} {number}").getrandbits(63)

    def _get_output_dir(self, trial: Any) -> str:
        return super()._get_output_dir(trial) if self._unfinished is None else str(self._unfinished)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Saves a checkpoint that appears when it is complete."""
        output_dir = str(self.args.output_dir)
        with self._writing("checkpoint") as folder:
            super()._save_checkpoint(model, trial)
            finished = folder / f"checkpoint-{self.state.global_step}"
            if isinstance(self.train_dataset, StreamedBatches) and self.args.should_save:
                path = finished / _STREAM_FILE
                path.write_text(json.dumps(self._stream_position), encoding="utf-8")
            self.accelerator.wait_for_everyone()
            if self.args.should_save:
                self._record_best(finished)
                publish_checkpoint(finished, output_dir)
                rotate_checkpoints(
                    output_dir, self.args.save_total_limit, self.state.best_model_checkpoint
                )

    def _record_best(self, finished: Path) -> None:
        """Names the best checkpoint as it will be called."""
        if self.state.best_global_step:
            best = Path(str(self.args.output_dir), f"checkpoint-{self.state.best_global_step}")
            if best.name == finished.name or best.is_dir():
                self.state.best_model_checkpoint = str(best)
                self.state.save_to_json(str(finished / STATE_FILE))

    @contextlib.contextmanager
    def _writing(self, what: str) -> Iterator[Path]:
        """Gives a folder to write in; where that fails, what was saved before is still there.

        Raises:
            OSError: The disk is full, or another fault of writing.
        """
        output_dir = str(self.args.output_dir)
        self._unfinished = Path(output_dir, UNFINISHED)
        if self.args.should_save:
            clear_unfinished(output_dir)
        self.accelerator.wait_for_everyone()
        try:
            yield self._unfinished
        except (OSError, RuntimeError, SafetensorError, CheckpointException) as error:
            shutil.rmtree(self._unfinished, ignore_errors=True)
            reason: BaseException = error
            if isinstance(error, CheckpointException):
                # That of a sharded model: what the first of the ranks that failed met.
                reason = next(iter(error.failures.values()))[0]
            last = find_last_checkpoint(output_dir)
            raise OSError(
                f"the {what} of step {self.state.global_step} cannot be written ({reason}); the "
                f"last complete checkpoint is {last or 'none'}. Make room and start again"
            ) from error
        finally:
            self._unfinished = None
        self.accelerator.wait_for_everyone()

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Saves the model: whole, in a folder that opens under every Auto class.

        Args:
            output_dir: Where to; the run's folder if None.
            _internal_call: Whether it is a part of a checkpoint.
        """
        if _internal_call:
            super().save_model(output_dir, _internal_call)
            return
        with self._writing("model") as folder, self.averaged_weights():
            self._write_model(folder)
            if self.args.should_save:
                publish_files(folder, output_dir or str(self.args.output_dir))
        if self.args.push_to_hub:
            self.push_to_hub(commit_message="Model save", revision=self.args.hub_revision)

    def _write_model(self, folder: Path) -> None:
        """Writes what a finished run leaves into a folder; every rank calls it."""
        state = self._gather_weights()
        if self.args.should_save:
            self._save(str(folder), state_dict=state)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Saves the model, the tokenizer and the arguments; a sharded model as if it were whole."""
        model = self.model
        if state_dict is not None and self.args.should_save:
            whole = copy_without_weights(self.accelerator.unwrap_model(model))
            # Gathered weights are copies, of which nothing else tells that they are tied.
            tied = whole.all_tied_weights_keys
            state_dict = {name: value for name, value in state_dict.items() if name not in tied}
            self.model = whole
        try:
            super()._save(output_dir, state_dict)
        finally:
            self.model = model

    def _gather_weights(self) -> dict[str, Tensor]:
        """Returns all weights whole; those of a sharded model on the first rank alone."""
        model = self.deepspeed if self.is_deepspeed_enabled else self.model
        return dict(self.accelerator.get_state_dict(model))

    def _start_average(self) -> None:
        """Begins to average the weights, which are on their device by now."""
        if self._ema_decay is not None and self._progress.average is None:
            self._progress.average = WeightAverage(cast(nn.Module, self.model), self._ema_decay)

    def _load_average(self, checkpoint: str) -> None:
        self._start_average()
        if self._progress.average is not None:
            path = Path(checkpoint, _AVERAGE_FILE)
            if not path.is_file():
                raise ValueError(
                    f"ema_decay {self._ema_decay}: {checkpoint!r} has no averaged weights to go on "
                    "from; the run must have averaged from its start"
                )
            state = torch.load(path, map_location=self.args.device, weights_only=True)
            self._progress.average.load_state_dict(state)

    def averaged_weights(self) -> contextlib.AbstractContextManager[None]:
        """Gives the model its averaged weights within a `with` block, where they are averaged."""
        average = self._progress.average
        return contextlib.nullcontext() if average is None else average.swapped_in()

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if self._progress.average is not None and self.args.should_save:
            torch.save(self._progress.average.state_dict(), Path(output_dir, _AVERAGE_FILE))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self._load_average(checkpoint)

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Warns of missing weights, tied ones not among them: they are saved under another name."""
        tied = self.accelerator.unwrap_model(self.model).all_tied_weights_keys
        missing = [name for name in load_result.missing_keys if name not in tied]
        load_result.missing_keys[:] = missing
        super()._issue_warnings_after_load(load_result)

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluates, with the averaged weights where they are averaged; returns the metrics."""
        with self.averaged_weights():
            return super().evaluate(*args, **kwargs)
