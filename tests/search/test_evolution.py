import itertools
import math
import random
import statistics
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modeling_lvbert.layer_order import normalize_layer_order
from modeling_lvbert.search.evolution import (
    Candidate,
    EvolutionSettings,
    Space,
    baselines,
    crossover,
    crowding_distances,
    dominates,
    evolve,
    mutate,
    pareto_front,
    select,
    sort_fronts,
)

# The same examples in every run.
examples = settings(derandomize=True, deadline=None, max_examples=60, database=None)
seeds = st.integers(0, 2**32)


@st.composite
def spaces(draw, max_layers=9):
    num_layers = draw(st.integers(1, max_layers))
    letters = draw(st.permutations("sfd"))[: draw(st.integers(1, 3))]
    counts = None
    if draw(st.booleans()):
        counts = dict(Counter(draw(st.sampled_from(letters)) for _ in range(num_layers)))
    return Space(num_layers, draw(st.booleans()), "".join(letters), counts)


@st.composite
def small_settings(draw):
    size = draw(st.integers(1, 6))
    children = draw(st.none() | st.integers(0, size)), draw(st.none() | st.integers(0, size))
    return EvolutionSettings(
        population_size=2 * size,
        num_generations=draw(st.integers(1, 6)),
        num_parents=draw(st.integers(1, 5)),
        num_mutations=children[0],
        num_crossovers=children[1],
        mutation_probability=draw(st.sampled_from([0.05, 0.3, 1.0])),
        seed=draw(st.integers(0, 99)),
        is_multi_objective=draw(st.booleans()),
    )


points = st.lists(st.tuples(*[st.integers(-3, 3)] * 2), min_size=1, max_size=12)


def letters_of(order):
    return order.replace(" ", "")


def genes_of(order):
    """Each letter and whether a word ends after it, but for the last."""
    ends = set(itertools.accumulate(len(word) for word in order.split(" ")))
    letters = letters_of(order)
    return [(letter, at in ends and at < len(letters)) for at, letter in enumerate(letters, 1)]


def assert_in_space(order, space):
    assert order == normalize_layer_order(order)
    letters = letters_of(order)
    assert len(letters) == space.num_layers
    assert set(letters) <= set(space.letters)
    assert space.has_words or " " not in order
    if space.letter_counts is not None:
        assert Counter(letters) == +Counter(space.letter_counts)


def score_alphabetically(candidates):
    """Two objectives that disagree: letters of the back of the alphabet, few self-attentions."""
    return {
        candidate.order: (
            sum(map(ord, candidate.order)),
            -candidate.order.count("s") - len(candidate.order) / 100,
        )
        for candidate in candidates
    }


def count_matches(target):
    def score(candidates):
        return {
            candidate.order: (
                sum(a == b for a, b in zip(candidate.order, target, strict=True)),
                0.0,
            )
            for candidate in candidates
        }

    return score


@examples
@given(spaces(max_layers=6))
def test_a_space_counts_and_enumerates_each_of_its_orders_once(space):
    orders = list(space.enumerate())
    assert len(orders) == len(set(orders)) == space.count()
    for order in orders:
        assert_in_space(order, space)
        space.check(order)


def test_the_published_space_has_as_many_orders_as_the_paper_says():
    counts = {"s": 8, "f": 8, "d": 8}
    assert Space(24).count() == 3**24
    assert Space(24, letter_counts=counts).count() == math.factorial(24) // math.factorial(8) ** 3
    assert Space(24, has_words=True).count() == 3**24 * 2**23


@pytest.mark.parametrize(
    "space", [Space(2, True), Space(3), Space(4, letter_counts={"s": 2, "f": 1, "d": 1})]
)
def test_samples_are_spread_evenly_over_the_space(space):
    rng = random.Random(3)
    number = 200 * space.count()
    found = Counter(space.sample(rng) for _ in range(number))
    assert set(found) == set(space.enumerate())
    # Five standard deviations of a count.
    assert all(abs(count - 200) < 5 * 200**0.5 for count in found.values())


