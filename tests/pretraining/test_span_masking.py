import json

import pytest
import torch
from safetensors.torch import load_file

from benchmarks.masking import mask_row
from modeling_lvbert.pretraining.counter_hash import (
    draw_fractions,
    hash_counters,
    make_row_keys,
)
from modeling_lvbert.pretraining.span_masking import MAX_SPANS, _place_spans, choose_spans

KEPT, MASK, RANDOM = 0, 1, 2


@pytest.fixture(scope="module")
def recorded(project_root):
    return project_root / "tests/fixtures/goldens/elc_optim_and_masking"


@pytest.fixture(scope="module")
def statistics(recorded):
    return json.loads((recorded / "span_masking_statistics.json").read_text(encoding="utf-8"))


def keys_of(count, seed=0):
    return make_row_keys([(seed, 0, number) for number in range(count)])


def make_candidates(lengths, seq_length):
    """Rows whose first and last token are special."""
    positions = torch.arange(seq_length)
    lengths = torch.tensor(lengths).unsqueeze(1)
    return (positions > 0) & (positions < lengths - 1), lengths


def assign_kinds(chosen, owners, keys):
    """What becomes of each chosen token: one decision for each span; -1 elsewhere."""
    action = draw_fractions(hash_counters(keys, torch.tensor(99)), owners)
    kinds = torch.where(action < 0.8, MASK, torch.where(action < 0.9, RANDOM, KEPT))
    return kinds.masked_fill(~chosen, -1)


def find_runs(kinds):
    """Maximal runs of chosen tokens, as lists of kinds."""
    runs = []
    for row in kinds.tolist():
        run = []
        for kind in [*row, -1]:
            if kind >= 0:
                run.append(kind)
            elif run:
                runs.append(run)
                run = []
    return runs


def test_the_benchmark_s_loop_repeats_the_recorded_examples(recorded):
    examples = load_file(recorded / "span_masking_exact_examples.safetensors")
    for seed in range(1000, 1006):
        torch.manual_seed(seed)
        masked, labels = mask_row(examples[f"seed{seed}/tokens"], 6, 120)
        assert torch.equal(masked, examples[f"seed{seed}/inputs"])
        assert torch.equal(labels, examples[f"seed{seed}/labels"])


@pytest.mark.parametrize("seed", range(3))
def test_the_statistics_are_the_recorded_ones(statistics, seed):
    # About 20 thousand tokens, a tenth of the rows short, as in the recording.
    generator = torch.Generator().manual_seed(seed)
    is_short = torch.rand(166, generator=generator) < 0.1
    short = torch.randint(3, 128, (166,), generator=generator)
    candidates, lengths = make_candidates(torch.where(is_short, short, 128).tolist(), 128)
    keys = keys_of(166, seed)
    chosen, owners = choose_spans(candidates, lengths, keys, 0.15)
    kinds = assign_kinds(chosen, owners, keys)
    runs = find_runs(kinds)
    lengths_of_runs = torch.tensor([float(len(run)) for run in runs])
    longer = [run for run in runs if len(run) > 1]
    pairs = [(run[i], run[i + 1]) for run in runs for i in range(len(run) - 1)]
    masked = kinds[chosen]

    def share(items, condition):
        return sum(condition(item) for item in items) / len(items)

    found = {
        "fraction_masked_of_maskable": chosen.sum().item() / candidates.sum().item(),
        "mean_maximal_run_length": lengths_of_runs.mean().item(),
        "fraction_runs_length_1": (lengths_of_runs == 1).float().mean().item(),
        "fraction_runs_length_ge_4": (lengths_of_runs >= 4).float().mean().item(),
        "fraction_runs_length_ge_10": (lengths_of_runs >= 10).float().mean().item(),
        "of_masked_tokens_replaced_by_MASK": (masked == MASK).float().mean().item(),
        "of_masked_tokens_random": (masked == RANDOM).float().mean().item(),
        "of_masked_tokens_kept": (masked == KEPT).float().mean().item(),
        "runs_of_length_ge_2_with_a_single_kind": share(longer, lambda run: len(set(run)) == 1),
        "adjacent_masked_pairs_of_same_kind": share(pairs, lambda pair: pair[0] == pair[1]),
        "runs_all_MASK": share(runs, lambda run: set(run) == {MASK}),
        "runs_all_random": share(runs, lambda run: set(run) == {RANDOM}),
        "runs_all_kept": share(runs, lambda run: set(run) == {KEPT}),
        "masked_per_sequence_zero": (~chosen.any(dim=1)).float().mean().item(),
    }
    for name, value in found.items():
        tolerance = statistics[name]["tolerance_for_one_20k_token_sample"]
        assert value == pytest.approx(statistics[name]["mean"], abs=tolerance), name


