import json
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM, AutoModelForPreTraining
from transformers import AutoModelForSequenceClassification as AutoClassifier

from conversion import convert_lvbert, formulas_lvbert, names_lvbert
from conversion.convert_lvbert import parse_layer_order
from modeling_lvbert import LVBertConfig

SETS = {"lvbert_small_order": "model.ckpt-1000000", "lvbert_interleaved": "model.ckpt-1"}
needs_tensorflow = pytest.mark.skipif(
    find_spec("tensorflow") is None,
    reason="reading TensorFlow checkpoints needs the extra `convert`",
)


@pytest.fixture
def write_variables(tmp_path):
    def write(variables) -> str:
        path = tmp_path / "variables.npz"
        np.savez(path, **{name: np.asarray(array) for name, array in variables.items()})
        return str(path)

    return write


@pytest.fixture
def interleaved(golden):
    return golden("lvbert_interleaved")


def encoder_inputs(recording, ids):
    inputs = {name: tensor.long() for name, tensor in recording.arrays("inputs").items()}
    return {
        "input_ids": ids.long(),
        "attention_mask": inputs["input_mask"],
        "token_type_ids": inputs["segment_ids"],
    }


def assert_both_precisions(model, inputs, select, recording, name):
    """Compares selected logits with the recording in float32 and, twice as wide, in float64."""
    for stem, atol in (("outputs", 2e-5), ("outputs_f64", 1e-9)):
        with torch.no_grad():
            logits = select(model.eval()(**inputs).logits)
        torch.testing.assert_close(logits, recording.arrays(stem)[name], rtol=0, atol=atol)
        model = model.double()


def assert_equals_original(recording, discriminator, generator):
    disc_ids = recording.arrays("outputs")["pretrain/disc_input_ids"]
    model = AutoModelForPreTraining.from_pretrained(discriminator)
    inputs = encoder_inputs(recording, disc_ids)
    assert_both_precisions(model, inputs, lambda x: x, recording, "pretrain/disc_logits")

    inputs = recording.arrays("inputs")
    positions = inputs["masked_lm_positions"].long()

    def at_masks(logits):
        return logits.gather(1, positions[..., None].expand(-1, -1, logits.shape[-1]))

    model = AutoModelForMaskedLM.from_pretrained(generator)
    inputs = encoder_inputs(recording, inputs["masked_input_ids"])
    assert_both_precisions(model, inputs, at_masks, recording, "pretrain/masked_lm_logits")


@pytest.mark.parametrize("name", SETS)
def test_against_original_both_parts(golden, convert, tmp_path, name):
    recording = golden(name)
    code, out, err = convert(
        convert_lvbert,
        checkpoint=recording.folder / "weights.npz",
        layer_order=recording.config["layer_order"],
        num_attention_heads=2,
        part="both",
        output_dir=tmp_path / "out",
    )
    assert code == 0, err
    assert out.count("self-check against the source formula: largest difference") == 2
    assert_equals_original(
        recording, tmp_path / "out" / "discriminator", tmp_path / "out" / "generator"
    )


