"""The configurations of both families, their common base included."""

import json

import pytest
from huggingface_hub.errors import StrictDataclassError

from modeling_lvbert import ELCBertConfig, LVBertConfig

BOTH = pytest.mark.parametrize("config_class", [LVBertConfig, ELCBertConfig])


def test_default_lvbert_is_the_published_small_model():
    config = LVBertConfig()
    assert config.layer_order == "ddsffsdffsddsfdfsdfdssfs"
    assert config.num_hidden_layers == 24
    assert [config.layer_order.count(letter) for letter in "dsf"] == [8, 8, 8]
    sizes = (config.vocab_size, config.embedding_size, config.hidden_size)
    assert sizes == (30522, 128, 256)
    assert (config.num_attention_heads, config.intermediate_size) == (4, 1024)


def test_sizes_are_the_published_ones():
    base = LVBertConfig.from_size("base", layer_order="SF")
    assert (base.hidden_size, base.embedding_size, base.num_attention_heads) == (768, 768, 12)
    assert base.layer_order == "sf"
    medium = LVBertConfig.from_size("medium")
    assert (medium.hidden_size, medium.embedding_size, medium.intermediate_size) == (384, 128, 1536)
    elc = ELCBertConfig.from_size("base")
    assert (elc.hidden_size, elc.vocab_size, elc.intermediate_size) == (768, 16384, 2048)
    assert ELCBertConfig.from_size("small") == ELCBertConfig()
    with pytest.raises(ValueError, match=r"unknown size 'huge'.*'base', 'medium', 'small'"):
        LVBertConfig.from_size("huge")


def test_layers_are_letters_for_lvbert_and_words_for_elcbert():
    assert LVBertConfig(layer_order="sf dsf").num_hidden_layers == 5
    assert ELCBertConfig(layer_order="sf dsf").num_hidden_layers == 2


@BOTH
def test_number_of_layers_is_derived(config_class):
    assert config_class(layer_order="s f", num_hidden_layers=2).num_hidden_layers == 2
    with pytest.raises(ValueError, match="derived from layer_order"):
        config_class(layer_order="s f", num_hidden_layers=3)


@BOTH
def test_heads_follow_the_width_where_none_are_given(config_class):
    assert config_class(hidden_size=320).num_attention_heads == 5
    assert config_class(hidden_size=37).num_attention_heads == 1
    assert config_class(hidden_size=64, num_attention_heads=4).head_size == 16


@BOTH
@pytest.mark.parametrize(
    "fields",
    [
        {"layer_order": ""},
        {"layer_order": "sfx"},
        {"layer_order": 3},
        {"layer_order": None},
        {"layer_order": ["s", "f"]},
        {"hidden_size": 0},
        {"hidden_size": -64},
        {"hidden_size": 64, "num_attention_heads": 3},
        {"hidden_size": 200},
        {"num_attention_heads": 0},
        {"intermediate_size": 0},
        {"vocab_size": 0},
        {"max_position_embeddings": 0},
        {"conv_kernel_size": 4},
        {"conv_kernel_size": -1},
        {"hidden_dropout_prob": 1.0},
        {"hidden_dropout_prob": -0.1},
        {"attention_probs_dropout_prob": 2},
        {"classifier_dropout": 1.5},
        {"layer_norm_eps": 0.0},
        {"layer_norm_eps": float("nan")},
        {"layer_norm_eps": float("inf")},
        {"hidden_dropout_prob": float("nan")},
        {"pad_token_id": 10**6},
        {"pad_token_id": -1},
        {"num_hidden_layers": 99},
    ],
    ids=str,
)
def test_malformed_fields_are_refused(config_class, fields):
    with pytest.raises(ValueError, match="got|layer_order|multiple"):
        config_class(**fields)


@pytest.mark.parametrize(
    ("config_class", "fields"),
    [
        (LVBertConfig, {"embedding_size": 0}),
        (LVBertConfig, {"type_vocab_size": 0}),
        (LVBertConfig, {"initializer_range": 0.0}),
        (LVBertConfig, {"initializer_range": float("nan")}),
        (LVBertConfig, {"hidden_act": "gelo"}),
        (ELCBertConfig, {"variant": "zeros"}),
        (ELCBertConfig, {"variant": ""}),
        (ELCBertConfig, {"position_layout": "split"}),
        (ELCBertConfig, {"position_bucket_size": 1}),
        (ELCBertConfig, {"position_bucket_size": 32, "max_position_embeddings": 17}),
    ],
    ids=str,
)
def test_malformed_fields_of_one_family_are_refused(config_class, fields):
    with pytest.raises(ValueError, match="got|unknown"):
        config_class(**fields)


@BOTH
@pytest.mark.parametrize(
    "fields",
    [
        {"hidden_size": "256"},
        {"hidden_size": 2.5},
        {"conv_mask_padding": "yes"},
        {"hidden_dropout_prob": None},
    ],
    ids=str,
)
def test_wrong_types_are_refused(config_class, fields):
    with pytest.raises(StrictDataclassError, match="expected"):
        config_class(**fields)


@BOTH
def test_a_field_made_wrong_later_is_not_saved(config_class, tmp_path):
    config = config_class()
    config.layer_order = "sx"
    with pytest.raises(StrictDataclassError, match="unknown letters"):
        config.save_pretrained(tmp_path)


@BOTH
def test_saved_configuration_names_every_class(config_class, tmp_path):
    config_class().save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert len(saved["auto_map"]) == 8
    assert saved["auto_map"]["AutoConfig"].endswith(config_class.__name__)
    assert saved["tie_word_embeddings"] is True
    assert config_class.from_pretrained(tmp_path).to_dict() == config_class().to_dict()
