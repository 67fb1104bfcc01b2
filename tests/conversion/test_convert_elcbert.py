import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoModelForMaskedLM, AutoTokenizer

from conversion import convert_elcbert, names_elcbert
from modeling_lvbert import (
    ELCBertConfig,
    ELCBertForSequenceClassification,
    ELCBertForTokenClassification,
)
from modeling_lvbert.modeling_elcbert_layers import relative_position_rows

CASES = {
    "base": ("elc_base", "", "base", "halves"),
    "zero": ("elc_zero", "", "zero", "halves"),
    "weighted_output": ("elc_weighted_output", "", "weighted_output", "halves"),
    "ltg": ("ltg", "_babylm", "ltg", "halves"),
    "ltg-per_head": ("ltg", "_training", "ltg", "per_head"),
}


def main_logits(folder, recording, double=False):
    inputs = recording.arrays("inputs")
    model = AutoModelForMaskedLM.from_pretrained(folder).eval()
    with torch.no_grad():
        return (model.double() if double else model)(
            input_ids=inputs["main/input_ids"].T,
            attention_mask=(~inputs["main/attention_mask"]).long(),
        ).logits.transpose(0, 1)


def assert_equals_original(folder, recording):
    for stem, atol in (("outputs", 2e-5), ("outputs_f64", 1e-9)):
        logits = main_logits(folder, recording, double=stem == "outputs_f64")
        expected = recording.arrays(stem)["main/logits"]
        torch.testing.assert_close(logits, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("form", ["model.bin", "model.safetensors"])
def test_against_original(golden, official_file, convert, tmp_path, case, form):
    name, run, variant, layout = CASES[case]
    recording = golden(name, run)
    # The safetensors files hold bfloat16 and leave out tied matrix and position tables.
    is_pickle = form == "model.bin"
    path = official_file(recording) if is_pickle else recording.folder / form
    code, out, err = convert(
        convert_elcbert,
        checkpoint=path,
        config=recording.folder / "config.json",
        variant=variant,
        position_layout=layout,
        output_dir=tmp_path / "out",
    )
    assert code == 0, err
    assert err == ""
    assert "self-check against the source formula: largest difference" in out
    assert_equals_original(tmp_path / "out", recording)
    config = ELCBertConfig.from_pretrained(tmp_path / "out")
    assert (config.variant, config.position_layout) == (variant, layout)
    assert config.layer_order == "sf sf sf sf"
    assert config.tie_word_embeddings is True
    assert config.pad_token_id == 3


@pytest.mark.parametrize("case", CASES)
def test_against_original_files_as_handed_out(golden, convert, shared_data, tmp_path, case):
    name, run, variant, layout = CASES[case]
    folder = shared_data.parent / "goldens" / name
    if not folder.is_dir():
        pytest.skip(f"needs the recorded runs in full: no folder {folder}")
    code, _, err = convert(
        convert_elcbert,
        checkpoint=folder / "model.bin",
        config=folder / "config.json",
        variant=variant,
        position_layout=layout,
        output_dir=tmp_path / "out",
    )
    assert code == 0, err
    assert_equals_original(tmp_path / "out", golden(name, run))


def test_the_other_layout_is_another_function(golden, convert, tmp_path):
    recording = golden("ltg", "_babylm")
    code, *_ = convert(
        convert_elcbert,
        checkpoint=recording.folder / "model.safetensors",
        config=recording.folder / "config.json",
        variant="ltg",
        position_layout="per_head",
        output_dir=tmp_path / "out",
    )
    assert code == 0
    difference = (
        main_logits(tmp_path / "out", recording) - recording.arrays("outputs")["main/logits"]
    )
    assert difference.abs().max() > 1e-2


def test_the_other_variant_is_another_function(golden, convert, tmp_path):
    recording = golden("elc_zero")
    for variant in ("base", "normalized"):
        code, *_ = convert(
            convert_elcbert,
            checkpoint=recording.folder / "model.safetensors",
            config=recording.folder / "config.json",
            variant=variant,
            output_dir=tmp_path / variant,
        )
        assert code == 0
        logits = main_logits(tmp_path / variant, recording)
        assert (logits - recording.arrays("outputs")["main/logits"]).abs().max() > 1e-2


def test_the_variant_has_to_be_said(golden, convert, tmp_path):
    recording = golden("elc_zero")
    with pytest.raises(SystemExit) as caught:
        convert(
            convert_elcbert,
            checkpoint=recording.folder / "model.safetensors",
            config=recording.folder / "config.json",
            output_dir=tmp_path / "out",
        )
    assert caught.value.code == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "variant", "message"),
    [
        ("elc_zero", "ltg", "has prev_layer_weights in its layers"),
        ("ltg", "zero", r"has no prev_layer_weights in its layers; allowed: \['ltg'\]"),
        ("elc_zero", "weighted_output", "has no transformer.prev_layer_weights, which only"),
        ("elc_weighted_output", "zero", "has transformer.prev_layer_weights, which only"),
    ],
)
def test_a_variant_that_the_names_contradict_is_an_error(
    golden, convert, tmp_path, name, variant, message
):
    recording = golden(name)
    code, _, err = convert(
        convert_elcbert,
        checkpoint=recording.folder / "model.safetensors",
        config=recording.folder / "config.json",
        variant=variant,
        output_dir=tmp_path / "out",
    )
    assert code == 1
    pytest.raises(ValueError, raise_message, err).match(message)
    assert not (tmp_path / "out").exists()


