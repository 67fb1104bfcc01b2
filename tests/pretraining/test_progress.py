import contextlib
import logging
import sys
from types import SimpleNamespace

import pytest
import torch
from transformers import Trainer, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ProgressCallback

from modeling_lvbert.pretraining import progress
from modeling_lvbert.pretraining.progress import ProgressWithSpeed, SpeedMeter


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


@pytest.fixture
def args(tmp_path):
    return TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")


def test_speed_counts_this_start_s_tokens_and_no_time_of_evaluation_or_saving(clock, args):
    meter, control = SpeedMeter(), TrainerControl()
    meter.on_train_begin(args, TrainerState(num_input_tokens_seen=5000), control)
    assert meter.first_tokens == 5000
    clock.now += 10
    meter.on_step_end(args, TrainerState(), control)
    assert meter.measure(6000) == pytest.approx(100)
    clock.now += 300
    meter.on_evaluate(args, TrainerState(), control)
    clock.now += 50
    meter.on_save(args, TrainerState(), control)
    clock.now += 4
    meter.on_step_end(args, TrainerState(), control)
    assert meter.measure(6200) == pytest.approx(50)


class Line(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)

    def forward(self, x, labels):
        return {"loss": (self.linear(x) - labels).square().mean()}


class TalkativeTrainer(Trainer):
    def log(self, logs, start_time=None):
        if "loss" in logs:
            logging.getLogger("talk").warning("step %s is over", self.state.global_step)
            logs = {**logs, "loss": 1.25, "tokens_per_second": 12345.6}
        super().log(logs, start_time)


@contextlib.contextmanager
def log_to_console():
    """Log lines go to standard error, as the scripts set it up."""
    handler = logging.StreamHandler(sys.stderr)
    logging.getLogger().addHandler(handler)
    try:
        yield
        # What is gone after training does not hide the lines that follow.
        assert handler.stream is sys.stderr
    finally:
        logging.getLogger().removeHandler(handler)


def train(folder, **options):
    # Its default depends on how much the libraries log.
    settings = {"use_cpu": True, "report_to": "none", "disable_tqdm": False, **options}
    settings["dataloader_pin_memory"] = False
    args = TrainingArguments(
        output_dir=str(folder), max_steps=4, logging_steps=1, save_strategy="no", **settings
    )
    rows = [{"x": torch.ones(1), "labels": torch.ones(1)}] * 8
    trainer = TalkativeTrainer(Line(), args, train_dataset=rows, eval_dataset=rows)
    if trainer.pop_callback(ProgressCallback) is not None:
        trainer.add_callback(ProgressWithSpeed())
    trainer.train()
    return trainer


def test_the_bar_has_the_last_loss_the_speed_and_the_time_left(tmp_path, capsys):
    train(tmp_path)
    bars = [line for line in capsys.readouterr().err.split("\r") if "4/4" in line]
    assert bars
    assert "loss 1.25, 12.3k tokens/s]" in bars[-1]
    assert "<00:00" in bars[-1]


def test_log_lines_do_not_tear_the_bar(tmp_path, capsys):
    with log_to_console():
        train(tmp_path, eval_strategy="steps", eval_steps=2)
    captured = capsys.readouterr()
    # What a terminal shows of a line is what follows its last carriage return.
    shown = [line.split("\r")[-1] for line in captured.err.split("\n")]
    assert [line for line in shown if "is over" in line] == [
        f"step {step} is over" for step in (1, 2, 3, 4)
    ]
    assert captured.out.count("'loss': '1.25'") == 4


def test_without_bars_there_is_nothing_to_replace(tmp_path, capsys):
    trainer = train(tmp_path, disable_tqdm=True)
    assert trainer.pop_callback(ProgressCallback) is None
    assert "%|" not in capsys.readouterr().err


def test_a_resumed_run_s_bar_begins_where_it_goes_on(args, capsys):
    bar, control = ProgressWithSpeed(), TrainerControl()
    state = TrainerState(global_step=90, max_steps=100)
    bar.on_train_begin(args, state, control)
    assert (bar.training_bar.n, bar.training_bar.initial) == (90, 90)
    state.global_step = 91
    bar.on_step_end(args, state, control)
    assert bar.training_bar.n == 91
    bar.on_train_end(args, state, control)
    # Steps of before that counted as this start's would make the time left far too short.
    assert " 91/100" in capsys.readouterr().err.split("\r")[-1]


def test_other_processes_are_quiet(args, capsys):
    bar, control = ProgressWithSpeed(), TrainerControl()
    state = TrainerState(max_steps=10, is_world_process_zero=False)
    with log_to_console():
        bar.on_train_begin(args, state, control)
        bar.on_step_end(args, state, control)
        bar.on_log(args, state, control, logs={"loss": 1.0})
        bar.on_train_end(args, state, control)
    assert capsys.readouterr().err == ""
