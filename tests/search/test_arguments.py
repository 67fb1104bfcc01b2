import pytest

from modeling_lvbert.search.arguments import SearchArguments


def test_the_evolution_s_sizes_are_single_path_one_shot_s():
    settings = SearchArguments().make_settings(seed=3)
    assert (settings.population_size, settings.num_generations, settings.num_parents) == (
        50,
        20,
        10,
    )
    assert settings.num_children == (25, 25)
    assert settings.mutation_probability == 0.1
    assert settings.seed == 3
    assert not settings.is_multi_objective
    assert SearchArguments(objectives=["fitness", "flops"]).make_settings(0).is_multi_objective


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        (None, None),
        (["equal"], {"s": 2, "f": 2, "d": 2}),
        (["s:1", "f:2", "d:3"], {"s": 1, "f": 2, "d": 3}),
        (["d:6"], {"d": 6}),
    ],
)
def test_letter_counts_are_read(given, counts):
    space = SearchArguments(num_layers=6, letter_counts=given).make_space(has_words=False)
    assert space.letter_counts == counts
    assert set(space.letters) == set("sfd")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["x:6"], "letter_counts must count letters"),
        (["s:1"], "num_layers is 6"),
        (["s=6"], "must be like s:3"),
        (["s:a"], "must be like s:3"),
        (["s:7", "f:-1"], "letter_counts"),
    ],
)
def test_bad_letter_counts_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        SearchArguments(num_layers=6, letter_counts=given)