def raise_message(text):
    raise ValueError(text)


@pytest.fixture
def zero(golden):
    return golden("elc_zero")


@pytest.fixture
def tensors(zero):
    return {name: tensor.float() for name, tensor in zero.arrays("model").items()}


@pytest.fixture
def convert_tensors(zero, convert, tmp_path):
    """Converts tensors saved as one plain state dict."""

    def call(tensors, config=None, **flags):
        torch.save(tensors, tmp_path / "state.bin")
        (tmp_path / "base.json").write_text(json.dumps({**zero.config, **(config or {})}))
        return convert(
            convert_elcbert,
            checkpoint=tmp_path / "state.bin",
            config=tmp_path / "base.json",
            output_dir=tmp_path / "out",
            **{"variant": "zero", **flags},
        )

    return call


@pytest.mark.parametrize(
    "prefix", ["module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."]
)
def test_wrappers_are_stripped_from_names(tensors, convert_tensors, zero, tmp_path, prefix):
    code, _, err = convert_tensors({prefix + name: value for name, value in tensors.items()})
    assert code == 0, err
    assert_equals_original(tmp_path / "out", zero)


def test_a_name_with_and_without_wrapper_is_an_error(tensors, convert_tensors):
    name = "embedding.word_embedding.weight"
    code, _, err = convert_tensors({**tensors, f"module.{name}": tensors[name]})
    assert code == 1
    assert f"{name} more than once" in err


