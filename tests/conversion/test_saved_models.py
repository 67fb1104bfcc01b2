import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from conversion.saved_models import compute_outputs, open_models, open_tokenizer, write_models
from modeling_lvbert.pretraining.electra import ElectraConfig, ElectraForPreTraining
from tests.families import FAMILIES, HEADS, padded_batch, small_config

from .published_runs import make_tokenizer, save_model

BOTH = pytest.mark.parametrize("family", FAMILIES)


def edit(path, **changes):
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, **changes}))


@BOTH
def test_a_folder_is_written_with_its_own_code_and_nobody_elses_places(family, tmp_path):
    model = save_model(tmp_path / "a", family)
    auto_map = json.loads((tmp_path / "a" / "config.json").read_text())["auto_map"]
    foreign = {key: f"ada/other--{value}" for key, value in auto_map.items()}
    edit(tmp_path / "a" / "config.json", auto_map=foreign, _name_or_path="/home/ada/x")
    edit(tmp_path / "a" / "tokenizer_config.json", name_or_path="/home/ada/x", is_local=True)
    for path in (tmp_path / "a").glob("*.py"):
        path.write_text("raise RuntimeError")
    write_models(open_models(tmp_path / "a"), open_tokenizer(tmp_path / "a"), tmp_path / "b")
    config = json.loads((tmp_path / "b" / "config.json").read_text())
    assert config["auto_map"] == auto_map
    assert len(auto_map) == 1 + len(HEADS)
    assert "_name_or_path" not in config
    tokenizer = json.loads((tmp_path / "b" / "tokenizer_config.json").read_text())
    assert not {"name_or_path", "is_local", "local_files_only"} & set(tokenizer)
    assert tokenizer["tokenizer_class"] == "BertTokenizer"
    assert "RuntimeError" not in (tmp_path / "b" / "layer_order.py").read_text()
    batch = padded_batch([6, 4], 6)
    again = open_models(tmp_path / "b")[""]
    assert torch.equal(compute_outputs(model, batch)[0], compute_outputs(again, batch)[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_weights_keep_their_type(dtype, tmp_path):
    save_model(tmp_path / "a").to(dtype).save_pretrained(tmp_path / "a")
    write_models(open_models(tmp_path / "a"), make_tokenizer(), tmp_path / "b")
    assert {value.dtype for value in load_file(tmp_path / "b" / "model.safetensors").values()} == {
        dtype
    }


@BOTH
@pytest.mark.parametrize("head", HEADS.values())
def test_every_head_is_opened_as_what_it_is(family, head, tmp_path):
    save_model(tmp_path, family, head)
    assert type(open_models(tmp_path)[""]).__name__ == family + head


def test_both_halves_of_electra_are_opened_from_a_run_and_from_a_checkpoint(tmp_path):
    fields = small_config("LVBert", pad_token_id=0, hidden_size=64).to_dict()
    both = ElectraForPreTraining(ElectraConfig(discriminator_fields=fields)).eval()
    both.save_pretrained(tmp_path / "checkpoint-1")
    both.export_half("discriminator", tmp_path / "run")
    both.export_half("generator", tmp_path / "run" / "generator")
    batch = padded_batch([6, 4], 6)
    for folder in ("checkpoint-1", "run"):
        models = open_models(tmp_path / folder)
        assert list(models) == ["", "generator"]
        write_models(models, make_tokenizer(), tmp_path / f"{folder}-written")
        again = open_models(tmp_path / f"{folder}-written")
        for place, half in (("", both.discriminator), ("generator", both.generator)):
            (expected,) = compute_outputs(half, batch)
            assert torch.equal(compute_outputs(again[place], batch)[0], expected)


def test_other_models_and_supernets_are_refused(tmp_path):
    save_model(tmp_path)
    edit(tmp_path / "config.json", model_type="bert")
    with pytest.raises(ValueError, match="of the type 'bert'; known: lvbert, elcbert"):
        open_models(tmp_path)
    edit(tmp_path / "config.json", model_type="lvbert", architectures=["SupernetForMaskedLM"])
    with pytest.raises(ValueError, match="a supernet is not published"):
        open_models(tmp_path)


@pytest.mark.parametrize("fault", ["missing", "unknown", "nan"])
def test_damaged_weights_are_refused(tmp_path, fault):
    save_model(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    name = next(name for name in weights if name.endswith("sublayer.output.weight"))
    if fault == "missing":
        del weights[name]
    elif fault == "unknown":
        weights["module.odd"] = torch.ones(1)
    else:
        weights[name][0, 0] = torch.nan
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    message = "not all numbers are finite" if fault == "nan" else "does not load completely"
    with pytest.raises(ValueError, match=message):
        open_models(tmp_path)


def test_a_tokenizer_that_does_not_fit_is_refused(tmp_path):
    save_model(tmp_path / "a", vocab_size=50)
    with pytest.raises(ValueError, match="tokens have ids beyond them"):
        write_models(open_models(tmp_path / "a"), make_tokenizer(), tmp_path / "b")