@examples
@given(spaces(), seeds, st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_children_stay_in_the_space(space, seed, probability):
    rng = random.Random(seed)
    first, second = space.sample(rng), space.sample(rng)
    assert_in_space(mutate(first, space, probability, rng), space)
    assert_in_space(crossover(first, second, space, rng), space)


@examples
@given(spaces(), seeds)
def test_a_crossover_takes_each_gene_from_a_parent(space, seed):
    rng = random.Random(seed)
    first, second = space.sample(rng), space.sample(rng)
    child = crossover(first, second, space, rng)
    for gene, *parents in zip(genes_of(child), genes_of(first), genes_of(second), strict=True):
        assert gene in parents


@pytest.mark.parametrize(
    "space", [Space(4), Space(3, True), Space(6, letter_counts={"s": 2, "f": 2, "d": 2})]
)
def test_every_order_between_two_parents_can_be_their_child(space):
    rng = random.Random(0)
    orders = list(space.enumerate())
    for _ in range(5):
        first, second = rng.sample(orders, 2)
        between = {
            order
            for order in orders
            if all(
                gene in parents
                for gene, *parents in zip(*map(genes_of, (order, first, second)), strict=True)
            )
        }
        assert {crossover(first, second, space, rng) for _ in range(2000)} == between


def test_a_mutation_redraws_the_stated_share_of_genes():
    rng = random.Random(1)
    space = Space(1000, has_words=True)
    order = space.sample(rng)
    pairs = list(zip(genes_of(order), genes_of(mutate(order, space, 0.3, rng)), strict=True))
    # Two of three drawn letters are others, and one of two drawn cuts.
    assert sum(a[0] != b[0] for a, b in pairs) / 1000 == pytest.approx(0.2, abs=0.05)
    assert sum(a[1] != b[1] for a, b in pairs) / 1000 == pytest.approx(0.15, abs=0.05)
    assert mutate(order, space, 0.0, rng) == order


@pytest.mark.parametrize(
    "space", [Space(3, True), Space(5, letter_counts={"s": 2, "f": 2, "d": 1})]
)
def test_a_mutation_can_lead_anywhere(space):
    rng = random.Random(0)
    orders = list(space.enumerate())
    order = rng.choice(orders)
    assert {mutate(order, space, 0.9, rng) for _ in range(5000)} == set(orders)


def test_mutation_and_crossover_refuse_orders_of_other_spaces():
    space = Space(3, letter_counts={"s": 2, "f": 1})
    for order in ("ssff", "sss", "s sf", "ssx", ""):
        with pytest.raises(ValueError, match="order"):
            mutate(order, space, 0.1, random.Random(0))
        with pytest.raises(ValueError, match="order"):
            crossover("ssf", order, space, random.Random(0))
    for order in ("s  f", " sf", "sf "):
        with pytest.raises(ValueError, match="single blanks"):
            Space(2, has_words=True).check(order)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_layers": 0}, "at least 1, got 0"),
        ({"letters": ""}, "different letters"),
        ({"letters": "ssf"}, "different letters"),
        ({"letters": "s f"}, "different letters"),
        ({"letter_counts": {"s": 2}}, "sum to 2, but num_layers is 4"),
        ({"letter_counts": {"s": 2, "x": 2}}, "must count letters of 'sfd'"),
        ({"letter_counts": {"s": 5, "f": -1}}, "must count letters of 'sfd'"),
    ],
)
def test_a_space_that_cannot_be_says_why(fields, message):
    with pytest.raises(ValueError, match=message):
        Space(**{"num_layers": 4, **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"population_size": 0}, "population_size must be at least 1"),
        ({"num_generations": 0}, "num_generations must be at least 1"),
        ({"num_parents": 0}, "num_parents must be at least 1"),
        ({"mutation_probability": 0.0}, "mutation_probability"),
        ({"mutation_probability": 1.5}, "mutation_probability"),
        ({"num_mutations": -1}, "at least 0"),
        ({"population_size": 10, "num_mutations": 6}, r"at most population_size 10, got \(6, 5\)"),
    ],
)
def test_settings_that_cannot_be_say_why(fields, message):
    with pytest.raises(ValueError, match=message):
        EvolutionSettings(**fields)