LAYER = "transformer.layers.2.mlp.mlp.4.weight"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({LAYER: None}, f"1 missing:\n    {LAYER}"),
        ({"extra.weight": torch.ones(2)}, "1 unknown:\n    extra.weight"),
        ({LAYER: torch.ones(64, 95)}, rf"shape:\n    {LAYER}: \(64, 95\)"),
        ({LAYER: torch.full((64, 96), torch.nan)}, f"1 not finite numbers:\n    {LAYER}"),
        ({"transformer.layers.4.prev_layer_weights": torch.ones(5)}, "1 unknown"),
        ({"classifier.nonlinearity.5.bias": None}, "1 missing"),
        ({"transformer.layers.0.attention.in_proj_vg.weight": torch.ones(2)}, "GPT-BERT"),
        ({"transformer.dwa_modules.alphas.0": torch.ones(2)}, "GPT-BERT.*dwa_modules"),
        (
            {"transformer.layers.0.attention.position_indices": torch.zeros(64, 64).long()},
            "position_indices, .64, 64., is not the table",
        ),
        (
            {"transformer.layers.0.attention.position_indices": torch.zeros(8).long()},
            "position_indices, .8,., is not the table",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_damaged_checkpoint_is_an_error_and_nothing_is_written(
    tensors, convert_tensors, tmp_path, changes, message
):
    tensors.update(changes)
    code, _, err = convert_tensors({k: v for k, v in tensors.items() if v is not None})
    assert code == 1
    pytest.raises(ValueError, raise_message, err).match(message)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"num_hidden_layers": 3}, "unknown"),
        ({"num_hidden_layers": 5}, "missing"),
        ({"hidden_size": 32}, "of the wrong shape"),
        ({"num_attention_heads": 5}, "not a multiple of num_attention_heads"),
        ({"num_attention_heads": 0}, "num_attention_heads must be a positive integer"),
        ({"hidden_size": "64"}, "hidden_size must be a positive integer"),
        ({"position_bucket_size": 9}, "of the wrong shape"),
        ({"hidden_dropout_prob": "0.1"}, "hidden_dropout_prob"),
    ],
)
def test_a_configuration_of_another_size_is_an_error(
    tensors, convert_tensors, tmp_path, config, message
):
    code, _, err = convert_tensors(tensors, config)
    assert code == 1
    assert message in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"hidden_size": 64}'])
def test_a_configuration_of_another_form_is_an_error(text, tmp_path):
    path = tmp_path / "base.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="base.json: (not JSON|expected|missing)"):
        convert_elcbert.read_config(path)


def rebuilt_tables(recording, case):
    by_offset = recording.arrays("outputs")[f"{case}/position_index_by_offset"].long()
    length = (len(by_offset) + 1) // 2
    offsets = torch.arange(length)[:, None] - torch.arange(length)[None, :]
    name = "transformer.layers.{}.attention.position_indices"
    return {name.format(layer): by_offset[offsets + length - 1] for layer in range(4)}


@pytest.mark.parametrize("case", ["long", "verylong"])
@pytest.mark.parametrize("name", ["elc_base", "elc_zero"])
def test_tables_that_the_original_rebuilt_are_tolerated(
    golden, official_file, convert, tmp_path, name, case
):
    recording = golden(name)
    code, _, err = convert(
        convert_elcbert,
        checkpoint=official_file(recording, **rebuilt_tables(recording, case)),
        config=recording.folder / "config.json",
        variant=name.removeprefix("elc_"),
        output_dir=tmp_path / "out",
    )
    assert code == 0, err
    assert "rebuilt for a long input" in err
    assert_equals_original(tmp_path / "out", recording)


def test_an_output_matrix_of_its_own_stays(tensors, convert_tensors, tmp_path):
    torch.manual_seed(1)
    decoder = torch.randn(120, 64)
    code, _, err = convert_tensors({**tensors, "classifier.nonlinearity.5.weight": decoder})
    assert code == 0, err
    assert "the output matrix is not the word embeddings" in err
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "out")
    assert model.config.tie_word_embeddings is False
    assert torch.equal(model.predictions.decoder.weight, decoder)
    embeddings = model.elcbert.embeddings.word_embeddings.weight
    assert torch.equal(embeddings, tensors["embedding.word_embedding.weight"])


@pytest.fixture
def fine_tuned(tensors):
    tensors = {k: v for k, v in tensors.items() if not k.startswith("classifier.")}
    generator = torch.Generator().manual_seed(0)
    shapes = {"1.weight": (64, 64), "1.bias": (64,), "5.weight": (3, 64), "5.bias": (3,)}
    for name, shape in shapes.items():
        tensors[f"head.nonlinearity.{name}"] = torch.randn(shape, generator=generator) / 8
    return tensors