def test_lengths_of_spans_have_the_exact_distribution(statistics):
    exact = [statistics["raw_span_length_distribution_exact"][str(n)] for n in range(10)]
    places = _place_spans(torch.full((2000, 1), 10**6), keys_of(2000), torch.arange(100))
    places = places.reshape(200_000, -1)
    lengths = (places[:, -1] - places[:, 0] + 1).masked_fill(places[:, 0] == 10**6, 0)
    assert (lengths.bincount() / 200_000).tolist() == pytest.approx(exact, abs=0.004)


def test_spans_fall_evenly_from_before_the_row_to_behind_it(statistics):
    exact = [statistics["raw_span_length_distribution_exact"][str(n)] for n in range(10)]
    places = _place_spans(torch.full((4000, 1), 10), keys_of(4000), torch.arange(100))
    places = places.reshape(400_000, -1)
    assert places.min() == -8
    # A span of n tokens has 9 + 2n places to begin at, and n of them lie behind the row.
    empty = exact[0] + sum(exact[n] * n / (9 + 2 * n) for n in range(1, 10))
    assert (places[:, 0] == 10).float().mean().item() == pytest.approx(empty, abs=0.005)
    is_covered = torch.stack([(places == position).any(dim=1) for position in range(10)])
    counts = is_covered.float().sum(dim=1)
    assert (counts / counts.mean()).tolist() == pytest.approx([1.0] * 10, abs=0.02)


def test_every_position_is_masked_about_as_often():
    candidates = torch.ones(4000, 40, dtype=torch.bool)
    chosen, _ = choose_spans(candidates, torch.full((4000, 1), 40), keys_of(4000), 0.5)
    shares = chosen.float().mean(dim=0)
    assert shares.mean().item() == pytest.approx(0.53, abs=0.01)
    assert (shares - shares.mean()).abs().max() < 0.04


def mask_naively(candidates, length, key, fraction):
    """The same as `choose_spans` for one row, one span after the other."""

    def stream(number):
        return hash_counters(key, torch.tensor(number))

    hits = draw_fractions(stream(1), torch.arange(len(candidates))) < fraction
    target = max(int((hits & candidates).sum()), int(candidates.any()))
    chosen = torch.zeros_like(candidates)
    owners = torch.zeros(len(candidates), dtype=torch.int64)
    places = _place_spans(torch.tensor([[length]]), key.reshape(1, 1), torch.arange(MAX_SPANS))[0]
    for number in range(MAX_SPANS):
        if chosen.sum() >= target:
            break
        for place in places[number].tolist():
            if 0 <= place < length:
                owners[place] = number
                chosen[place] |= candidates[place]
    return chosen, owners


@pytest.mark.parametrize("fraction", [0.05, 0.15, 0.5, 1.0])
def test_a_batch_equals_one_span_after_the_other(fraction):
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(1, 41, (60,), generator=generator)
    candidates = torch.rand(60, 40, generator=generator) < 0.8
    candidates &= torch.arange(40) < lengths.unsqueeze(1)
    candidates[0] = False
    keys = keys_of(60, seed=5)
    chosen, owners = choose_spans(candidates, lengths.unsqueeze(1), keys, fraction)
    for row in range(60):
        expected = mask_naively(candidates[row], int(lengths[row]), keys[row, 0], fraction)
        assert torch.equal(chosen[row], expected[0])
        assert torch.equal(owners[row][chosen[row]], expected[1][chosen[row]])


def test_neither_batch_nor_padding_changes_a_row():
    candidates, lengths = make_candidates([64, 20, 5, 33, 64], 64)
    keys = keys_of(5)
    chosen, owners = choose_spans(candidates, lengths, keys, 0.15)
    wide = torch.nn.functional.pad(candidates, (0, 400))
    wide_chosen, wide_owners = choose_spans(wide, lengths, keys, 0.15)
    assert not wide_chosen[:, 64:].any()
    assert torch.equal(wide_chosen[:, :64], chosen)
    assert torch.equal(wide_owners[:, :64][chosen], owners[chosen])
    for row in range(5):
        length = int(lengths[row])
        alone = slice(row, row + 1)
        alone_chosen, _ = choose_spans(
            candidates[alone, :length], lengths[alone], keys[alone], 0.15
        )
        assert torch.equal(alone_chosen[0], chosen[row, :length])


def test_only_candidates_are_chosen_and_every_row_has_one():
    generator = torch.Generator().manual_seed(0)
    candidates = torch.rand(300, 30, generator=generator) < 0.3
    chosen, _ = choose_spans(candidates, torch.full((300, 1), 30), keys_of(300), 0.15)
    assert not (chosen & ~candidates).any()
    assert torch.equal(chosen.any(dim=1), candidates.any(dim=1))


def test_a_single_candidate_is_found():
    candidates, lengths = make_candidates([3] * 50, 8)
    chosen, _ = choose_spans(candidates, lengths, keys_of(50), 0.15)
    assert torch.equal(chosen, candidates)
