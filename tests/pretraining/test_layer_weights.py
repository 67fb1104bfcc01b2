import functools
import json
import logging

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import Trainer, TrainerCallback, TrainerState, TrainingArguments

from modeling_lvbert import ELCBertConfig, ELCBertForMaskedLM, LVBertConfig, LVBertForMaskedLM
from modeling_lvbert.pretraining.layer_weights import (
    HISTORY_KEY,
    LayerWeightsCallback,
    name_scalars,
    read_layer_weights,
)

SIZES = {
    "vocab_size": 20,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
NUM_PROCESSES = 2


def build(variant="zero", layer_order="sf d sf"):
    torch.manual_seed(1)
    model = ELCBertForMaskedLM(ELCBertConfig(layer_order=layer_order, variant=variant, **SIZES))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "prev_layer_weights" in name:
                parameter.normal_()
    return model


def make_trainer(folder, model=None, callbacks=(), **options):
    settings = {
        "use_cpu": True,
        "report_to": "none",
        "dataloader_pin_memory": False,
        "disable_tqdm": True,
        "logging_steps": 1,
        "learning_rate": 0.05,
        "max_steps": 4,
        "save_strategy": "no",
        **options,
    }
    args = TrainingArguments(output_dir=str(folder), **settings)
    rows = [{"input_ids": torch.arange(5, 15), "labels": torch.arange(5, 15)}] * 16
    return Trainer(
        model or build(),
        args,
        train_dataset=rows,
        eval_dataset=rows,
        callbacks=[LayerWeightsCallback(), *callbacks],
    )


@pytest.mark.parametrize(
    ("variant", "names"),
    [
        ("zero", ["word_01", "word_02", "word_03"]),
        ("weighted_output", ["word_01", "word_02", "word_03", "mix"]),
    ],
)
def test_weights_are_the_model_s_named_by_what_reads(variant, names):
    model = build(variant)
    weights = read_layer_weights(model)
    assert list(weights) == names
    torch.testing.assert_close(list(weights.values()), model.layer_selection_weights())


def test_models_that_select_no_layers_have_no_weights():
    assert read_layer_weights(build("ltg")) == {}
    config = LVBertConfig(layer_order="dsf", embedding_size=16, **SIZES)
    assert read_layer_weights(LVBertForMaskedLM(config)) == {}


@pytest.mark.parametrize(
    "wrap",
    [torch.nn.DataParallel, functools.partial(torch.compile, backend="eager")],
    ids=["data-parallel", "compiled"],
)
def test_a_wrapped_model_has_the_same_weights(wrap):
    model = build()
    torch.testing.assert_close(read_layer_weights(wrap(model)), read_layer_weights(model))


def test_parts_of_weights_are_not_taken_for_the_whole():
    model = build()
    model.elcbert.encoder.layer_selections[1].prev_layer_weights.data = torch.zeros(0)
    assert read_layer_weights(model) == {}


def read_sharded(rank, store):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=NUM_PROCESSES
    )
    try:
        model = build("weighted_output")
        expected = read_layer_weights(model)
        mesh = init_device_mesh("cpu", (NUM_PROCESSES,))
        for word in model.elcbert.encoder.words:
            fully_shard(word, mesh=mesh)
        fully_shard(model, mesh=mesh)
        torch.testing.assert_close(read_layer_weights(model), expected)
        ids = torch.arange(10)[None]
        model(ids, labels=ids).loss.backward()
        torch.testing.assert_close(read_layer_weights(model), expected)
        with torch.no_grad():
            model(ids)
        # Whole again on each process, until the next backward pass.
        torch.testing.assert_close(read_layer_weights(model), expected)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_a_sharded_model_has_the_same_weights_on_all_processes(tmp_path):
    torch.multiprocessing.spawn(read_sharded, (str(tmp_path / "store"),), nprocs=NUM_PROCESSES)


def test_each_weight_has_a_readable_name_of_its_own():
    assert name_scalars({"word_01": [1.0], "mix": [0.25, 0.75]}) == {
        "layer_weights/word_01/output_00": 1.0,
        "layer_weights/mix/output_00": 0.25,
        "layer_weights/mix/output_01": 0.75,
    }


class Witness(TrainerCallback):
    """Notes the model's weights at each step, before any other callback can have changed them."""

    def __init__(self):
        self.seen = {}

    def on_step_end(self, args, state, control, model=None, **kwargs):
        self.seen[state.global_step] = model.layer_selection_weights()


def test_the_history_has_the_weights_beside_each_training_loss(tmp_path):
    witness = Witness()
    trainer = make_trainer(tmp_path, callbacks=[witness], eval_strategy="steps", eval_steps=2)
    trainer.train()
    entries = [entry for entry in trainer.state.log_history if HISTORY_KEY in entry]
    assert [entry["step"] for entry in entries] == [1, 2, 3, 4]
    assert all("loss" in entry for entry in entries)
    for entry in entries:
        for row, weights in zip(
            entry[HISTORY_KEY].values(), witness.seen[entry["step"]], strict=True
        ):
            assert row == [round(weight, 4) for weight in weights.tolist()]
    assert entries[0][HISTORY_KEY] != entries[-1][HISTORY_KEY]


def test_nothing_but_the_history_gets_the_table(tmp_path, capsys, caplog):
    """A table is printed whole by the Trainer's printer, and refused with a warning by others."""
    with caplog.at_level(logging.WARNING):
        make_trainer(tmp_path).train()
    assert "word_01" not in capsys.readouterr().out
    assert caplog.messages == []


def test_the_weights_survive_a_resumed_run(tmp_path):
    make_trainer(tmp_path, save_strategy="steps", save_steps=2, max_steps=2).train()
    checkpoint = tmp_path / "checkpoint-2"
    saved = json.loads((checkpoint / "trainer_state.json").read_text())["log_history"]
    assert all(len(entry[HISTORY_KEY]["word_03"]) == 3 for entry in saved)
    resumed = make_trainer(tmp_path)
    resumed.train(resume_from_checkpoint=str(checkpoint))
    history = [entry for entry in resumed.state.log_history if HISTORY_KEY in entry]
    assert history[:2] == saved
    assert [entry["step"] for entry in history] == [1, 2, 3, 4]
    resumed.state.save_to_json(str(tmp_path / "state.json"))
    loaded = TrainerState.load_from_json(str(tmp_path / "state.json"))
    assert loaded.log_history == resumed.state.log_history


def test_a_model_without_weights_leaves_the_history_alone(tmp_path):
    trainer = make_trainer(tmp_path, build("ltg"))
    trainer.train()
    assert not any(HISTORY_KEY in entry for entry in trainer.state.log_history)