@pytest.mark.parametrize(
    ("architecture", "model_class"),
    [
        ("LtgBertForTokenClassification", ELCBertForTokenClassification),
        ("LtgBertForSequenceClassification", ELCBertForSequenceClassification),
    ],
)
def test_fine_tuned_heads_keep_their_task_and_labels(
    fine_tuned, convert_tensors, tmp_path, architecture, model_class
):
    labels = {"0": "O", "1": "B-PER", "2": "I-PER"}
    config = {"architectures": [architecture], "id2label": labels, "classifier_dropout": 0.2}
    code, _, err = convert_tensors(fine_tuned, config)
    assert code == 0, err
    model = model_class.from_pretrained(tmp_path / "out")
    assert model.config.architectures == [model_class.__name__]
    assert model.config.id2label == {0: "O", 1: "B-PER", 2: "I-PER"}
    assert model.config.classifier_dropout == 0.2
    expected = fine_tuned["head.nonlinearity.5.weight"]
    assert torch.equal(model.classifier.output.weight, expected)


def test_fine_tuned_heads_without_label_names_are_counted(fine_tuned, convert_tensors, tmp_path):
    code, _, err = convert_tensors(fine_tuned)
    assert code == 0, err
    assert ELCBertConfig.from_pretrained(tmp_path / "out").num_labels == 3


def test_the_self_check_refuses_a_wrong_rename(tensors, convert_tensors, tmp_path, monkeypatch):
    swapped = {
        "attention.in_proj_v.weight": "layers.0.output.weight",
        "attention.out_proj.weight": "layers.0.value.weight",
    }
    monkeypatch.setattr(names_elcbert, "LAYER", {**names_elcbert.LAYER, **swapped})
    code, _, err = convert_tensors(tensors)
    assert code == 1
    assert "does not compute what its source does" in err
    assert not (tmp_path / "out").exists()


class RunsCode:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.system, (f"touch {self.target}",)


# torch says that it may not know the protocol; it is refused all the same.
@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("place", ["args", "model", "raw pickle", "second protocol"])
def test_a_pickle_that_would_run_code_is_refused(tensors, zero, convert, tmp_path, place):
    target = tmp_path / "ran"
    evil = RunsCode(target)
    path = tmp_path / "model.bin"
    if place == "args":
        torch.save({"model": tensors, "args": evil}, path)
    elif place == "model":
        torch.save({"model": {**tensors, "extra": evil}}, path)
    else:
        path.write_bytes(pickle.dumps({"model": evil}, protocol=2 if place[0] == "s" else 4))
    code, _, err = convert(
        convert_elcbert,
        checkpoint=path,
        config=zero.folder / "config.json",
        variant="zero",
        output_dir=tmp_path / "out",
    )
    assert code == 1
    assert err.startswith("error:")
    assert "posix.system" in err or "safely" in err or "cannot be read" in err
    assert not target.exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["model.bin", "model.safetensors"])
def test_an_absent_file_is_an_error(zero, convert, tmp_path, name):
    code, _, err = convert(
        convert_elcbert,
        checkpoint=tmp_path / name,
        config=zero.folder / "config.json",
        variant="zero",
        output_dir=tmp_path / "out",
    )
    assert code == 1
    assert name in err


@pytest.fixture
def tokenizer_file(tmp_path) -> Path:
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", "[PAR]", "[TAB]"]
    words = [*special, *(f"Ġword{chr(ord('a') + n)}" for n in range(26))]
    vocab = {word: index for index, word in enumerate(words)}
    tokenizer = Tokenizer(
        models.WordPiece(vocab=vocab, unk_token="[UNK]", continuing_subword_prefix="")
    )
    tokenizer.add_special_tokens(special)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    tokenizer.save(str(tmp_path / "official.json"))
    return tmp_path / "official.json"