@needs_tensorflow
@pytest.mark.parametrize("name", SETS)
def test_against_original_from_tensorflow(
    golden, tensorflow_checkpoints, project_root, tmp_path, name
):
    recording = golden(name)
    settings = {
        "checkpoint": str(tensorflow_checkpoints / name / SETS[name]),
        "layer_order": recording.layer_order,
        "num_attention_heads": 2,
        "part": "both",
        "output_dir": str(tmp_path / "out"),
    }
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "conversion.convert_lvbert", str(tmp_path / "settings.json")]
    result = subprocess.run(command, cwd=project_root, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    # Adam's slots and the step are in one of the two checkpoints only.
    num_slots = 2 * len(recording.arrays("weights")) if name == "lvbert_interleaved" else 0
    assert f"{num_slots + 1} of the training state dropped" in result.stdout
    assert_equals_original(
        recording, tmp_path / "out" / "discriminator", tmp_path / "out" / "generator"
    )


def test_the_config_says_what_the_checkpoint_was(golden, convert, tmp_path):
    recording = golden("lvbert_small_order")
    code, *_ = convert(
        convert_lvbert,
        checkpoint=recording.folder / "weights.npz",
        layer_order="D D S F F S D F F S D D S F D F S D F D S S F S",
        part="both",
        output_dir=tmp_path / "out",
    )
    assert code == 0
    for part in ("discriminator", "generator"):
        ours = LVBertConfig.from_pretrained(tmp_path / "out" / part)
        official = recording.config[f"{part}_config"]
        names = official.keys() - {"num_hidden_layers"}
        assert {name: getattr(ours, name) for name in names} == {
            name: official[name] for name in names
        }
        assert ours.layer_order == recording.layer_order
        assert ours.embedding_size == recording.config["resolved_embedding_size"]
        assert ours.conv_kernel_size == 9
        assert ours.conv_mask_padding is False
        assert ours.layer_norm_eps == 1e-12
        # transformers renames parameters with such names when it loads them.
        names = load_file(tmp_path / "out" / part / "model.safetensors")
        assert not [name for name in names if "gamma" in name or "beta" in name]


def test_training_state_and_the_other_part_are_dropped_by_name(
    interleaved, convert, write_variables, tmp_path
):
    variables = interleaved.arrays("weights")
    slots = {f"{name}/adam_{slot}": array for name, array in variables.items() for slot in "mv"}
    code, out, _ = convert(
        convert_lvbert,
        checkpoint=write_variables({**variables, **slots, "global_step": np.int64(1)}),
        layer_order="sfsfsf",
        output_dir=tmp_path / "out",
    )
    assert code == 0
    count = sum(name.startswith(("electra/", "discriminator")) for name in variables)
    assert f"{count} variables converted, {len(variables) - count} of the other part" in out
    assert f"{len(slots) + 1} of the training state dropped" in out


@pytest.mark.parametrize("task", ["mnli", "sts"])
def test_against_original_fine_tuned(interleaved, convert, write_variables, tmp_path, task):
    heads = interleaved.arrays("head_weights")
    variables = {
        **{k: v for k, v in interleaved.arrays("weights").items() if k.startswith("electra/")},
        **{name: array for name, array in heads.items() if f"/{task}/" in name},
    }
    code, _, err = convert(
        convert_lvbert,
        checkpoint=write_variables(variables),
        layer_order="sfsfsf",
        num_attention_heads=2,
        output_dir=tmp_path / "out",
    )
    assert code == 0, err
    model = AutoClassifier.from_pretrained(tmp_path / "out")
    assert model.config.problem_type == ("regression" if task == "sts" else None)
    inputs = encoder_inputs(interleaved, interleaved.arrays("inputs")["input_ids"])
    key = "finetune/sts/predictions" if task == "sts" else "finetune/mnli/logits"
    assert_both_precisions(
        model, inputs, lambda x: x.squeeze(-1) if task == "sts" else x, interleaved, key
    )


DENSE = "electra/encoder/layer_1/first_submodule/attention/self/query/kernel"
GENERATOR_DENSE = DENSE.replace("electra", "generator")


@pytest.mark.parametrize(
    ("change", "part", "message"),
    [
        (lambda v: v.pop(DENSE), "discriminator", f"1 missing:\n    {DENSE}"),
        (lambda v: v.pop(GENERATOR_DENSE), "generator", f"1 missing:\n    {GENERATOR_DENSE}"),
        (lambda v: v.pop(GENERATOR_DENSE), "both", f"1 missing:\n    {GENERATOR_DENSE}"),
        (
            lambda v: v.pop("electra/embeddings_project/kernel"),
            "discriminator",
            "1 missing:\n    electra/embeddings_project/kernel",
        ),
        (
            lambda v: v.update({"electra/pooler/dense/kernel": np.ones(3)}),
            "discriminator",
            "1 unknown:\n    electra/pooler/dense/kernel",
        ),
        (
            lambda v: v.update({"generator/odd": np.ones(3)}),
            "generator",
            "1 unknown:\n    generator/odd",
        ),
        (
            lambda v: v.update({"task_specific/squad/start/kernel": np.ones((3, 1))}),
            "discriminator",
            "1 unknown:\n    task_specific/squad/start/kernel",
        ),
        (lambda v: v.update({DENSE: v[DENSE][:, :5]}), "discriminator", f"shape:\n    {DENSE}: "),
        (lambda v: v.update({DENSE: v[DENSE][0]}), "discriminator", f"shape:\n    {DENSE}: "),
        (
            lambda v: v.update({"electra/embeddings/position_embeddings": np.ones((24, 3))}),
            "discriminator",
            r"shape:\n    electra/embeddings/position_embeddings: \(24, 3\)",
        ),
        (lambda v: v.update({DENSE: v[DENSE] * np.inf}), "discriminator", "1 not finite"),
        (lambda v: v.update({DENSE + "2": v.pop(DENSE)}), "discriminator", "(?s)unknown.*missing"),
    ],
)
def test_a_damaged_checkpoint_is_an_error_and_nothing_is_written(
    interleaved, convert, write_variables, tmp_path, change, part, message
):
    variables = interleaved.arrays("weights")
    change(variables)
    checkpoint = write_variables(variables)
    before = sorted(tmp_path.rglob("*"))
    code, _, err = convert(
        convert_lvbert,
        checkpoint=checkpoint,
        layer_order="sfsfsf",
        part=part,
        output_dir=tmp_path / "new" / "out",
    )
    assert code == 1
    pytest.raises(ValueError, lambda: (_ for _ in ()).throw(ValueError(err))).match(message)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "order", ["fsfsfs", "sfsf", "sfsfsfsf", "ssssss", "ddsfsf"], ids=lambda order: order
)
def test_another_order_than_the_checkpoints_is_an_error(interleaved, convert, tmp_path, order):
    code, _, err = convert(
        convert_lvbert,
        checkpoint=interleaved.folder / "weights.npz",
        layer_order=order,
        output_dir=tmp_path / "out",
    )
    assert code == 1
    assert "unknown:" in err or "missing:" in err
    assert not (tmp_path / "out").exists()


