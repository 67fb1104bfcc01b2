import pytest

from modeling_lvbert.evaluation.sequence_classification.labels import (
    LabelScheme,
    build_dataset,
    find_label_scheme,
)


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["b", "a", "b"], ["a", "b"]),
        ([1, 0, 2], ["0", "1", "2"]),
        (["10", "9"], ["9", "10"]),
        ([True, False], ["False", "True"]),
        ([0.5, 1.0], []),
        (["0.5", "1.0"], []),
        (["v1.0", "v2.0"], ["v1.0", "v2.0"]),
    ],
)
def test_the_kind_of_labels_is_found_out(values, names):
    assert find_label_scheme(values).names == names


def test_saved_names_keep_their_order():
    assert find_label_scheme(["a", "b"], saved_names=["b", "a"]).names == ["b", "a"]
    assert find_label_scheme(["a", "b"], saved_names=["c", "a"]).names == ["a", "b"]
    assert find_label_scheme(["x"], task_name="rte").names == ["entailment", "not_entailment"]


def test_labels_are_names_or_numbers_of_names():
    scheme = LabelScheme(["entailment", "not_entailment"])
    assert scheme.encode("f", ["not_entailment", "entailment"]) == [1, 0]
    assert scheme.encode("f", [1, 0, 1.0, "0"]) == [1, 0, 1, 0]
    # Classes called by numbers are names, not positions.
    assert LabelScheme(["1", "0"]).encode("f", [1, 0]) == [0, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: find_label_scheme(["a", None]), "row 2 has no label"),
        (lambda: find_label_scheme(["a", "a"]), "at least two classes"),
        (
            lambda: LabelScheme(["a", "b"]).encode("file", ["a", "z"]),
            r"file: unknown labels \['z'\]",
        ),
        (lambda: LabelScheme([]).encode("file", [1.0, "x"]), "must be numbers, got 'x'"),
        (
            lambda: build_dataset("file", [{"a": None}], ("a",), None, LabelScheme([])),
            "file: row 1 has no text in column 'a'",
        ),
    ],
)
def test_bad_labels_and_texts_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
