import pytest
import torch

from conversion.weights import rename_tensors

RENAMES = {"a": "x", "b": "y", "momentum": None}
SHAPES = {"x": (2, 3), "y": (4,)}


def source(**changes):
    tensors = {"a": torch.rand(2, 3), "b": torch.rand(4), "momentum": torch.rand(9), **changes}
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def test_tensors_take_their_new_names_and_dropped_ones_go():
    tensors = source()
    renamed = rename_tensors(tensors, RENAMES, SHAPES)
    assert set(renamed) == {"x", "y"}
    assert torch.equal(renamed["x"], tensors["a"])


def test_half_precision_becomes_single_without_loss():
    tensors = source(b=torch.rand(4).bfloat16())
    renamed = rename_tensors(tensors, RENAMES, SHAPES)
    assert renamed["y"].dtype == torch.float32
    assert torch.equal(renamed["y"].bfloat16(), tensors["b"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"extra": torch.rand(1)}, r"1 unknown:\n    extra"),
        ({"a": None}, r"1 missing:\n    a"),
        ({"b": torch.rand(5)}, r"1 of the wrong shape:\n    b: \(5,\) for y, needs \(4,\)"),
        ({"b": torch.full((4,), torch.nan)}, r"1 not finite numbers:\n    b"),
        ({"b": torch.ones(4, dtype=torch.int64)}, r"1 not finite numbers:\n    b"),
    ],
    ids=["unknown", "missing", "shape", "nan", "integers"],
)
def test_what_does_not_fit_is_an_error_that_lists_it(changes, message):
    with pytest.raises(ValueError, match=message):
        rename_tensors(source(**changes), RENAMES, SHAPES)


def test_all_faults_are_listed_at_once():
    with pytest.raises(ValueError, match=r"(?s)2 unknown:.*u1.*u2.*1 missing:.*a.*wrong shape:.*b"):
        rename_tensors(
            source(u1=torch.rand(1), u2=torch.rand(1), a=None, b=torch.rand(1)), RENAMES, SHAPES
        )


def test_a_parameter_without_a_rule_is_an_error():
    with pytest.raises(ValueError, match=r"parameters that nothing fills:\n    z"):
        rename_tensors(source(), RENAMES, {**SHAPES, "z": (1,)})


def test_a_rule_without_a_parameter_is_an_error():
    with pytest.raises(ValueError, match=r"not in the model:\n    b \(as y\)"):
        rename_tensors(source(), RENAMES, {"x": (2, 3)})
