import numpy as np
import pytest
import torch

from modeling_lvbert.pretraining.electra_trainer import sum_by_row
from modeling_lvbert.search.fitness import (
    EnsembleEvaluator,
    Evaluator,
    estimate_mean,
    find_fitness,
)
from modeling_lvbert.search.supernet import extract

from .test_supernet import build, draw_orders, make_batch


def make_batches(kind):
    batch = make_batch(kind)
    return [batch, {name: value[:2] for name, value in batch.items()}]


@pytest.mark.parametrize("kind", ["lvbert", "zero"])
def test_scores_are_those_of_the_extracted_model(kind):
    supernet = build(kind)
    batches = make_batches(kind)
    scores = Evaluator(supernet, batches).score(draw_orders(kind))
    for order, score in scores.items():
        model = extract(supernet, order)
        losses, hits = [], []
        for batch in batches:
            with torch.no_grad():
                logits = model(batch["input_ids"], batch["attention_mask"]).logits
            masked = batch["labels"] != -100
            targets = batch["labels"][masked]
            log_probabilities = logits[masked].log_softmax(dim=-1)
            losses += (-log_probabilities[torch.arange(len(targets)), targets]).tolist()
            hits += (logits[masked].argmax(dim=-1) == targets).tolist()
        assert score.loss.value == pytest.approx(np.mean(losses), rel=1e-5)
        assert score.accuracy.value == pytest.approx(np.mean(hits))


def test_electra_s_scores_are_those_of_the_extracted_halves_on_the_same_replacements():
    supernet = build("electra")
    batches = make_batches("electra")
    evaluator = Evaluator(supernet, batches)
    for order, score in evaluator.score(draw_orders("electra", 4)).items():
        model = extract(supernet, order)
        sums = {"masked": [0.0, 0], "real": [0.0, 0, 0]}
        for batch in evaluator.batches:
            with torch.no_grad():
                masked = model.generator(batch["input_ids"], batch["attention_mask"]).logits
                found = model.discriminator(batch["sampled_ids"], batch["attention_mask"]).logits
            places = batch["labels"] != -100
            loss = torch.nn.functional.cross_entropy(
                masked[places], batch["labels"][places], reduction="sum"
            )
            real = batch["attention_mask"] == 1
            targets = batch["replaced"][real].float()
            detection = torch.nn.functional.binary_cross_entropy_with_logits(
                found[real], targets, reduction="sum"
            )
            sums["masked"][0] += float(loss)
            sums["masked"][1] += int(places.sum())
            sums["real"][0] += float(detection)
            sums["real"][1] += int(real.sum())
            sums["real"][2] += int(((found[real] > 0) == targets.bool()).sum())
        expected = sums["masked"][0] / sums["masked"][1] + 50 * sums["real"][0] / sums["real"][1]
        assert score.loss.value == pytest.approx(expected, rel=1e-5)
        assert score.accuracy.value == pytest.approx(sums["real"][2] / sums["real"][1])


def test_replacements_are_the_same_for_every_evaluator():
    supernet = build("electra")
    first, second = (Evaluator(supernet, make_batches("electra")) for _ in range(2))
    for one, other in zip(first.batches, second.batches, strict=True):
        assert torch.equal(one["sampled_ids"], other["sampled_ids"])
        outputs = supernet(**{k: one[k] for k in make_batch("electra")}, layer_order="sfsfs")
        # Replaced is what differs from the original, whatever path the sample was drawn on.
        original = torch.where(one["labels"] != -100, one["labels"], one["input_ids"])
        expected = (one["sampled_ids"] != original).long()
        expected[one["attention_mask"] == 0] = -100
        assert torch.equal(one["replaced"], expected)
        assert sum_by_row(outputs, one["labels"]).shape[0] == len(one["labels"])


@pytest.mark.parametrize("kind", ["lvbert", "electra", "zero"])
def test_a_score_does_not_depend_on_the_orders_beside_it(kind):
    supernet = build(kind)
    evaluator = Evaluator(supernet, make_batches(kind))
    orders = draw_orders(kind, 8)
    together = evaluator.score(orders)
    for order in orders:
        assert evaluator.score([order])[order].to_metrics() == together[order].to_metrics()
    assert set(evaluator.score([*orders, *orders])) == set(orders)


@pytest.mark.parametrize("kind", ["lvbert", "electra"])
def test_several_supernets_score_by_their_mean(kind):
    evaluators = [Evaluator(build(kind, seed=seed), make_batches(kind)) for seed in range(3)]
    orders = draw_orders(kind, 4)
    singly = [evaluator.score(orders) for evaluator in evaluators]
    for order, score in EnsembleEvaluator(evaluators).score(orders).items():
        for name in ("accuracy", "loss"):
            parts = [getattr(scores[order], name) for scores in singly]
            estimate = getattr(score, name)
            assert estimate.value == pytest.approx(np.mean([part.value for part in parts]))
            # The rows are the same: their errors add up as far as they go together.
            rows = np.mean([part.influences for part in parts], axis=0)
            assert estimate.influences == pytest.approx(rows)
    assert len({scores[orders[0]].loss.value for scores in singly}) == 3


def test_dropout_is_off_while_scoring():
    supernet = build("lvbert", hidden_dropout_prob=0.5).train()
    evaluator = Evaluator(supernet, make_batches("lvbert"))
    first, second = (evaluator.score(["dsfds"])["dsfds"].to_metrics() for _ in range(2))
    assert first == second


def test_the_standard_error_is_that_of_many_samples():
    rng = np.random.default_rng(0)
    estimates = []
    for _ in range(800):
        counts = rng.integers(1, 20, size=200).astype(float)
        # Tokens of a row go together, so that tokens would underestimate the error.
        sums = counts * np.clip(rng.normal(0.4, 0.2, size=200), 0, 1)
        estimates.append(estimate_mean(sums, counts))
    spread = np.std([estimate.value for estimate in estimates])
    assert np.mean([e.standard_error for e in estimates]) == pytest.approx(spread, rel=0.08)


def test_the_paired_error_leaves_out_what_two_orders_have_in_common():
    rng = np.random.default_rng(0)
    counts = np.full(300, 10.0)
    common = rng.normal(5, 3, size=300)
    first = estimate_mean(common + rng.normal(0, 0.1, size=300), counts)
    second = estimate_mean(common + rng.normal(0, 0.1, size=300), counts)
    difference = first.minus(second)
    assert difference.value == pytest.approx(first.value - second.value)
    assert difference.standard_error < 0.1 * first.standard_error
    assert first.minus(first).standard_error == 0


def test_one_row_has_no_error():
    assert estimate_mean(np.array([3.0]), np.array([4.0])).standard_error == 0
    assert estimate_mean(np.array([0.0]), np.array([0.0])).value == 0


def test_fitness_is_compared_by_the_chosen_value_first():
    metrics = {"accuracy": 0.5, "loss": 3.0}
    assert find_fitness(metrics, "accuracy") == (0.5, -3.0)
    assert find_fitness(metrics, "loss") == (-3.0, 0.5)
