"""Pre-training that begins with a saved model."""

import pytest
import torch

from modeling_lvbert import ELCBertConfig, ELCBertForMaskedLM, LVBertConfig, LVBertForMaskedLM
from modeling_lvbert.pretraining.arguments import ConfigArguments, DataArguments, ModelArguments
from modeling_lvbert.pretraining.electra import ElectraConfig, ElectraForPreTraining
from modeling_lvbert.pretraining.initial_model import adopt_saved_model, load_initial_weights

SIZES = {
    "vocab_size": 50, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16,
}  # fmt: skip


@pytest.fixture
def saved(tmp_path):
    """A saved model of each family."""
    models = {
        "lvbert": LVBertForMaskedLM(LVBertConfig(layer_order="dsf", embedding_size=8, **SIZES)),
        "elcbert": ELCBertForMaskedLM(ELCBertConfig(layer_order="ds f", variant="base", **SIZES)),
    }
    for name, model in models.items():
        model.save_pretrained(tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("family", ["lvbert", "elcbert"])
def test_a_saved_model_says_what_was_not_asked_for(saved, family):
    name = str(saved / family)
    options = ModelArguments(model_name_or_path=name), ConfigArguments(), DataArguments()
    options[1].hidden_dropout_prob = 0.3
    adopt_saved_model(*options)
    assert options[0].model_family == family
    assert options[1].hidden_size == 8
    assert options[1].hidden_dropout_prob == 0.3
    assert options[1].layer_order == {"lvbert": "dsf", "elcbert": "ds f"}[family]
    assert options[2].tokenizer_name == name


def test_without_a_model_nothing_changes():
    options = ModelArguments(), ConfigArguments(), DataArguments()
    adopt_saved_model(*options)
    assert options == (ModelArguments(), ConfigArguments(), DataArguments())


def test_another_order_is_refused(saved):
    options = ModelArguments(model_name_or_path=str(saved / "lvbert")), ConfigArguments()
    options[1].layer_order = "sfd"
    with pytest.raises(ValueError, match="'sfd'.*has 'dsf'"):
        adopt_saved_model(*options, DataArguments())
    options[1].layer_order = "DSF"
    adopt_saved_model(*options, DataArguments())
    options[1].hidden_size = 16
    with pytest.raises(ValueError, match="hidden_size 16: .* has 8"):
        adopt_saved_model(*options, DataArguments())


@pytest.mark.parametrize("content", [None, "{", '{"model_type": "bert"}'])
def test_what_is_no_such_model_is_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    options = ModelArguments(model_name_or_path=str(tmp_path)), ConfigArguments()
    with pytest.raises(ValueError, match="model_name_or_path"):
        adopt_saved_model(*options, DataArguments())


@pytest.mark.parametrize("family", ["lvbert", "elcbert"])
def test_weights_are_the_saved_ones(saved, family):
    kind = {"lvbert": LVBertForMaskedLM, "elcbert": ELCBertForMaskedLM}[family]
    expected = kind.from_pretrained(saved / family)
    model = kind(expected.config)
    load_initial_weights(model, str(saved / family))
    for name, weight in expected.state_dict().items():
        assert torch.equal(model.state_dict()[name], weight), name


def test_other_sizes_are_refused(saved):
    config = LVBertConfig.from_pretrained(saved / "lvbert", intermediate_size=32)
    with pytest.raises(ValueError, match="of another size.*intermediate"):
        load_initial_weights(LVBertForMaskedLM(config), str(saved / "lvbert"))
    config = LVBertConfig.from_pretrained(saved / "lvbert", layer_order="dsfs")
    with pytest.raises(ValueError, match=r"missing \(lvbert"):
        load_initial_weights(LVBertForMaskedLM(config), str(saved / "lvbert"))
    config = LVBertConfig.from_pretrained(saved / "lvbert", layer_order="ds")
    with pytest.raises(ValueError, match=r"not in the model \(lvbert"):
        load_initial_weights(LVBertForMaskedLM(config), str(saved / "lvbert"))


def test_electra_takes_both_halves(saved, tmp_path):
    half = LVBertConfig.from_pretrained(saved / "lvbert").to_dict()
    config = ElectraConfig(discriminator_fields=half, generator_fields=half)
    source, model = ElectraForPreTraining(config), ElectraForPreTraining(config)
    source.export_half("discriminator", tmp_path / "both")
    with pytest.raises(ValueError, match="subfolder 'generator'"):
        load_initial_weights(model, str(tmp_path / "both"))
    source.export_half("generator", tmp_path / "both" / "generator")
    load_initial_weights(model, str(tmp_path / "both"))
    for name, weight in source.state_dict().items():
        assert torch.equal(model.state_dict()[name], weight), name
