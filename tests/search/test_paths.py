from collections import Counter

import pytest

from modeling_lvbert.search.paths import SAMPLINGS, draw_paths


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("has_words", [False, True])
def test_paths_depend_on_seed_and_step_alone(sampling, has_words):
    paths = [draw_paths(sampling, 6, 1, step, has_words) for step in range(50)]
    assert paths == [draw_paths(sampling, 6, 1, step, has_words) for step in range(50)]
    assert len({tuple(step) for step in paths}) > 25
    assert paths != [draw_paths(sampling, 6, 2, step, has_words) for step in range(50)]
    for path in (path for step in paths for path in step):
        assert len(path.replace(" ", "")) == 6
        assert path == " ".join(path.split())
        assert has_words or " " not in path


def test_uniform_paths_take_each_letter_alike_at_each_position():
    paths = [draw_paths("uniform", 4, 0, step)[0] for step in range(3000)]
    for position in range(4):
        counts = Counter(path[position] for path in paths)
        assert all(900 < counts[letter] < 1100 for letter in "sfd")


@pytest.mark.parametrize("num_layers", [6, 7, 8])
def test_balanced_paths_have_as_many_of_each_letter(num_layers):
    rest = Counter()
    for step in range(300):
        (path,) = draw_paths("balanced", num_layers, 0, step)
        counts = Counter(path)
        assert max(counts.values()) - min(counts.values()) <= 1
        rest.update({letter: counts[letter] for letter in "sfd"})
    assert max(rest.values()) < 1.1 * min(rest.values())


def test_strict_fairness_takes_all_letters_of_a_position_once():
    for step in range(20):
        paths = draw_paths("strict", 5, 3, step)
        assert len(paths) == 3
        assert all(set(letters) == set("sfd") for letters in zip(*paths, strict=True))


def test_words_end_half_of_the_time():
    paths = [draw_paths("uniform", 9, 0, step, has_words=True)[0] for step in range(500)]
    assert 1900 < sum(path.count(" ") for path in paths) < 2100


def test_unknown_sampling_is_refused():
    with pytest.raises(ValueError, match="path_sampling 'fair'"):
        draw_paths("fair", 3, 0, 0)
