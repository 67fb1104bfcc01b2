"""What a resumed run starts from: the optimizer, the schedule and the random numbers of before."""

import shutil

import pytest
import torch
from transformers import TrainerCallback, TrainingArguments

from modeling_lvbert import LVBertConfig, LVBertForMaskedLM
from modeling_lvbert.pretraining.checkpoints import find_last_checkpoint
from modeling_lvbert.pretraining.masking import MaskingCollator
from modeling_lvbert.pretraining.packing import pack_corpus
from modeling_lvbert.pretraining.rows import TrainingData
from modeling_lvbert.pretraining.stages import Stage
from modeling_lvbert.pretraining.tokenizer_training import train_tokenizer
from modeling_lvbert.pretraining.trainer import (
    MaskedLanguageModelingTrainer,
    OptimizationSettings,
)

NUM_STEPS = 6


class StateOfSteps(TrainerCallback):
    """Keeps what the optimizer and the schedule are at the beginning of each step."""

    def __init__(self):
        self.steps = {}

    def on_step_begin(self, args, state, control, optimizer=None, lr_scheduler=None, **kwargs):
        optimizer = getattr(optimizer, "optimizer", optimizer)
        moments = [
            value.clone()
            for group in optimizer.param_groups
            for parameter in group["params"]
            for value in optimizer.state[parameter].values()
        ]
        rates = [group["lr"] for group in optimizer.param_groups]
        self.steps[state.global_step] = (moments, rates, lr_scheduler.state_dict()["last_epoch"])


@pytest.fixture(scope="module")
def tokenizer(documents):
    return train_tokenizer(documents, "lvbert", 400, 64)


@pytest.fixture(scope="module")
def rows(documents, tokenizer):
    return pack_corpus(documents, tokenizer, 16).select(range(20))


@pytest.fixture
def start(tokenizer, rows):
    """Builds a trainer of a run in a folder."""

    def make(folder, callback, optimizer):
        torch.manual_seed(1)
        model = LVBertForMaskedLM(
            LVBertConfig(
                vocab_size=len(tokenizer),
                layer_order="dsf",
                embedding_size=16,
                hidden_size=16,
                num_attention_heads=2,
                intermediate_size=32,
            )
        )
        arguments = TrainingArguments(
            output_dir=str(folder),
            use_cpu=True,
            disable_tqdm=True,
            report_to="none",
            dataloader_pin_memory=False,
            max_steps=NUM_STEPS,
            save_steps=2,
            logging_steps=1,
            per_device_train_batch_size=4,
        )
        return MaskedLanguageModelingTrainer(
            model,
            arguments,
            TrainingData([rows], (Stage(1.0, 16, 1.0),)),
            rows,
            MaskingCollator(tokenizer),
            [callback],
            OptimizationSettings(optimizer=optimizer),
        )

    return make


@pytest.mark.parametrize("optimizer", [None, "lamb"])
def test_a_resumed_run_begins_with_the_optimizer_and_the_rate_of_before(start, tmp_path, optimizer):
    whole, rest = StateOfSteps(), StateOfSteps()
    start(tmp_path / "run", whole, optimizer).train_from(None)
    expected_numbers = torch.rand(3)
    shutil.rmtree(tmp_path / "run" / f"checkpoint-{NUM_STEPS}")
    start(tmp_path / "run", rest, optimizer).train_from(find_last_checkpoint(str(tmp_path / "run")))
    assert torch.equal(torch.rand(3), expected_numbers)
    assert min(rest.steps) == 4
    moments, rates, step = rest.steps[4]
    expected_moments, expected_rates, expected_step = whole.steps[4]
    assert len(moments) == len(expected_moments) > 0
    assert all(torch.equal(one, two) for one, two in zip(moments, expected_moments, strict=True))
    assert (rates, step) == (expected_rates, expected_step)
    assert rates[0] > 0 and step == 4


@pytest.mark.parametrize("damage", ["lost", "cut"])
@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth"])
def test_a_checkpoint_that_lacks_a_part_is_not_gone_on_from(start, tmp_path, name, damage):
    """Neither with a new optimizer or schedule, nor with an error that nobody understands."""
    start(tmp_path / "run", StateOfSteps(), None).train_from(None)
    path = tmp_path / "run" / f"checkpoint-{NUM_STEPS}" / name
    content = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    assert find_last_checkpoint(str(tmp_path / "run")) == str(tmp_path / "run" / "checkpoint-4")


@pytest.mark.parametrize("content", ["[]", "{}", '{"global_step": "x"}', '{"global_step": -1}'])
def test_a_checkpoint_without_a_step_is_none(start, tmp_path, content):
    start(tmp_path / "run", StateOfSteps(), None).train_from(None)
    last = tmp_path / "run" / f"checkpoint-{NUM_STEPS}"
    (last / "trainer_state.json").write_text(content)
    assert find_last_checkpoint(str(tmp_path / "run")) == str(tmp_path / "run" / "checkpoint-4")
