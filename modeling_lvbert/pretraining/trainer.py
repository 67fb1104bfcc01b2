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
"""The Trainer for masked language modelling: order of rows, optimizer groups, evaluation, resuming.

A loss is the sum over the predicted tokens of a whole optimizer step divided by their number, on
however many devices and accumulation steps, in training (transformers' `num_items_in_batch`) as in
evaluation.
"""

import json
import logging
import math
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from torch import Tensor, nn
from transformers import (
    EvalPrediction,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from .masking import IGNORED_LABEL, MaskingCollator, count_token_ids, find_special_ids
from .optimization import OPTIMIZERS, build_optimizer, build_parameter_groups, clip_gradients
from .packing import PackedRows, RowStream
from .schedules import SCHEDULES, build_schedule

logger = logging.getLogger(__name__)

# Parts of the names of parameters that the authors train without weight decay: LV-BERT's
# `optimization.py` (embeddings and convolution kernels do decay), ELC-BERT's training scripts.
NO_WEIGHT_DECAY = {
    "lvbert": ("bias", "layer_norm"),
    "elcbert": ("bias", "layer_norm", "embedding", "prev_layer_weights"),
}

# Seed of the masks of validation, whatever a run's own seed: losses of different runs can be
# compared.
VALIDATION_SEED = 0

RUN_FILE = "run.json"
_STATE_FILE = "trainer_state.json"
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_CHECKPOINT_FILES = (_STATE_FILE, "optimizer.pt", "scheduler.pt", "config.json")


def select_decay_parameters(model: nn.Module, model_type: str) -> list[str]:
    """Returns the names of the parameters that weight decay applies to, by the family's rule.

    Args:
        model: A model of the family.
        model_type: "lvbert" or "elcbert".
    """
    excluded = NO_WEIGHT_DECAY[model_type]
    return [
        name for name, _ in model.named_parameters() if not any(part in name for part in excluded)
    ]


def compute_unigram_entropy(rows: datasets.Dataset, tokenizer: PreTrainedTokenizerBase) -> float:
    """Returns the entropy of the rows' tokens without special ones, nats per token.

    A model that ignores the context cannot have a smaller loss on these rows.
    """
    counts = np.zeros(count_token_ids(tokenizer), dtype=np.int64)
    for start in range(0, len(rows), 1000):
        ids = rows[start : start + 1000]["input_ids"]
        counts += np.bincount([token for row in ids for token in row], minlength=len(counts))
    counts[find_special_ids(tokenizer)] = 0
    shares = counts[counts > 0] / max(1, counts.sum())
    return float(-(shares * np.log(shares)).sum())


def find_last_checkpoint(output_dir: str) -> str | None:
    """Returns a folder's newest checkpoint whose files are all there, None if there is none."""
    found = [
        (int(match[1]), path)
        for path in Path(output_dir).glob("checkpoint-*")
        if _is_complete(path) and (match := _CHECKPOINT.fullmatch(path.name))
    ]
    return str(max(found)[1]) if found else None


def _is_complete(checkpoint: Path) -> bool:
    if not all((checkpoint / name).is_file() for name in _CHECKPOINT_FILES):
        return False
    try:
        # The Trainer writes this file last.
        json.loads((checkpoint / _STATE_FILE).read_text(encoding="utf-8"))
    except ValueError:
        return False
    weights = list(checkpoint.glob("*.safetensors"))
    return bool(weights) and all(_is_whole(path) for path in weights)


def _is_whole(path: Path) -> bool:
    """Tells whether a file of weights is as long as its header says."""
    try:
        with path.open("rb") as file:
            header_size = int.from_bytes(file.read(8), "little")
            if header_size > path.stat().st_size:
                return False
            header = json.loads(file.read(header_size))
        ends = [
            entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"
        ]
    except (ValueError, KeyError, AttributeError, TypeError):
        return False
    return path.stat().st_size == 8 + header_size + max(ends, default=0)


def _is_end(checkpoint: str, max_steps: int) -> bool:
    state = json.loads(Path(checkpoint, _STATE_FILE).read_text(encoding="utf-8"))
    last = max_steps if max_steps > 0 else state["max_steps"]
    return bool(state["global_step"] >= last)


def claim_output_dir(output_dir: str, settings: dict[str, Any]) -> None:
    """Makes a folder this run's own, or checks that it is already.

    Args:
        output_dir: A new or empty folder, or that of an earlier start of the same run.
        settings: What makes the run what it is: model, data, tokenizer, masking; JSON values.

    Raises:
        ValueError: The folder holds other things or a run with other settings, has a damaged
            record, lies on or under a file, or cannot be written.
    """
    folder = Path(output_dir)
    record = folder / RUN_FILE
    if record.is_file():
        earlier = _read_record(record)
        changed = [
            f"{name} was {earlier.get(name)!r}, now {settings.get(name)!r}"
            for name in sorted({*earlier, *settings})
            if earlier.get(name) != settings.get(name)
        ]
        if changed:
            raise ValueError(
                f"output_dir {output_dir!r} holds another run ({'; '.join(changed)}): "
                "take a new folder"
            )
        return
    lowest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not lowest.is_dir():
        raise ValueError(f"output_dir {output_dir!r}: {str(lowest)!r} is a file, no folder")
    temporary = record.with_suffix(".tmp")
    if folder.is_dir() and any(path != temporary for path in folder.iterdir()):
        raise ValueError(
            f"output_dir {output_dir!r} is not empty and holds no run of this program: "
            "take a new folder"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", "utf-8")
        temporary.rename(record)
    except OSError as error:
        raise ValueError(f"output_dir {output_dir!r} cannot be written: {error}") from None


def _read_record(record: Path) -> dict[str, Any]:
    try:
        earlier = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{str(record)!r} cannot be read ({error}): take a new folder") from None
    if not isinstance(earlier, dict):
        raise ValueError(f"{str(record)!r} is no record of a run: take a new folder")
    return earlier


class _Progress(TrainerCallback):
    """Tells the stream of rows which epoch begins, and measures the speed of training."""

    def __init__(self, stream: RowStream) -> None:
        self.stream = stream
        self.first_tokens = self.tokens = 0
        self.time = 0.0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.first_tokens = self.tokens = state.num_input_tokens_seen
        self.time = time.perf_counter()

    def measure_speed(self, tokens: int) -> float:
        """Returns the tokens per second since the last call."""
        now = time.perf_counter()
        speed = (tokens - self.tokens) / max(now - self.time, 1e-9)
        self.tokens, self.time = tokens, now
        return speed

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        # Also right where the Trainer skips the first batches of an epoch, which hides the stream
        # from it.
        self.stream.set_epoch(math.floor(state.epoch or 0))


@dataclass
class OptimizationSettings:
    """How the originals train, where that differs from `TrainingArguments`; None keeps theirs."""

    optimizer: str | None = field(
        default=None,
        metadata={"help": f"One of: {', '.join(OPTIMIZERS)}. Absent: what --optim says."},
    )
    schedule: str | None = field(
        default=None,
        metadata={"help": f"One of: {', '.join(SCHEDULES)}. Absent: --lr_scheduler_type."},
    )
    schedule_power: float = field(
        default=1.0, metadata={"help": "Exponent of the polynomial schedule."}
    )
    min_factor: float = field(
        default=0.1, metadata={"help": "Lowest factor of the cosine schedule."}
    )
    clipping_epsilon: float | None = field(
        default=None,
        metadata={"help": "Added to the norm when clipping: 0 in LV-BERT, 1e-6 in ELC-BERT."},
    )

    def __post_init__(self) -> None:
        """Checks names and numbers.

        Raises:
            ValueError: There is no such optimizer or schedule, or a number is out of range.
        """
        for name, known in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
            value = getattr(self, name)
            if value is not None and value not in known:
                raise ValueError(f"{name} {value!r}: must be one of {', '.join(known)}")
        for name, highest in (
            ("schedule_power", math.inf),
            ("min_factor", 1.0),
            ("clipping_epsilon", math.inf),
        ):
            value = getattr(self, name)
            if value is not None and not (0 <= value <= highest and value < math.inf):
                raise ValueError(f"{name} {value}: must be a number from 0 to {highest}")


class _NumberingCollator:
    """Adds the number of each row to a batch, so that a fault can be traced to its rows."""

    def __init__(self, collator: MaskingCollator) -> None:
        self.collator = collator

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        numbers = [row["mask_key"][-1] for row in rows]
        return {**self.collator(rows), "row_numbers": torch.tensor(numbers)}


class MaskedLanguageModelingTrainer(Trainer):
    """Trains a model with a masked-language-modelling head on packed rows.

    Its metrics are `loss` (nats per predicted token), `perplexity`, `masked_accuracy` and
    `num_masked_tokens`, all over the tokens of the whole validation split, whatever its split into
    batches.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        args: TrainingArguments,
        train_rows: datasets.Dataset,
        validation_rows: datasets.Dataset,
        collator: MaskingCollator,
        callbacks: Iterable[TrainerCallback] = (),
        optimization: OptimizationSettings | None = None,
        short_sequence_probability: float = 0.0,
        max_seq_length: int = 0,
    ) -> None:
        """Builds the Trainer.

        Args:
            model: The model.
            args: Arguments of training; rows keep all their columns whatever
                `remove_unused_columns` says.
            train_rows: Result of `pack_corpus`.
            validation_rows: The same for validation.
            collator: Masks the rows; its tokenizer is saved with the model.
            callbacks: More callbacks.
            optimization: Optimizer, schedule and clipping of the originals; those of `args` where
                a setting is absent.
            short_sequence_probability: Share of the training rows to shorten, see `PackedRows`.
            max_seq_length: Longest row, tokens, where rows are shortened.
        """
        # The collator needs each row's key, which no model takes.
        args.remove_unused_columns = False
        if args.ddp_find_unused_parameters is None:
            # Every parameter takes part in the loss.
            args.ddp_find_unused_parameters = False
        if args.include_num_input_tokens_seen == "no":
            args.include_num_input_tokens_seen = "non_padding"
        seed = args.seed if args.data_seed is None else args.data_seed
        global_batch_size = (
            args.train_batch_size * args.world_size * args.gradient_accumulation_steps
        )
        self._stream = RowStream(len(train_rows), global_batch_size, seed)
        self._progress = _Progress(self._stream)
        self._optimization = optimization or OptimizationSettings()
        self._row_numbers: list[int] = []
        self._tokenizer = collator.tokenizer
        super().__init__(
            model=model,
            args=args,
            train_dataset=PackedRows(train_rows, seed, short_sequence_probability, max_seq_length),
            eval_dataset=PackedRows(validation_rows, VALIDATION_SEED),
            data_collator=_NumberingCollator(collator),
            processing_class=collator.tokenizer,
            compute_metrics=self.summarize,
            callbacks=[*callbacks, self._progress],
        )

    def train_from(self, checkpoint: str | None) -> None:
        """Trains to the end of the run, and saves the model, the state and the metrics.

        Args:
            checkpoint: Where to go on; where it is the end already, its weights are loaded and
                nothing is trained or saved again.
        """
        if checkpoint is not None and _is_end(checkpoint, self.args.max_steps):
            logger.info("%s is the end of the run: nothing to train", checkpoint)
            self._load_from_checkpoint(checkpoint)
            self.state = TrainerState.load_from_json(str(Path(checkpoint, _STATE_FILE)))
            return
        if checkpoint is not None:
            logger.info("going on from %s", checkpoint)
        trained = self.train(resume_from_checkpoint=checkpoint).metrics
        self.save_model()
        self.save_state()
        self.log_metrics("train", trained)
        self.save_metrics("train", trained)

    def get_decay_parameter_names(self, model: nn.Module) -> list[str]:
        """Returns what decays by the family's rule, by transformers' for other models."""
        model_type = self.accelerator.unwrap_model(model).config.model_type
        if model_type in NO_WEIGHT_DECAY:
            return select_decay_parameters(model, model_type)
        return super().get_decay_parameter_names(model)

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """Returns the chosen optimizer; decay leaves out what the originals leave out."""
        name = self._optimization.optimizer
        if name is None or self.optimizer is not None:
            return super().create_optimizer(model)
        model, args = model or self.model, self.args
        if model is None:
            raise ValueError("there is no model to train yet")
        groups = build_parameter_groups(
            model.named_parameters(),
            self.get_decay_parameter_names(model),
            args.weight_decay,
            args.learning_rate,
        )
        betas = (args.adam_beta1, args.adam_beta2)
        self.optimizer = build_optimizer(name, groups, args.learning_rate, betas, args.adam_epsilon)
        return self.optimizer

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> torch.optim.lr_scheduler.LRScheduler:
        """Returns the chosen schedule over the whole run."""
        settings = self._optimization
        optimizer = optimizer or self.optimizer
        if settings.schedule is None or self.lr_scheduler is not None or optimizer is None:
            return super().create_scheduler(num_training_steps, optimizer)
        warmup = self.args.warmup_steps
        self.lr_scheduler = build_schedule(
            optimizer,
            settings.schedule,
            num_training_steps,
            warmup * num_training_steps if warmup < 1 else warmup,
            settings.schedule_power,
            settings.min_factor,
        )
        return self.lr_scheduler

    def _clip_grad_norm(self, model: nn.Module) -> Any:
        epsilon = self._optimization.clipping_epsilon
        if epsilon is None or self.is_deepspeed_enabled:
            return super()._clip_grad_norm(model)
        self.accelerator.unscale_gradients()
        return clip_gradients(model.parameters(), self.args.max_grad_norm, epsilon)

    def _prepare_inputs(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Moves a batch to the device; the numbers of its rows are for messages only."""
        inputs = super()._prepare_inputs(inputs)
        numbers = inputs.pop("row_numbers", None)
        if numbers is not None:
            self._row_numbers = numbers.tolist()
        return inputs

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> Tensor:
        """Returns the loss of one part of a step.

        Raises:
            ValueError: The loss is not finite. The weights are still those of the step before.
        """
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

    def _get_train_sampler(
        self, train_dataset: torch.utils.data.Dataset | None = None
    ) -> RowStream:
        return self._stream

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Logs, with the speed in tokens per second beside the loss."""
        tokens = self.state.num_input_tokens_seen
        if "loss" in logs:
            logs["tokens_per_second"] = round(self._progress.measure_speed(tokens), 1)
        if "train_runtime" in logs:
            seconds = max(logs["train_runtime"], 1e-9)
            logs["train_tokens_per_second"] = round(
                (tokens - self._progress.first_tokens) / seconds, 1
            )
        super().log(logs, start_time)

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> tuple[None, Tensor, Tensor]:
        """Returns each row's sums, not its logits: loss, hits, predicted tokens; (batch, 3)."""
        inputs = self._prepare_inputs(inputs)
        labels = inputs.pop("labels")
        with torch.no_grad(), self.compute_loss_context_manager():
            logits = model(**inputs).logits
        predicted = labels != IGNORED_LABEL
        targets = labels[predicted]
        # (tokens, vocab): only the predicted ones are raised to full precision
        logits = logits[predicted].float()
        losses = nn.functional.cross_entropy(logits, targets, reduction="none")
        sums = torch.stack(
            [losses, (logits.argmax(dim=-1) == targets).float(), torch.ones_like(losses)], dim=1
        )
        totals = sums.new_zeros(len(labels), 3).index_add_(0, predicted.nonzero()[:, 0], sums)
        # The Trainer calls for metrics only where there are labels.
        return None, totals, labels.new_zeros(len(labels))

    def summarize(self, prediction: EvalPrediction) -> dict[str, float]:
        """Returns the metrics of validation from the sums that `prediction_step` returned."""
        loss, hits, count = np.asarray(prediction.predictions, dtype=np.float64).sum(axis=0)
        count = max(count, 1.0)
        return {
            "loss": loss / count,
            "perplexity": float(np.exp(min(loss / count, 700.0))),
            "masked_accuracy": hits / count,
            "num_masked_tokens": count,
        }
