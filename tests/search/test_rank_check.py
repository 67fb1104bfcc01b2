import pytest

from modeling_lvbert.search.rank_check import (
    choose_orders,
    measure_agreement,
    summarize,
    train_orders,
)


def test_orders_are_spread_over_the_ranking():
    ranked = [f"order {number}" for number in range(21)]
    assert choose_orders(ranked, 5) == [ranked[place] for place in (0, 5, 10, 15, 20)]
    assert choose_orders(ranked, 21) == choose_orders(ranked, 99) == ranked


def test_agreement_is_kendall_s_tau():
    ranking = list(range(12))
    same = measure_agreement(ranking, ranking)
    assert [same[name] for name in ("tau", "low", "high")] == pytest.approx([1.0, 1.0, 1.0])
    assert measure_agreement(ranking, ranking[::-1])["tau"] == pytest.approx(-1.0)
    # One pair of neighbours exchanged: 65 of 66 pairs agree.
    swapped = [1, 0, *ranking[2:]]
    result = measure_agreement(ranking, swapped)
    assert result["tau"] == pytest.approx(64 / 66)
    assert result["low"] < result["tau"] <= result["high"] <= 1


def test_equal_values_have_no_ranking():
    assert measure_agreement([1.0] * 5, [1.0, 2.0, 3.0, 4.0, 5.0])["tau"] == 0.0


def test_each_training_is_kept_and_not_repeated(tmp_path):
    asked = []

    def train(order, seed, folder):
        asked.append((order, seed))
        return {"eval_loss": len(order) + seed, "eval_masked_accuracy": 0.25}

    orders = ["sf", "d s"]
    first = train_orders(orders, [1, 2], train, tmp_path, 5, is_main_process=True)
    assert asked == [("sf", 1), ("sf", 2), ("d s", 1), ("d s", 2)]
    assert first["d s"] == [{"accuracy": 0.25, "loss": 4.0}, {"accuracy": 0.25, "loss": 5.0}]
    again = train_orders([*orders, "fff"], [1, 2], train, tmp_path, 5, is_main_process=True)
    assert asked[4:] == [("fff", 1), ("fff", 2)]
    assert {order: again[order] for order in orders} == first
    # Another number of steps is another training.
    train_orders(["sf"], [1], train, tmp_path, 6, is_main_process=True)
    assert asked[6:] == [("sf", 1)]


def test_orders_with_a_convolution_are_ranked_by_themselves():
    inherited = {
        order: {"accuracy": 1 - place / 10, "loss": place}
        for place, order in enumerate(["dd", "ds", "fd", "sf", "ss"])
    }
    # Those without a convolution are far behind; the others are ranked the other way round.
    trained = {
        order: [{"accuracy": value, "loss": -value}]
        for order, value in {"dd": 0.6, "ds": 0.7, "fd": 0.8, "sf": 0.1, "ss": 0.0}.items()
    }
    result = summarize(inherited, trained)
    assert result["all"]["orders"] == 5
    assert result["with_convolution"]["orders"] == 3
    assert result["with_convolution"]["accuracy"]["tau"] == pytest.approx(-1.0)
    assert result["all"]["accuracy"]["tau"] == pytest.approx(0.4)
    assert result["all"]["loss"]["tau"] == pytest.approx(0.4)
