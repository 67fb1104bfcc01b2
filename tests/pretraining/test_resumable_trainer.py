"""What a restart, a full disk or another split of a step may not change."""

import errno
import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerCallback, TrainingArguments

from modeling_lvbert import LVBertConfig, LVBertForMaskedLM
from modeling_lvbert.pretraining.checkpoints import UNFINISHED, find_last_checkpoint
from modeling_lvbert.pretraining.masking import MaskingCollator
from modeling_lvbert.pretraining.packing import bind_packing, pack_corpus
from modeling_lvbert.pretraining.rows import TrainingData
from modeling_lvbert.pretraining.stages import Stage
from modeling_lvbert.pretraining.streaming import StreamedRows
from modeling_lvbert.pretraining.tokenizer_training import train_tokenizer
from modeling_lvbert.pretraining.trainer import (
    MaskedLanguageModelingTrainer,
    OptimizationSettings,
)

STAGES = (Stage(0.5, 12, 1.0), Stage(0.5, 24, 0.5))
NUM_STEPS = 12


class StopAt(TrainerCallback):
    """Ends the training after some steps, as a kill would."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise KeyboardInterrupt


class Recorder(TrainerCallback):
    """Keeps the weights' sum after each step, to the last bit."""

    def __init__(self):
        self.sums = {}

    def on_step_end(self, args, state, control, model=None, **kwargs):
        weights = [parameter.detach().double().sum() for parameter in model.parameters()]
        self.sums[state.global_step] = float(sum(weights))


@pytest.fixture(scope="module")
def tokenizer(documents):
    return train_tokenizer(documents, "lvbert", 400, 64)


@pytest.fixture(scope="module")
def validation_rows(documents, tokenizer):
    return pack_corpus(documents.select(range(30, 40)), tokenizer, 24)


def make_data(documents, tokenizer, is_streamed, stages=STAGES, mask_fractions=(0.4, 0.15)):
    training = documents.select(range(8))
    lengths = [stage.max_seq_length for stage in stages]
    if is_streamed:

        def read():
            return iter({"text": text} for text in training["text"])

        rows = [
            StreamedRows(read, bind_packing(tokenizer, length), seed=42, block_size=3)
            for length in lengths
        ]
    else:
        rows = [pack_corpus(training, tokenizer, length) for length in lengths]
    return TrainingData(rows, stages, 0.2, mask_fractions)


def make_trainer(tokenizer, data, validation_rows, folder, callbacks=(), ema_decay=None, **options):
    settings = {
        "use_cpu": True,
        "disable_tqdm": True,
        "report_to": "none",
        "dataloader_pin_memory": False,
        "logging_steps": 1,
        "learning_rate": 1e-2,
        "max_steps": NUM_STEPS,
        "per_device_train_batch_size": 4,
        "save_steps": 1,
        **options,
    }
    torch.manual_seed(1)
    model = LVBertForMaskedLM(
        LVBertConfig(
            vocab_size=len(tokenizer),
            pad_token_id=tokenizer.pad_token_id,
            layer_order="dsf",
            embedding_size=16,
            hidden_size=16,
            num_attention_heads=2,
            intermediate_size=32,
        )
    )
    return MaskedLanguageModelingTrainer(
        model,
        TrainingArguments(output_dir=str(folder), **settings),
        data,
        validation_rows,
        MaskingCollator(tokenizer),
        callbacks,
        OptimizationSettings(ema_decay=ema_decay),
    )


