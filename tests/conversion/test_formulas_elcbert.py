import dataclasses
import re

import pytest
import torch
from safetensors.torch import load_file

from conversion import formulas_elcbert
from conversion.formulas_elcbert import SourceSettings

CASES = {
    "base": ("elc_base", "", "halves"),
    "zero": ("elc_zero", "", "halves"),
    "weighted_output": ("elc_weighted_output", "", "halves"),
    "ltg": ("ltg", "_babylm", "halves"),
    "ltg-per_head": ("ltg", "_training", "per_head"),
}


@pytest.fixture(params=CASES)
def source(request, golden):
    name, run, layout = CASES[request.param]
    recording = golden(name, run)
    tensors = {key: tensor.double() for key, tensor in recording.arrays("model").items()}
    tensors["classifier.nonlinearity.5.weight"] = tensors["embedding.word_embedding.weight"]
    names = [field.name for field in dataclasses.fields(SourceSettings)]
    sizes = {key: value for key, value in recording.config.items() if key in names}
    variant = request.param.removesuffix("-per_head")
    return recording, tensors, SourceSettings(variant=variant, position_layout=layout, **sizes)


def compute_logits(tensors, settings, inputs, case):
    ids, padding = inputs[f"{case}/input_ids"].T, inputs[f"{case}/attention_mask"]
    hidden = formulas_elcbert.encode(tensors, settings, ids, ~padding)
    return formulas_elcbert.head_logits(tensors, "classifier", hidden, settings.layer_norm_eps)


@pytest.mark.parametrize("case", ["main", "allpad"])
def test_against_original(source, case):
    recording, tensors, settings = source
    logits = compute_logits(tensors, settings, recording.arrays("inputs"), case)
    expected = recording.arrays("outputs_f64")[f"{case}/logits"].transpose(0, 1)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-12)


# The model file with the other layout raises an error there.
@pytest.mark.parametrize("source", sorted(CASES.keys() - {"ltg-per_head"}), indirect=True)
def test_against_original_beyond_the_longest_position(source):
    recording, tensors, settings = source
    inputs = recording.arrays("inputs")
    length = len(inputs["long/input_ids"])
    rebuilt = length if settings.variant == "base" else 512
    settings = dataclasses.replace(settings, max_position_embeddings=rebuilt)
    positions = recording.arrays("outputs")["long/positions"]
    logits = compute_logits(tensors, settings, inputs, "long")[:, positions]
    expected = recording.arrays("outputs")["long/logits_at_positions"].transpose(0, 1)
    torch.testing.assert_close(logits.float(), expected, rtol=0, atol=2e-5)


def test_the_layout_of_positions_changes_the_logits(source):
    recording, tensors, settings = source
    other = {"halves": "per_head", "per_head": "halves"}[settings.position_layout]
    settings = dataclasses.replace(settings, position_layout=other)
    logits = compute_logits(tensors, settings, recording.arrays("inputs"), "main")
    expected = recording.arrays("outputs_f64")["main/logits"].transpose(0, 1)
    assert (logits - expected).abs().max() > 1e-2


def test_every_variant_of_the_same_tensors_is_another_function(golden):
    recording = golden("elc_weighted_output")
    tensors = {key: tensor.double() for key, tensor in recording.arrays("model").items()}
    tensors["classifier.nonlinearity.5.weight"] = tensors["embedding.word_embedding.weight"]
    variants = ["base", "zero", "normalized", "weighted_output", "ltg"]
    logits = [
        compute_logits(
            tensors,
            SourceSettings(variant, "halves", 4, 4, 8, 64, 1e-7),
            recording.arrays("inputs"),
            "main",
        )
        for variant in variants
    ]
    for index, one in enumerate(logits):
        assert all((one - other).abs().max() > 1e-2 for other in logits[:index])


def test_against_original_position_tables(golden):
    folder = golden("elc_base").folder.parent / "elc_optim_and_masking"
    tables = load_file(folder / "position_buckets.safetensors")
    for name, by_offset in tables.items():
        length, bucket_size, max_position = map(int, re.findall(r"\d+", name))
        rows = formulas_elcbert.position_rows(length, bucket_size, max_position)
        offsets = torch.arange(length)[:, None] - torch.arange(length)[None, :]
        assert torch.equal(rows, by_offset.long()[offsets + length - 1]), name
