"""What is LV-BERT's own: positions, segments, initial values, post-norm."""

import pytest
import torch

from modeling_lvbert import (
    LVBertConfig,
    LVBertForMaskedLM,
    LVBertForPreTraining,
    LVBertForSequenceClassification,
    LVBertModel,
)
from tests.families import build, padded_batch, small_config, token_ids


def test_longer_than_the_position_table_is_refused_before_any_computation():
    model = build("LVBert")
    model.embeddings.register_forward_pre_hook(lambda *_: pytest.fail("computed"))
    model.embeddings.word_embeddings.register_forward_pre_hook(lambda *_: pytest.fail("computed"))
    with pytest.raises(ValueError, match="65 tokens.*max_position_embeddings = 64"):
        model(input_ids=token_ids(1, 65))


def test_blanks_in_the_order_change_nothing():
    first = build("LVBert", layer_order="sfd")
    second = build("LVBert", layer_order="s f D")
    second.load_state_dict(first.state_dict())
    batch = padded_batch([6, 3], 6)
    assert torch.equal(first(**batch)[0], second(**batch)[0])


def test_each_layer_is_its_own_post_norm_residual():
    model = build("LVBert")
    states = model(**padded_batch([6], 6), output_hidden_states=True).hidden_states
    for layer, below, above in zip(model.encoder.layers, states[:-1], states[1:], strict=True):
        plain = layer.sublayer(below, None, None)
        assert torch.equal(layer.layer_norm(below + plain), above)


def test_segments_and_positions_default_to_the_first_ones():
    model = build("LVBert")
    ids = token_ids(2, 6)
    given = model(
        input_ids=ids, token_type_ids=torch.zeros_like(ids), position_ids=torch.arange(6)[None]
    )
    assert torch.equal(model(input_ids=ids)[0], given[0])
    other = model(input_ids=ids, token_type_ids=torch.ones_like(ids))
    assert (other[0] - given[0]).abs().max() > 1e-3


def test_projection_exists_only_between_unequal_widths():
    assert build("LVBert").embeddings_project is not None
    equal = build("LVBert", embedding_size=32)
    assert equal.embeddings_project is None
    assert equal(input_ids=token_ids(1, 4))[0].shape == (1, 4, 32)


def test_detection_head_scores_every_token():
    model = build("LVBert", "ForPreTraining")
    assert model(**padded_batch([6, 3], 6)).logits.shape == (2, 6)


def test_initial_values_follow_the_released_code():
    config = LVBertConfig(layer_order="dsf", vocab_size=500)
    torch.manual_seed(0)
    model = LVBertForMaskedLM(config)
    deviation = 0.02 * 0.8796  # of a normal distribution cut off at two deviations
    convolution = model.lvbert.encoder.layers[0].sublayer
    attention = model.lvbert.encoder.layers[1].sublayer
    for weight in (
        model.lvbert.embeddings.word_embeddings.weight,
        attention.query.weight,
        convolution.pointwise.weight,
        model.generator_predictions.dense.weight,
    ):
        assert weight.std().item() == pytest.approx(deviation, rel=0.05)
        assert weight.abs().max() <= 0.04
    assert convolution.depthwise.weight.std().item() == pytest.approx(0.8796 / 9, rel=0.05)
    heads = {
        model.lvbert.embeddings_project.weight: 256 + 128,
        convolution.kernel.weight: 256 + 36,
        LVBertForPreTraining(config).discriminator_predictions.dense_prediction.weight: 256 + 1,
        LVBertForSequenceClassification(config).classifier.output.weight: 256 + 2,
    }
    for weight, fans in heads.items():
        bound = (6 / fans) ** 0.5
        assert bound * 0.9 < weight.abs().max() <= bound
    assert all(
        (parameter == 0).all() for name, parameter in model.named_parameters() if "bias" in name
    )


@pytest.mark.parametrize(
    ("size", "parameters"), [("small", 12.53e6), ("medium", 23.15e6), ("base", 100.17e6)]
)
def test_published_sizes_have_the_published_number_of_parameters(size, parameters):
    with torch.device("meta"):
        model = LVBertModel(LVBertConfig.from_size(size))
    assert model.num_parameters() == pytest.approx(parameters, rel=5e-4)


def test_padding_token_is_an_ordinary_embedding():
    model = build("LVBert")
    assert model.embeddings.word_embeddings.padding_idx is None
    assert small_config("LVBert").pad_token_id == 0
