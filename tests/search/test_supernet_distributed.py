"""A supernet trained by several processes takes the same paths and steps as by one."""

import os
import sys

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed.fsdp import FSDPModule
from transformers import TrainingArguments

from modeling_lvbert import ELCBertConfig, LVBertConfig
from modeling_lvbert.pretraining.electra import ElectraConfig, derive_generator_config
from modeling_lvbert.pretraining.masking import MaskingCollator
from modeling_lvbert.pretraining.rows import TrainingData
from modeling_lvbert.pretraining.stages import Stage
from modeling_lvbert.search.supernet import build_supernet, make_supernet_order
from modeling_lvbert.search.supernet_trainer import ElectraSupernetTrainer, SupernetTrainer
from tests.pretraining.test_distributed import fork

NUM_LAYERS, NUM_STEPS = 4, 4
SHARDED = {"fsdp": True, "fsdp_config": {"version": 2}}


def train(kind, sampling, tokenizer, rows, folder, batch_size, **more):
    """Trains a supernet, leaves it in a folder and returns the path of each backward pass."""
    sizes = {
        "vocab_size": len(tokenizer),
        "hidden_size": 16,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    torch.manual_seed(1)
    if kind == "elcbert":
        config = ELCBertConfig(layer_order=make_supernet_order(NUM_LAYERS, kind), **sizes)
    else:
        order = make_supernet_order(NUM_LAYERS, "lvbert")
        config = LVBertConfig(layer_order=order, embedding_size=16, **sizes)
    if kind == "electra":
        generator = derive_generator_config(config, 0.5)
        config = ElectraConfig(
            discriminator_fields=config.to_dict(), generator_fields=generator.to_dict()
        )
    paths = []

    class Recorded(ElectraSupernetTrainer if kind == "electra" else SupernetTrainer):
        def compute_loss(self, *args, **kwargs):
            paths.append(self._path)
            return super().compute_loss(*args, **kwargs)

    arguments = TrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        disable_tqdm=True,
        report_to="none",
        dataloader_pin_memory=False,
        # A rate at which the step, not its direction alone, counts.
        optim="sgd",
        learning_rate=0.1,
        max_grad_norm=0.0,
        max_steps=NUM_STEPS,
        per_device_train_batch_size=batch_size,
        save_strategy="no",
        **more,
    )
    trainer = Recorded(
        build_supernet(config),
        arguments,
        TrainingData([rows], (Stage(1.0, 16, 1.0),)),
        rows,
        MaskingCollator(tokenizer, with_sample_fractions=kind == "electra"),
        path_sampling=sampling,
    )
    trainer.train_from(None)
    if more:
        assert sum(isinstance(module, FSDPModule) for module in trainer.model.modules()) > 2
    return paths


# From Python 3.12; the copies compute on one thread and none holds a lock.
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a copy of a process is needed")
@pytest.mark.parametrize(
    ("kind", "sampling"),
    [
        # Paths that leave layers out, and several backward passes within a step.
        ("lvbert", "uniform"),
        ("elcbert", "strict"),
        pytest.param("lvbert", "strict", marks=pytest.mark.slow),
        pytest.param("elcbert", "uniform", marks=pytest.mark.slow),
        pytest.param("electra", "uniform", marks=pytest.mark.slow),
        pytest.param("electra", "strict", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    "more",
    [{}, pytest.param(SHARDED, marks=pytest.mark.slow)],
    ids=["copies", "sharded"],
)
def test_two_processes_train_a_supernet_as_one(tokenizer, rows, tmp_path, kind, sampling, more):
    def train_half():
        paths = train(kind, sampling, tokenizer, rows, tmp_path / "two", 2, **more)
        (tmp_path / f"paths-{os.environ['RANK']}").write_text("\n".join(paths))

    assert fork(2, train_half) == [0, 0]
    paths = train(kind, sampling, tokenizer, rows, tmp_path / "one", 4)
    assert len(set(paths)) > 1
    for rank in range(2):
        assert (tmp_path / f"paths-{rank}").read_text().splitlines() == paths
    one, two = (load_file(tmp_path / run / "model.safetensors") for run in ("one", "two"))
    assert one.keys() == two.keys()
    for name, weight in one.items():
        torch.testing.assert_close(two[name], weight, atol=1e-5, rtol=1e-4, msg=name)
