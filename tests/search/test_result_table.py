import pytest

from modeling_lvbert.search.result_table import format_result


def make_result(fitness):
    metrics = {
        "accuracy": 0.25, "accuracy_standard_error": 0.01, "loss": 4.0,
        "loss_standard_error": 0.1, "parameters": 1000, "flops": 2000,
    }  # fmt: skip
    gains = {
        "best_accuracy_minus_this": 0.02,
        "best_accuracy_minus_this_paired_standard_error": 0.005,
        "best_loss_minus_this": -0.3,
        "best_loss_minus_this_paired_standard_error": 0.05,
    }
    return {
        "best_order": "dsf", "fitness": metrics, "parameters": 1000, "flops": 2000,
        "baselines": {"interleaved": {"order": "sfs", **metrics, **gains}}, "evaluated": 7,
        "scored_rows": 5, "ended": "all 2 generations are done", "settings": {"fitness": fitness},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fitness", "gain"), [("accuracy", "+0.0200 ± 0.0050"), ("loss", "+0.3000 ± 0.0500")]
)
def test_the_gain_is_that_in_the_fitness(fitness, gain):
    heading, _, best, interleaved, *_ = format_result(make_result(fitness)).splitlines()
    assert f"Best's gain in {fitness}" in heading
    assert "`dsf`" in best
    assert gain in interleaved
    assert gain not in best