def test_the_default_settings_are_single_path_one_shots():
    chosen = EvolutionSettings()
    assert (chosen.population_size, chosen.num_generations, chosen.num_parents) == (50, 20, 10)
    assert chosen.num_children == (25, 25)
    assert chosen.mutation_probability == 0.1
    assert EvolutionSettings(population_size=1).num_children == (1, 0)


@examples
@given(points)
def test_fronts_are_those_of_the_definition(values):
    expected, left = [], set(range(len(values)))
    while left:
        front = {
            index
            for index in left
            if not any(dominates(values[other], values[index]) for other in left)
        }
        expected.append(sorted(front))
        left -= front
    assert sort_fronts(values) == expected


def test_a_point_dominates_what_is_nowhere_higher_and_somewhere_lower():
    assert dominates((1, 2), (1, 1))
    assert not dominates((1, 1), (1, 1))
    assert not dominates((2, 0), (1, 1))


def test_the_least_crowded_of_a_front_are_its_ends_and_what_is_alone():
    distances = crowding_distances([(0, 10), (1, 9), (2, 8), (7, 1), (10, 0)])
    assert distances == [math.inf, 0.2 + 0.2, 0.6 + 0.8, 0.8 + 0.8, math.inf]
    assert crowding_distances([(1, 1), (1, 1), (1, 1)])[1] == 0
    assert crowding_distances([(1, 2)]) == [math.inf]


def test_scores_are_compared_value_by_value_and_ties_by_the_order():
    scored = {"sf": (0.5, -1.0), "fs": (0.5, -1.0), "dd": (0.5, -0.5), "ss": (0.7, -9.0)}
    assert select(scored, 3) == ["ss", "dd", "fs"]
    assert select(scored, 9) == ["ss", "dd", "fs", "sf"]


def test_several_objectives_keep_the_whole_front_first_and_then_its_ends():
    scored = {"a": (0, 4), "b": (1, 3.9), "c": (2, 2), "d": (4, 0), "e": (0, 0), "f": (3.9, 0)}
    assert pareto_front(scored) == ["d", "c", "b", "a"]
    assert select(scored, 2, is_multi_objective=True) == ["a", "d"]
    assert select(scored, 5, is_multi_objective=True) == ["a", "d", "c", "b", "f"]


@examples
@given(st.dictionaries(st.text("sfd", min_size=1, max_size=3), points.map(lambda p: p[0])), seeds)
def test_the_selection_does_not_depend_on_the_order_of_scoring(scored, seed):
    items = list(scored.items())
    random.Random(seed).shuffle(items)
    for is_multi_objective in (False, True):
        chosen = select(scored, 3, is_multi_objective)
        assert select(dict(items), 3, is_multi_objective) == chosen
        assert len(chosen) == min(3, len(scored))


@examples
@given(spaces(max_layers=6), small_settings(), st.sampled_from([None, 2, 3]))
def test_a_search_keeps_its_promises(space, chosen, modulus):
    """Every candidate is allowed and new, sizes and numbers are kept, the end is explained."""
    if modulus:
        space = Space(
            space.num_layers,
            space.has_words,
            space.letters,
            space.letter_counts,
            lambda order: sum(map(ord, order)) % modulus == 0,
        )
    allowed = {order for order in space.enumerate() if not modulus or space.is_allowed(order)}
    if not allowed:
        with pytest.raises(ValueError, match="leaves nothing to search"):
            evolve(score_alphabetically, space, chosen)
        return
    seen = []

    def score(candidates):
        seen.extend(candidate.order for candidate in candidates)
        return score_alphabetically(candidates)

    generations = list(evolve(score, space, chosen))
    assert len(seen) == len(set(seen))
    assert set(seen) <= allowed
    known = {}
    for number, generation in enumerate(generations):
        assert generation.number == number
        assert 1 <= len(generation.candidates) <= chosen.population_size
        # In a space this small nothing is missed.
        if len(generation.candidates) < chosen.population_size:
            assert len(generation.scores) == len(allowed)
        best = select(known, chosen.num_parents, chosen.is_multi_objective)
        assert generation.parents == best
        for candidate in generation.candidates:
            assert_in_space(candidate.order, space)
            assert candidate.generation == number
            assert set(candidate.parents) <= set(best)
            num_parents = {"random": 0, "mutation": 1, "crossover": 2}[candidate.operation]
            assert len(candidate.parents) == num_parents
        known.update(score_alphabetically(generation.candidates))
        assert generation.scores == known
        assert bool(generation.message) == (generation is generations[-1])
    if len(generations) == chosen.num_generations:
        assert f"all {len(generations)} generations" in generations[-1].message
    else:
        assert set(seen) == allowed
        assert "none is allowed and not scored yet" in generations[-1].message


