import logging
import socket

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from transformers import Trainer, TrainingArguments
from transformers.integrations import TensorBoardCallback
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from modeling_lvbert import ELCBertConfig, ELCBertForMaskedLM
from modeling_lvbert.pretraining import reporting
from modeling_lvbert.pretraining.progress import ProgressWithSpeed
from modeling_lvbert.pretraining.reporting import (
    TensorBoardInRun,
    add_reporting,
    default_report_to,
)

CONFIG = {
    "vocab_size": 20,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "layer_order": "sf d",
}
WEIGHT = "layer_weights/word_02/output_01"


def make_trainer(folder, **options):
    torch.manual_seed(1)
    settings = {
        "use_cpu": True,
        "report_to": "tensorboard",
        "dataloader_pin_memory": False,
        "disable_tqdm": True,
        "logging_steps": 1,
        "learning_rate": 0.05,
        "save_steps": 2,
        "max_steps": 4,
        **options,
    }
    args = TrainingArguments(output_dir=str(folder), **settings)
    rows = [{"input_ids": torch.arange(5, 15), "labels": torch.arange(5, 15)}] * 16
    model = ELCBertForMaskedLM(ELCBertConfig(**CONFIG))
    trainer = Trainer(model, args, train_dataset=rows, eval_dataset=rows)
    add_reporting(trainer)
    return trainer


def read_events(folder):
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def kinds(trainer, kind):
    return [type(one) for one in trainer.callback_handler.callbacks if isinstance(one, kind)]


def test_own_callbacks_take_the_place_of_the_trainer_s(tmp_path):
    trainer = make_trainer(tmp_path, disable_tqdm=False)
    assert kinds(trainer, ProgressCallback) == [ProgressWithSpeed]
    assert kinds(trainer, TensorBoardCallback) == [TensorBoardInRun]


def test_what_the_user_switched_off_stays_off(tmp_path):
    trainer = make_trainer(tmp_path, report_to="none")
    assert kinds(trainer, (ProgressCallback, PrinterCallback)) == [PrinterCallback]
    assert kinds(trainer, TensorBoardCallback) == []
    trainer.train()
    assert not (tmp_path / "runs").exists()


def test_losses_and_layer_weights_are_events_in_the_run_s_folder(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TENSORBOARD_LOGGING_DIR", raising=False)
    trainer = make_trainer(tmp_path / "run")
    with caplog.at_level(logging.WARNING):
        trainer.train()
        trainer.evaluate()
    assert caplog.messages == []
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert all(path.is_file() for path in (tmp_path / "run" / "runs").iterdir())
    events = read_events(tmp_path / "run" / "runs")
    history = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert [step for step, _ in events["train/loss"]] == [1, 2, 3, 4]
    assert events[WEIGHT] == [
        (entry["step"], pytest.approx(entry["layer_weights"]["word_02"][1])) for entry in history
    ]
    assert [step for step, _ in events["eval/loss"]] == [4]


def test_a_resumed_run_s_events_go_on_in_the_same_folder(tmp_path):
    class Killed(Exception):
        pass

    def kill(*args, **kwargs):
        raise Killed

    first = make_trainer(tmp_path, max_steps=6)
    first.callback_handler.callbacks[-1].on_train_end = kill
    with pytest.raises(Killed):
        first.train()
    # Without a checkpoint of steps 5 and 6 they come again.
    second = make_trainer(tmp_path, max_steps=6, seed=7)
    second.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    events = read_events(tmp_path / "runs")
    losses = [entry["loss"] for entry in second.state.log_history if "loss" in entry]
    for tag in ("train/loss", WEIGHT):
        assert [step for step, _ in events[tag]] == [1, 2, 3, 4, 5, 6]
    assert [value for _, value in events["train/loss"]] == pytest.approx(losses)


def test_a_finished_run_that_is_only_evaluated_writes_to_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trainer = make_trainer(tmp_path / "run")
    trainer.evaluate()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert "eval/loss" in read_events(tmp_path / "run" / "runs")


def test_another_folder_can_be_named_as_with_transformers(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "elsewhere"))
    make_trainer(tmp_path / "run", max_steps=1).train()
    assert "train/loss" in read_events(tmp_path / "elsewhere")
    assert not (tmp_path / "run" / "runs").exists()


def test_no_checkpoint_names_the_host_or_the_events(tmp_path, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "some-long-host-name")
    make_trainer(tmp_path).train()
    assert any("some-long-host-name" in path.name for path in (tmp_path / "runs").iterdir())
    for path in (tmp_path / "checkpoint-4").rglob("*"):
        assert b"some-long-host-name" not in path.read_bytes()
        assert "tfevents" not in path.name
        # The Trainer's own copy of its arguments, which no published folder needs.
        if path.name != "training_args.bin":
            assert str(tmp_path).encode() not in path.read_bytes()


def test_tensorboard_is_the_default_where_it_is_installed(monkeypatch):
    assert default_report_to() == ["tensorboard"]
    monkeypatch.setattr(reporting, "is_tensorboard_available", lambda: False)
    assert default_report_to() == []