def test_the_self_check_refuses_a_wrong_rename(interleaved, convert, tmp_path, monkeypatch):
    swapped = {
        **names_lvbert.MODULES["s"],
        "attention/self/key": "sublayer.value",
        "attention/self/value": "sublayer.key",
    }
    monkeypatch.setitem(names_lvbert.MODULES, "s", swapped)
    code, _, err = convert(
        convert_lvbert,
        checkpoint=interleaved.folder / "weights.npz",
        layer_order="sfsfsf",
        output_dir=tmp_path / "out",
    )
    assert code == 1
    assert "does not compute what its source does" in err
    assert list(tmp_path.iterdir()) == []


def test_the_self_check_refuses_mirrored_kernels(golden, convert, tmp_path, monkeypatch):
    to_pytorch = names_lvbert.to_pytorch_layout

    def mirrored(name, variable):
        tensor = to_pytorch(name, variable)
        return tensor.flip(-1) if name.endswith("depthwise_kernel") else tensor

    monkeypatch.setattr(names_lvbert, "to_pytorch_layout", mirrored)
    recording = golden("lvbert_small_order")
    code, _, err = convert(
        convert_lvbert,
        checkpoint=recording.folder / "weights.npz",
        layer_order=recording.layer_order,
        output_dir=tmp_path / "out",
    )
    assert code == 1
    assert "does not compute what its source does" in err


def test_weights_that_are_all_zero_are_refused(interleaved, convert, write_variables, tmp_path):
    variables = {name: array * 0 for name, array in interleaved.arrays("weights").items()}
    code, _, err = convert(
        convert_lvbert,
        checkpoint=write_variables(variables),
        layer_order="sfsfsf",
        output_dir=tmp_path / "out",
    )
    assert code == 1
    assert "the same whatever the tokens are" in err


def test_heads_that_the_kernels_contradict_are_an_error(golden, convert, tmp_path):
    recording = golden("lvbert_small_order")
    code, _, err = convert(
        convert_lvbert,
        checkpoint=recording.folder / "weights.npz",
        layer_order=recording.layer_order,
        num_attention_heads=4,
        output_dir=tmp_path / "out",
    )
    assert code == 1
    assert "num_attention_heads is 4, but the dynamic convolutions have kernels for 2" in err