@examples
@given(spaces(), small_settings())
def test_a_search_is_the_same_each_time_whatever_is_known_beforehand(space, chosen):
    first = list(evolve(score_alphabetically, space, chosen))
    history = dict(itertools.islice(first[-1].scores.items(), len(first[-1].scores) // 2))

    def replay(candidates):
        random.random()
        unknown = [candidate for candidate in candidates if candidate.order not in history]
        return {**history, **score_alphabetically(unknown)}

    assert list(evolve(replay, space, chosen)) == first


def test_other_seeds_search_elsewhere():
    def run(seed):
        chosen = EvolutionSettings(population_size=5, num_generations=2, seed=seed)
        generations = evolve(score_alphabetically, Space(12), chosen)
        return [generation.candidates for generation in generations]

    assert run(0) != run(1)
    assert run(0)[0] != run(0)[1]


def test_each_generation_has_randomness_of_its_own():
    """So that a generation does not depend on how much of it earlier ones used."""
    fields = {"num_mutations": 0, "num_crossovers": 0}
    once = EvolutionSettings(population_size=10, num_generations=1, **fields)
    twice = EvolutionSettings(population_size=5, num_generations=2, **fields)
    (whole,) = evolve(score_alphabetically, Space(12), once)
    *_, last = evolve(score_alphabetically, Space(12), twice)
    drawn = [candidate.order for candidate in whole.candidates]
    assert list(last.scores)[:5] == drawn[:5]
    assert not set(list(last.scores)[5:]) & set(drawn[5:])


def test_what_chance_would_miss_in_a_small_space_is_found():
    rare = {"sfdsfdsfd", "dddddssss", "fsfsfsfsf"}
    space = Space(9, is_allowed=lambda order: order in rare)
    first, last = evolve(score_alphabetically, space, EvolutionSettings(population_size=2))
    assert len(first.candidates) == 2
    assert set(last.scores) == rare


@pytest.mark.parametrize("size", [1, 2])
def test_the_smallest_populations_find_the_best_of_a_small_space(size):
    chosen = EvolutionSettings(population_size=size, num_generations=1000, num_parents=size)
    *_, last = evolve(count_matches("dsfs"), Space(4), chosen)
    assert len(last.scores) == 81
    assert select(last.scores, 1) == ["dsfs"]
    assert "of 81 orders, none is allowed and not scored yet" in last.message


def test_a_large_space_whose_constraint_leaves_nothing_ends_in_bounded_time():
    def forbid(order):
        return order == "d" * 30

    space = Space(30, is_allowed=forbid)
    with pytest.raises(ValueError, match="leaves nothing to search: of 205,891,132,094,649 orders"):
        evolve(score_alphabetically, space, EvolutionSettings(population_size=4))
    chosen = EvolutionSettings(population_size=4, given=("d" * 30,))
    (only,) = evolve(score_alphabetically, space, chosen)
    assert [candidate.order for candidate in only.candidates] == ["d" * 30]
    assert "1,000 random ones for each wanted gave none" in only.message


def test_given_orders_come_first_and_once():
    chosen = EvolutionSettings(population_size=4, num_generations=1, given=("sf", "ds", "sf"))
    (only,) = evolve(score_alphabetically, Space(2), chosen)
    assert only.candidates[:2] == [Candidate("sf", 0, "given"), Candidate("ds", 0, "given")]
    assert [candidate.operation for candidate in only.candidates[2:]] == ["random", "random"]


@pytest.mark.parametrize(
    ("order", "message"), [("sfx", "not in the space"), ("fs", "not allowed by the constraint")]
)
def test_given_orders_must_be_allowed(order, message):
    space = Space(2, is_allowed=lambda order: order.startswith("s"))
    with pytest.raises(ValueError, match=message):
        evolve(score_alphabetically, space, EvolutionSettings(given=("sf", order)))


@pytest.mark.parametrize("values", [(), (math.nan,), (0.5, math.inf)])
def test_a_score_that_is_no_number_stops_the_search_and_names_the_order(values):
    chosen = EvolutionSettings(population_size=1, num_generations=1, given=("sf",))
    with pytest.raises(ValueError, match="order 'sf' was scored"):
        list(evolve(lambda candidates: {"sf": values}, Space(2), chosen))
    with pytest.raises(ValueError, match="order 'sf' was scored"):
        list(evolve(lambda candidates: {}, Space(2), chosen))


@pytest.mark.parametrize("counts", [None, {"s": 4, "f": 4, "d": 4}])
def test_a_search_finds_more_than_as_many_random_orders(counts):
    space = Space(12, letter_counts=counts)
    found, drawn, hits = [], [], 0
    for seed in range(5):
        target = space.sample(random.Random(1000 + seed))
        chosen = EvolutionSettings(population_size=30, seed=seed)
        *_, last = evolve(count_matches(target), space, chosen)
        found.append(max(values[0] for values in last.scores.values()))
        hits += target in last.scores
        rng = random.Random(seed)
        orders = [space.sample(rng) for _ in last.scores]
        drawn.append(max(sum(map(str.__eq__, order, target)) for order in orders))
    assert hits >= 4
    assert statistics.mean(found) > statistics.mean(drawn) + 1


def test_several_objectives_find_both_ends_of_the_front():
    def score(candidates):
        return {
            candidate.order: (candidate.order.count("s"), candidate.order.count("f"))
            for candidate in candidates
        }

    chosen = EvolutionSettings(num_generations=10, is_multi_objective=True)
    *_, last = evolve(score, Space(10), chosen)
    front = {last.scores[order] for order in pareto_front(last.scores)}
    assert front == {(number, 10 - number) for number in range(11)}


def test_baselines_are_the_named_patterns():
    named = baselines(32, 0, None, seed=0)
    assert named == {
        "interleaved": "sf" * 16,
        # Six of 16 pairs, as Press et al. 2020 found best on WikiText-103.
        "sandwich": "s" * 6 + "sf" * 10 + "f" * 6,
    }
    assert baselines(7, 0, None, seed=0) == {"interleaved": "sfsfsfs", "sandwich": "ssfsfsf"}
    assert baselines(8, 0, None, seed=0, has_words=True) == {
        "interleaved": "sf sf sf sf",
        "sandwich": "s s sf sf f f",
    }


@examples
@given(spaces(), st.integers(0, 6), seeds)
def test_random_baselines_are_different_and_keep_the_letter_counts(space, number, seed):
    space = Space(space.num_layers, space.has_words, letter_counts=space.letter_counts)
    arguments = (space.num_layers, number, space.letter_counts, seed, space.has_words)
    if number > space.count():
        with pytest.raises(ValueError, match=f"there are only {space.count()}"):
            baselines(*arguments)
        return
    named = baselines(*arguments)
    assert list(named)[2:] == [f"random_{index}" for index in range(1, number + 1)]
    assert len({named[name] for name in list(named)[2:]}) == number
    for name in list(named)[2:]:
        assert_in_space(named[name], space)
    for name in ("interleaved", "sandwich"):
        letters = letters_of(normalize_layer_order(named[name]))
        assert Counter(letters) == Counter(("sf" * space.num_layers)[: space.num_layers])
    assert baselines(*arguments) == named