def losses(trainer):
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.parametrize("accumulated", [1, 2])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_run_goes_on_from_every_step_to_the_last_bit(
    documents, tokenizer, validation_rows, tmp_path, is_streamed, accumulated
):
    data = make_data(documents, tokenizer, is_streamed)
    options = {"gradient_accumulation_steps": accumulated}

    def start(folder, *callbacks):
        return make_trainer(
            tokenizer, data, validation_rows, folder, callbacks, ema_decay=0.9, **options
        )

    expected = Recorder()
    whole = start(tmp_path / "whole", expected)
    whole.train_from(None)
    # In the first stage, just before, at and behind its end; dropout is at work.
    for stop in (1, 5, 6, 7, 11):
        folder = tmp_path / f"stopped-{stop}"
        seen = Recorder()
        with pytest.raises(KeyboardInterrupt):
            start(folder, seen, StopAt(stop + 1)).train_from(None)
        # The interrupted step was not saved.
        assert find_last_checkpoint(str(folder)) == str(folder / f"checkpoint-{stop}")
        rest = start(folder, seen)
        rest.train_from(find_last_checkpoint(str(folder)))
        assert seen.sums == expected.sums
        assert losses(rest) == losses(whole)
        for name, weight in load_file(tmp_path / "whole" / "model.safetensors").items():
            assert torch.equal(weight, load_file(folder / "model.safetensors")[name])


def test_lengths_batches_and_masks_follow_the_plan(documents, tokenizer, validation_rows, tmp_path):
    data = make_data(documents, tokenizer, False, mask_fractions=(1.0, 0.5))
    trainer = make_trainer(tokenizer, data, validation_rows, tmp_path, save_strategy="no")
    shapes, shares = [], []
    step = trainer.training_step

    def look(model, inputs, *args):
        shapes.append(tuple(inputs["input_ids"].shape))
        ordinary = inputs["attention_mask"].sum() - 2 * len(inputs["input_ids"])
        shares.append(float((inputs["labels"] != -100).sum() / ordinary))
        return step(model, inputs, *args)

    trainer.training_step = look
    trainer.train()
    assert [rows for rows, _ in shapes] == [4] * 6 + [2] * 6
    assert max(length for _, length in shapes[:6]) == 12
    assert max(length for _, length in shapes[6:]) == 24
    assert shares[0] == 1.0
    assert shares[-1] == pytest.approx(0.5 + 0.5 / 12, abs=0.12)


def test_dropout_depends_on_the_part_of_the_step_alone(
    documents, tokenizer, validation_rows, tmp_path
):
    data = make_data(documents, tokenizer, False)

    trainer = make_trainer(tokenizer, data, validation_rows, tmp_path, save_strategy="no")
    batch = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    trainer.model.train()

    def run():
        torch.manual_seed(trainer._seed_of_part())
        return trainer.model(**batch).logits

    first, second = run(), run()
    assert not torch.equal(first, second)
    trainer._parts_of_step = (-1, 0)
    assert torch.equal(run(), first)


def test_a_full_disk_is_told_and_costs_no_checkpoint(
    documents, tokenizer, validation_rows, tmp_path, monkeypatch
):
    data = make_data(documents, tokenizer, False)
    folder = tmp_path / "run"
    save = torch.save

    def fill_up(thing, path, *args, **kwargs):
        if "checkpoint-3" in str(path):
            raise OSError(errno.ENOSPC, "No space left on device")
        return save(thing, path, *args, **kwargs)

    monkeypatch.setattr(torch, "save", fill_up)
    trainer = make_trainer(tokenizer, data, validation_rows, folder)
    with pytest.raises(OSError, match=r"checkpoint of step 3 .*No space left.*checkpoint-2.*start"):
        trainer.train_from(None)
    assert find_last_checkpoint(str(folder)) == str(folder / "checkpoint-2")
    assert {path.name for path in folder.iterdir()} == {"checkpoint-1", "checkpoint-2"}
    monkeypatch.undo()
    rest = make_trainer(tokenizer, data, validation_rows, folder)
    rest.train_from(find_last_checkpoint(str(folder)))
    assert len(losses(rest)) == NUM_STEPS


def test_a_checkpoint_in_work_is_no_checkpoint(documents, tokenizer, validation_rows, tmp_path):
    data = make_data(documents, tokenizer, False)
    trainer = make_trainer(tokenizer, data, validation_rows, tmp_path / "run")
    names = []
    write = trainer._save_rng_state

    def look(output_dir):
        # Nearly all is written, under the other name.
        names.extend(path.name for path in (tmp_path / "run").iterdir())
        write(output_dir)

    trainer._save_rng_state = look
    trainer.args.max_steps = 1
    trainer.train()
    assert names == [UNFINISHED]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["checkpoint-1"]


