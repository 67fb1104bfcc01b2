import pytest
import yaml

from conversion import model_card
from modeling_lvbert import LVBertConfig, LVBertForMaskedLM, LVBertForPreTraining


@pytest.fixture(params=[LVBertForMaskedLM, LVBertForPreTraining])
def model(request):
    return request.param(
        LVBertConfig(
            vocab_size=40,
            hidden_size=8,
            embedding_size=8,
            intermediate_size=16,
            layer_order="ddsf",
            conv_mask_padding=False,
        )
    )


@pytest.fixture
def card(model):
    return model_card.conversion_card(
        model,
        title="LV-BERT, converted",
        source="The generator of an official checkpoint.",
        settings={"conv_mask_padding = False": "as in the original."},
        example_text="A [MASK].",
    )


def test_the_template_is_filled_completely(card):
    assert model_card.PLACEHOLDER.findall(card) == []
    assert "`ddsf`" in card
    assert "2 dynamic convolution, 1 feed-forward, 1 self-attention" in card
    assert "`conv_mask_padding` is `False`" in card
    assert "- `conv_mask_padding = False`: as in the original." in card
    assert "The generator of an official checkpoint." in card


def test_the_metadata_is_valid(card, model):
    metadata = yaml.safe_load(card.split("---")[1])
    assert metadata["library_name"] == "transformers"
    assert metadata["language"] == "en"
    is_mask_model = isinstance(model, LVBertForMaskedLM)
    assert metadata["pipeline_tag"] == ("fill-mask" if is_mask_model else "feature-extraction")
    assert "lvbert" in metadata["tags"]


def test_a_placeholder_without_a_value_is_an_error():
    with pytest.raises(ValueError, match="asks for .'b'"):
        model_card.fill_template("{{ a }} {{ b }} {{LV}}", {"a": 1})
    assert model_card.fill_template("{{ a }} {{LV}}", {"a": 1}) == "1 {{LV}}"
