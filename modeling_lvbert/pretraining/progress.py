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
"""Training's progress bar: the last loss, tokens per second and the time left, in one line.

It differs from transformers' own bar in that it knows where a resumed run begins, so that the time
left is right, and in that lines logged to the console do not break it.
"""

import logging
import sys
import time
from typing import Any, TextIO

from tqdm.auto import tqdm  # type: ignore[import-untyped]
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ProgressCallback

# Where handlers that write to the console hang: everybody's, and those of libraries with their own.
_CONSOLE_LOGGERS = (None, "transformers", "datasets")


class SpeedMeter(TrainerCallback):
    """Measures training's speed in tokens per second; evaluating and saving take no time in it.

    Attributes:
        first_tokens: Tokens that the run had seen when this start of it began.
    """

    def __init__(self) -> None:
        self.first_tokens = self._tokens = 0
        self._time = self._step_end = 0.0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Starts to measure."""
        self.first_tokens = self._tokens = state.num_input_tokens_seen
        self._time = self._step_end = time.perf_counter()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Notes where training ends and other work may begin."""
        self._step_end = time.perf_counter()

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Leaves out the time since the last step."""
        now = time.perf_counter()
        self._time += now - self._step_end
        self._step_end = now

    # Whatever of the two comes last, all since the last step is left out once.
    on_save = on_evaluate

    def measure(self, tokens: int) -> float:
        """Returns the tokens per second of training since the last call, or since the beginning.

        Args:
            tokens: Tokens that the run has seen so far, by all processes.
        """
        now = time.perf_counter()
        speed = (tokens - self._tokens) / max(now - self._time, 1e-9)
        self._tokens, self._time = tokens, now
        return speed


class ProgressWithSpeed(ProgressCallback):
    """Transformers' progress bar with the last `loss` and `tokens_per_second` that were logged.

    Use it in the place of `ProgressCallback`, which the Trainer adds where progress is shown.
    """

    # The base class knows only that it is None at first.
    training_bar: Any

    def __init__(self, max_str_len: int = 100) -> None:
        super().__init__(max_str_len)
        self._redirected: list[tuple[logging.StreamHandler, TextIO]] = []

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Opens the bar at the step where the run goes on."""
        self.current_step = state.global_step
        if state.is_world_process_zero:
            self.training_bar = tqdm(
                total=state.max_steps, initial=state.global_step, unit="step", dynamic_ncols=True
            )
            self._redirected = _redirect_console_handlers()

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Writes the logged values above the bar, and the loss and the speed into it."""
        super().on_log(args, state, control, logs=logs, **kwargs)
        if self.training_bar is not None and logs is not None and "loss" in logs:
            parts = [f"loss {logs['loss']:.4g}"]
            if "tokens_per_second" in logs:
                parts.append(f"{tqdm.format_sizeof(logs['tokens_per_second'])} tokens/s")
            self.training_bar.set_postfix_str(", ".join(parts))

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Closes the bar."""
        super().on_train_end(args, state, control, **kwargs)
        for handler, stream in self._redirected:
            handler.setStream(stream)
        self._redirected = []


class _AboveBars:
    """A stream whose text goes to another one, with the open bars moved out of its way."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        tqdm.write(text, file=self._stream, end="")

    def flush(self) -> None:
        self._stream.flush()


def _redirect_console_handlers() -> list[tuple[logging.StreamHandler, TextIO]]:
    """Makes log lines appear above the bars, and returns handlers with the streams they had."""
    console = (sys.stdout, sys.stderr)
    handlers = [
        handler
        for name in _CONSOLE_LOGGERS
        for handler in logging.getLogger(name).handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream in console
    ]
    streams = [(handler, handler.stream) for handler in handlers]
    for handler, stream in streams:
        handler.setStream(_AboveBars(stream))
    return streams
