"""Optimizers, clipping and averaging see whole parameters where FSDP2 shards them."""

import pytest
import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from modeling_lvbert.pretraining.averaging import WeightAverage
from modeling_lvbert.pretraining.optimization import (
    build_optimizer,
    build_parameter_groups,
    clip_gradients,
)

NUM_PROCESSES = 2
WHOLE = StateDictOptions(full_state_dict=True)


def build_model():
    torch.manual_seed(0)
    # Sizes that two processes cannot share evenly.
    return nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.Linear(7, 3))


def build_own_optimizer(kind, model):
    groups = build_parameter_groups(model.named_parameters(), ["0.weight", "2.weight"], 0.1, 0.05)
    return build_optimizer(kind, groups, 0.05, (0.9, 0.98), 1e-6)


def train(model, optimizer, average, steps):
    norms = []
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        optimizer.zero_grad()
        model(torch.randn(8, 5, generator=generator)).square().mean().backward()
        norms.append(clip_gradients(model.parameters(), 0.1))
        optimizer.step()
        average.update()
    return torch.stack(norms)


def collect(parameters):
    return {
        name: (value.full_tensor() if hasattr(value, "full_tensor") else value).detach().clone()
        for name, value in parameters
    }


def run(kind, shard):
    """Trains, stops in the middle and goes on with a new optimizer; returns all that matters."""
    model = shard(build_model())
    optimizer = build_own_optimizer(kind, model)
    average = WeightAverage(model, 0.5)
    norms = train(model, optimizer, average, range(3))
    state = get_optimizer_state_dict(model, optimizer, options=WHOLE)
    # torch prepares an optimizer for loading only where no gradients are left.
    model.zero_grad()
    resumed = build_own_optimizer(kind, model)
    set_optimizer_state_dict(model, resumed, state, options=WHOLE)
    norms = torch.cat([norms, train(model, resumed, average, range(3, 6))])
    weights = collect(model.named_parameters())
    with average.swapped_in():
        return norms, weights, collect(model.named_parameters())


def compare_with_whole(rank, kind, store):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=NUM_PROCESSES
    )
    try:
        mesh = init_device_mesh("cpu", (NUM_PROCESSES,))
        sharded = run(kind, lambda model: fully_shard(model, mesh=mesh))
        whole = run(kind, lambda model: model)
        torch.testing.assert_close(sharded, whole, atol=1e-6, rtol=0.0)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lamb", "uncorrected_adamw"])
def test_two_processes_with_shards_equal_one_with_all(kind, tmp_path):
    torch.multiprocessing.spawn(
        compare_with_whole, (kind, str(tmp_path / "store")), nprocs=NUM_PROCESSES
    )
