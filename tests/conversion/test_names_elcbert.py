import pytest

from conversion.names_elcbert import rename_table


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("elc_base", "base"),
        ("elc_zero", "zero"),
        ("elc_weighted_output", "weighted_output"),
        ("ltg", "ltg"),
    ],
)
def test_every_tensor_of_the_original_has_a_rule(golden, name, variant):
    recording = golden(name)
    tables = {f"transformer.layers.{layer}.attention.position_indices" for layer in range(4)}
    names = {*recording.arrays("model"), "classifier.nonlinearity.5.weight", *tables}
    table = rename_table(names, 4, variant, "classifier")
    assert set(table) == names
    assert {name for name, target in table.items() if target is None} == tables


def test_a_tasks_head_takes_the_place_of_the_mask_head():
    table = rename_table([], 1, "zero", "head")
    assert table["head.nonlinearity.1.weight"] == "classifier.dense.weight"
    assert table["head.nonlinearity.5.bias"] == "classifier.output.bias"
    assert not any(name.startswith("classifier.") for name in table)
