import pytest
import torch

from modeling_lvbert.pretraining.counter_hash import (
    draw_fractions,
    hash_counters,
    make_row_keys,
    shift_right,
)

BITS = 1 << 64


def naive_splitmix64(seed: int, number: int) -> int:
    """Output `number` of the generator, in unsigned Python integers."""
    bits = (seed + (number + 1) * 0x9E3779B97F4A7C15) % BITS
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 % BITS
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB % BITS
    return bits ^ (bits >> 31)


@pytest.mark.parametrize("seed", [0, 1, -1, 2**63 - 1, -(2**63)])
def test_the_hash_is_splitmix64(seed):
    numbers = [0, 1, 5, 1_000_003]
    hashed = hash_counters(torch.tensor(seed), torch.tensor(numbers))
    assert [value % BITS for value in hashed.tolist()] == [
        naive_splitmix64(seed, number) for number in numbers
    ]


def test_splitmix64_gives_the_published_numbers():
    # The first outputs for seed 1234567, as printed beside many implementations.
    hashed = hash_counters(torch.tensor(1234567), torch.arange(3))
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [value % BITS for value in hashed.tolist()] == expected


def test_nothing_that_is_passed_in_changes():
    keys, counters = torch.arange(6).unsqueeze(1), torch.arange(5)
    copies = keys.clone(), counters.clone()
    draw_fractions(keys, counters)
    shift_right(counters, 3)
    assert torch.equal(keys, copies[0])
    assert torch.equal(counters, copies[1])


def test_a_shift_fills_with_zeros():
    assert shift_right(torch.tensor([-1, 8]), 3).tolist() == [2**61 - 1, 1]


def test_fractions_are_even():
    fractions = draw_fractions(torch.arange(100).unsqueeze(1), torch.arange(1000)).flatten()
    assert fractions.dtype == torch.float64
    assert 0 <= fractions.min() < 1e-4
    assert 1 - 1e-4 < fractions.max() < 1
    assert (fractions * 10).long().bincount().tolist() == pytest.approx([10_000] * 10, rel=0.04)


def test_seed_epoch_and_row_all_make_the_key():
    mask_keys = [(seed, epoch, row) for seed in range(4) for epoch in range(4) for row in range(4)]
    keys = make_row_keys(mask_keys)
    assert keys.shape == (64, 1)
    assert len(set(keys.flatten().tolist())) == 64
    assert torch.equal(make_row_keys(mask_keys[10:12]), keys[10:12])