def test_a_folder_with_files_is_refused_before_any_work(interleaved, convert, tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    code, out, err = convert(
        convert_lvbert, checkpoint="nowhere", layer_order="sf", output_dir=tmp_path
    )
    assert code == 1
    assert "exists and is not empty" in err
    assert (tmp_path / "mine.txt").read_text() == "keep"


def test_the_folder_opens_in_a_process_without_the_package(
    interleaved, convert, write_variables, tmp_path
):
    words = ["[PAD]", *(f"[unused{n}]" for n in range(99)), "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words += [f"word{n}" for n in range(120 - len(words))]
    (tmp_path / "vocab.txt").write_text("\r\n".join(words) + "\r\n")
    code, _, err = convert(
        convert_lvbert,
        checkpoint=interleaved.folder / "weights.npz",
        layer_order="sfsfsf",
        num_attention_heads=2,
        part="generator",
        vocab_file=tmp_path / "vocab.txt",
        output_dir=tmp_path / "out",
    )
    assert code == 0, err
    script = (
        "import sys, torch; from transformers import pipeline\n"
        "fill = pipeline('fill-mask', model='out', trust_remote_code=True)\n"
        "fill('word3 [MASK] word5')\n"
        "ids = fill.tokenizer('word3 [MASK] word5', return_tensors='pt')\n"
        "torch.save([ids['input_ids'], fill.model(**ids).logits], 'logits.pt')\n"
        "assert 'modeling_lvbert' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-I", "-c", script], cwd=tmp_path, check=True)
    ids, logits = torch.load(tmp_path / "logits.pt")
    assert ids.tolist() == [[101, 107, 103, 109, 102]]
    variables = {name: array.double() for name, array in interleaved.arrays("weights").items()}
    mask, types = torch.ones_like(ids), torch.zeros_like(ids)
    hidden = formulas_lvbert.encode(variables, "generator", "sfsfsf", 1, ids, mask, types)
    expected = formulas_lvbert.mask_logits(variables, hidden)
    torch.testing.assert_close(logits.double(), expected, rtol=0, atol=2e-5)


def test_a_tokenizer_with_more_ids_than_embeddings_is_an_error(interleaved, convert, tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{n}" for n in range(120))]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    code, _, err = convert(
        convert_lvbert,
        checkpoint=interleaved.folder / "weights.npz",
        layer_order="sfsfsf",
        vocab_file=tmp_path / "vocab.txt",
        output_dir=tmp_path / "out",
    )
    assert code == 1
    assert "the model has 120 embeddings; 5 tokens have ids beyond them" in err
    assert "'word115': 120" in err
    assert not (tmp_path / "out").exists()


SMALL = "0,0,1,2,2,1,0,2,2,1,0,0,1,2,0,2,1,0,2,0,1,1,2,1"


@pytest.mark.parametrize(
    "text",
    [
        SMALL,
        f"[{SMALL}]",
        SMALL.replace(",", ", "),
        SMALL.replace(",", ""),
        f"({SMALL.replace(',', ' ')})",
        "ddsffsdffsddsfdfsdfdssfs",
        "DDSFFSDFFSDDSFDFSDFDSSFS",
        "dd sf fs df fs dd sf df sd fd ss fs",
        [int(number) for number in SMALL.split(",")],
    ],
)
def test_orders_in_letters_and_in_the_official_numbers(text):
    assert parse_layer_order(text) == "ddsffsdffsddsfdfsdfdssfs"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dsx", r"unknown letters \['x'\]"),
        ("", "names no layer"),
        ("[]", "names no layer"),
        ("0,1,3", r"unknown numbers \['3'\]"),
        ("0,1,s,f", "unknown letters"),
        ("dsf", "has 3 layers; .* even"),
        ("0,1,2", "has 3 layers; .* even"),
    ],
)
def test_orders_that_no_official_checkpoint_has_are_errors(text, message):
    with pytest.raises(ValueError, match=message):
        parse_layer_order(text)


@pytest.mark.parametrize(
    "change", [{"part": "encoder"}, {"num_attention_heads": 0}, {"num_attention_heads": "2"}]
)
def test_values_of_a_settings_file_are_checked(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        convert_lvbert.Arguments("c", "sf", "o", **change)


def test_a_generator_as_wide_as_its_embeddings_has_no_projection(
    interleaved, convert, write_variables, tmp_path
):
    """The published medium size: embeddings of 128, a generator of a third of 384."""
    widths = {16: 32, 64: 128}
    generator = torch.Generator().manual_seed(0)
    variables = {}
    for name, value in interleaved.arrays("weights").items():
        if name.startswith("generator/embeddings_project"):
            continue
        if name.startswith("generator/"):
            shape = [widths[size] for size in value.shape]
            value = torch.randn(shape, generator=generator) * 0.3
        elif name == "generator_predictions/dense/kernel":
            value = torch.randn(32, 32, generator=generator) * 0.3
        variables[name] = value
    code, _, err = convert(
        convert_lvbert,
        checkpoint=write_variables(variables),
        layer_order=interleaved.layer_order,
        part="both",
        num_attention_heads=2,
        output_dir=tmp_path / "out",
    )
    assert code == 0, err
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "out" / "generator")
    assert model.config.hidden_size == model.config.embedding_size == 32
    assert model.lvbert.embeddings_project is None
