import pytest

from modeling_lvbert.layer_order import join_letters, normalize_layer_order, split_words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("sf", ["sf"]),
        ("SF Sd", ["sf", "sd"]),
        ("  d\td  s ", ["d", "d", "s"]),
        ("ddsffs", ["ddsffs"]),
        ("d\ns", ["d", "s"]),
    ],
)
def test_words_are_what_lies_between_blanks(given, words):
    assert split_words(given) == words
    assert normalize_layer_order(given) == " ".join(words)
    assert join_letters(given) == "".join(words)


@pytest.mark.parametrize("given", ["", " ", "\t\n", "   "])
def test_order_without_a_layer_is_refused(given):
    with pytest.raises(ValueError, match="names no layer"):
        normalize_layer_order(given)


@pytest.mark.parametrize(
    ("given", "unknown"),
    [
        ("sx", "['x']"),
        ("s-f", "['-']"),
        ("s,f", "[',']"),
        ("0,1,2", "[',', '0', '1', '2']"),
        ("sfq DZ", "['q', 'z']"),
        ("ſf", "['ſ']"),
        ("sf🙂", "['🙂']"),
        ("[s]", "['[', ']']"),
        ("s|f", "['|']"),
        ("conv", "['c', 'n', 'o', 'v']"),
        ("ѕf", "['ѕ']"),
    ],
)
def test_unknown_letters_are_named_with_the_known_ones(given, unknown):
    with pytest.raises(ValueError) as error:
        normalize_layer_order(given)
    assert f"unknown letters {unknown}; known: 'd', 'f', 's'" in str(error.value)


@pytest.mark.parametrize("given", [None, 3, ["s", "f"], b"sf", ("s",), True, 1.5, {"s": 1}])
def test_what_is_no_string_is_refused(given):
    with pytest.raises(ValueError, match="must be a string"):
        normalize_layer_order(given)