def test_what_a_killed_save_left_is_cleared(documents, tokenizer, validation_rows, tmp_path):
    data = make_data(documents, tokenizer, False)
    remains = tmp_path / UNFINISHED / "checkpoint-7"
    remains.mkdir(parents=True)
    (remains / "model.safetensors").write_bytes(b"half")
    trainer = make_trainer(tokenizer, data, validation_rows, tmp_path, max_steps=2)
    trainer.train()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-1", "checkpoint-2"]


def test_a_kill_before_the_model_was_saved_costs_no_model(
    documents, tokenizer, validation_rows, tmp_path
):
    data = make_data(documents, tokenizer, False)
    trainer = make_trainer(tokenizer, data, validation_rows, tmp_path)
    trainer.train()
    assert not (tmp_path / "model.safetensors").exists()
    again = make_trainer(tokenizer, data, validation_rows, tmp_path)
    again.train_from(find_last_checkpoint(str(tmp_path)))
    saved = load_file(tmp_path / "model.safetensors")
    assert all(
        torch.equal(saved[name], w)
        for name, w in trainer.model.state_dict().items()
        if name in saved
    )
    assert (tmp_path / "train_results.json").is_file()


def test_old_checkpoints_go_and_the_best_one_stays(
    documents, tokenizer, validation_rows, tmp_path, caplog
):
    data = make_data(documents, tokenizer, False)
    trainer = make_trainer(
        tokenizer, data, validation_rows, tmp_path, save_total_limit=2, eval_strategy="steps",
        eval_steps=1, load_best_model_at_end=True, metric_for_best_model="masked_accuracy",
        max_steps=5,
    )  # fmt: skip
    accuracies = iter([0.1, 0.5, 0.2, 0.2, 0.2])
    trainer.compute_metrics = lambda prediction: {"masked_accuracy": next(accuracies)}
    trainer.train()
    best = str(tmp_path / "checkpoint-2")
    assert trainer.state.best_model_checkpoint == best
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-2", "checkpoint-5"]
    for name in ("checkpoint-2", "checkpoint-5"):
        state = json.loads((tmp_path / name / "trainer_state.json").read_text())
        assert state["best_model_checkpoint"] == best
    assert "missing keys" not in caplog.text
    weights = load_file(tmp_path / "checkpoint-2" / "model.safetensors")
    assert all(torch.equal(trainer.model.state_dict()[name], w) for name, w in weights.items())


def test_averaged_weights_are_evaluated_and_saved(documents, tokenizer, validation_rows, tmp_path):
    data = make_data(documents, tokenizer, False)
    history = []

    class Keeper(TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **kwargs):
            history.append({n: p.detach().clone() for n, p in model.named_parameters()})

    trainer = make_trainer(tokenizer, data, validation_rows, tmp_path, [Keeper()], ema_decay=0.5)
    start = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    trainer.train_from(None)
    for name, mean in start.items():
        for number, weights in enumerate(history, start=1):
            decay = min(0.5, (1 + number) / (10 + number))
            mean = decay * mean + (1 - decay) * weights[name]
        torch.testing.assert_close(load_file(tmp_path / "model.safetensors")[name], mean)
        assert torch.equal(dict(trainer.model.named_parameters())[name], history[-1][name])
    averaged = trainer.evaluate()["eval_loss"]
    trainer._progress.average = None
    assert trainer.evaluate()["eval_loss"] != averaged
    # A finished run that is started again has them too.
    again = make_trainer(tokenizer, data, validation_rows, tmp_path, ema_decay=0.5)
    again.train_from(find_last_checkpoint(str(tmp_path)))
    assert again.evaluate()["eval_loss"] == averaged


@pytest.mark.parametrize(
    ("options", "message"),
    [({"max_steps": -1}, "max_steps is needed"), ({"dataloader_num_workers": 2}, "at most 1")],
)
def test_what_a_stream_cannot_do_is_refused(
    documents, tokenizer, validation_rows, tmp_path, options, message
):
    data = make_data(documents, tokenizer, True)
    with pytest.raises(ValueError, match=message):
        make_trainer(tokenizer, data, validation_rows, tmp_path, **options)