def test_the_folder_opens_in_a_process_without_the_package(zero, convert, tokenizer_file, tmp_path):
    code, _, err = convert(
        convert_elcbert,
        checkpoint=zero.folder / "model.safetensors",
        config=zero.folder / "config.json",
        variant="zero",
        tokenizer_file=tokenizer_file,
        output_dir=tmp_path / "out",
    )
    assert code == 0, err
    script = (
        "import sys, torch; from transformers import AutoModel, pipeline\n"
        "fill = pipeline('fill-mask', model='out', trust_remote_code=True)\n"
        "assert len(fill('worda [MASK] wordb')) == 5\n"
        "ids = fill.tokenizer(['worda [MASK] wordb', 'wordc'], padding=True, return_tensors='pt')\n"
        "torch.save([dict(ids), fill.model(**ids).logits], 'logits.pt')\n"
        "AutoModel.from_pretrained('out', trust_remote_code=True)\n"
        "assert 'modeling_lvbert' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-I", "-c", script], cwd=tmp_path, check=True)
    inputs, logits = torch.load(tmp_path / "logits.pt")
    assert inputs["input_ids"].tolist() == [[1, 7, 4, 8, 2], [1, 9, 2, 3, 3]]
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "out")
    with torch.no_grad():
        expected = model(**inputs).logits
    torch.testing.assert_close(logits, expected, rtol=0, atol=2e-5)


def test_the_padding_id_is_the_tokenizers(tensors, convert_tensors, tokenizer_file, tmp_path):
    # The original's configuration class defaults to 4, which is [MASK].
    code, _, err = convert_tensors(tensors, {"pad_token_id": 4}, tokenizer_file=tokenizer_file)
    assert code == 0, err
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    config = ELCBertConfig.from_pretrained(tmp_path / "out")
    assert config.pad_token_id == tokenizer.pad_token_id == 3
    assert tokenizer.model_max_length == config.max_position_embeddings == 64
    assert len(tokenizer) <= config.vocab_size


def test_a_tokenizer_with_more_ids_than_embeddings_is_an_error(
    tensors, convert_tensors, shared_data, tmp_path
):
    path = shared_data / "tokenizers" / "elcbert_tokenizer_small_104.json"
    code, _, err = convert_tensors(tensors, tokenizer_file=path)
    assert code == 1
    assert "the model has 120 embeddings; 6024 tokens have ids beyond them" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("change", [{"variant": "nil"}, {"position_layout": "thirds"}])
def test_values_of_a_settings_file_are_checked(change):
    fields = {"checkpoint": "c", "config": "b", "output_dir": "o", "variant": "zero", **change}
    with pytest.raises(ValueError, match=f"{next(iter(change))} must be one of"):
        convert_elcbert.Arguments(**fields)


def test_a_flipped_bit_in_the_archive_is_noticed(zero, official_file, convert, tmp_path):
    path = official_file(zero)
    content = bytearray(path.read_bytes())
    weights = zero.arrays("model")["transformer.layers.1.attention.out_proj.weight"].float()
    place = content.find(weights.numpy().tobytes())
    assert place > 0
    content[place + 7] ^= 1
    path.write_bytes(content)
    code, _, err = convert(
        convert_elcbert,
        checkpoint=path,
        config=zero.folder / "config.json",
        variant="zero",
        output_dir=tmp_path / "out",
    )
    assert code == 1
    assert "is damaged: its part" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({3: torch.ones(2)}, "not named tensors: ['3']"),
        ({"a": torch.ones(2, 2).to_sparse()}, "no plain numbers: ['a (torch.sparse_coo"),
        ({"a": torch.ones(2).to(torch.float8_e4m3fn)}, "no plain numbers: ['a (torch.strided"),
        ({"a": torch.ones(2, device="meta")}, "no plain numbers: ['a (torch.strided"),
    ],
    ids=["numbered", "sparse", "float8", "meta"],
)
def test_tensors_that_no_original_holds_are_refused(model, message, zero, convert, tmp_path):
    torch.save({"model": model}, tmp_path / "odd.bin")
    code, _, err = convert(
        convert_elcbert,
        checkpoint=tmp_path / "odd.bin",
        config=zero.folder / "config.json",
        variant="zero",
        output_dir=tmp_path / "out",
    )
    assert code == 1
    assert message in err


def test_a_position_table_of_no_layer_is_unknown(tensors, convert_tensors):
    name = "transformer.layers.9.attention.position_indices"
    tensors[name] = tensors.get(
        "transformer.layers.0.attention.position_indices", relative_position_rows(64, 8, 64)
    )
    code, _, err = convert_tensors(tensors)
    assert code == 1
    assert f"1 unknown:\n    {name}" in err
