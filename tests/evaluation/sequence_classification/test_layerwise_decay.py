import pytest
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    ElectraConfig,
    ElectraForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
)

from modeling_lvbert.evaluation.sequence_classification.layerwise_decay import (
    build_parameter_groups,
    compute_layerwise_factors,
)
from modeling_lvbert.pretraining import optimization
from tests.families import build

SIZES = {"vocab_size": 20, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}


def build_bert(num_layers=3):
    return BertForSequenceClassification(BertConfig(**SIZES, num_hidden_layers=num_layers))


@pytest.mark.parametrize(
    ("family", "unit", "same"),
    [
        ("LVBert", "letter", "letter"),
        ("LVBert", "pair", "pair"),
        ("ELCBert", "letter", "word"),
    ],
)
@pytest.mark.parametrize("variant", [None, "weighted_output"])
def test_depth_of_our_models_is_the_original_s(family, unit, same, variant):
    fields = {"variant": variant} if variant and family == "ELCBert" else {}
    model = build(family, "ForSequenceClassification", **fields)
    names = [name for name, _ in model.named_parameters()]
    expected = optimization.compute_layerwise_factors(names, model.config, 0.8, same)
    assert compute_layerwise_factors(model, 0.8, unit) == pytest.approx(expected)


def test_rates_fall_from_the_head_of_bert_to_its_embeddings():
    factors = compute_layerwise_factors(build_bert(), 0.5)
    for name, exponent in {
        "classifier.weight": 0,
        "bert.pooler.dense.weight": 2,
        "bert.encoder.layer.2.output.dense.bias": 2,
        "bert.encoder.layer.1.output.dense.weight": 3,
        "bert.encoder.layer.0.attention.self.query.weight": 4,
        "bert.embeddings.word_embeddings.weight": 5,
        "bert.embeddings.LayerNorm.bias": 5,
    }.items():
        assert factors[name] == 0.5**exponent, name


def test_pairs_count_two_layers_as_one_and_a_last_one_alone():
    factors = compute_layerwise_factors(build_bert(), 0.5, "pair")
    exponents = [4, 3, 3, 2]
    names = ["embeddings.word_embeddings.weight"]
    names += [f"encoder.layer.{number}.output.dense.weight" for number in range(3)]
    assert [factors[f"bert.{name}"] for name in names] == [0.5**exponent for exponent in exponents]


@pytest.mark.parametrize(
    ("model", "embedding", "layer"),
    [
        (
            ElectraForSequenceClassification(
                ElectraConfig(**SIZES, embedding_size=4, num_hidden_layers=2)
            ),
            "electra.embeddings_project.weight",
            "electra.encoder.layer.1.output.dense.weight",
        ),
        (
            GPT2ForSequenceClassification(
                GPT2Config(vocab_size=20, n_embd=8, n_head=2, n_layer=2, n_positions=8)
            ),
            "transformer.wpe.weight",
            "transformer.h.1.mlp.c_fc.weight",
        ),
    ],
)
def test_other_models_layers_are_found_by_their_numbers(model, embedding, layer):
    factors = compute_layerwise_factors(model, 0.5)
    assert factors[layer] == 0.25
    assert factors[embedding] == min(factors.values()) == 0.5**4
    heads = [name for name in factors if not name.startswith(model.base_model_prefix)]
    assert {factors[name] for name in heads} == {1.0}


def test_groups_hold_every_parameter_once_and_the_highest_rate_first():
    model = build_bert()
    model.bert.embeddings.requires_grad_(False)
    names = [name for name, _ in model.named_parameters()]
    decayed = [name for name in names if name.endswith("weight")]
    rates = {name: 2.0 * factor for name, factor in compute_layerwise_factors(model, 0.5).items()}
    groups = build_parameter_groups(model, decayed, 0.1, rates)
    assert [group["lr"] for group in groups] == sorted(
        (group["lr"] for group in groups), reverse=True
    )
    assert groups[0]["lr"] == 2.0
    found = {
        id(parameter): (group["lr"], group["weight_decay"])
        for group in groups
        for parameter in group["params"]
    }
    assert len(found) == sum(len(group["params"]) for group in groups)
    assert found == {
        id(parameter): (rates[name], 0.1 if name in decayed else 0.0)
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }


@pytest.mark.parametrize(
    ("decay", "unit", "message"),
    [
        (0.8, "word", "layerwise_lr_decay_unit 'word': must be one of letter, pair"),
        (0.0, "letter", "layerwise_lr_decay 0.0: must be above 0"),
        (1.1, "letter", "at most 1"),
    ],
)
def test_bad_settings_are_refused(decay, unit, message):
    with pytest.raises(ValueError, match=message):
        compute_layerwise_factors(build_bert(), decay, unit)


def test_a_model_without_a_head_is_refused():
    model = BertModel(BertConfig(**SIZES, num_hidden_layers=1))
    with pytest.raises(ValueError, match="BertModel has no encoder apart from its head"):
        compute_layerwise_factors(model, 0.8)
