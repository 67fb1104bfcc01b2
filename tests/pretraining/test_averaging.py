"""The average follows the weights, survives saving and gives the model its own weights back."""

import pytest
import torch

from modeling_lvbert import LVBertConfig, LVBertForMaskedLM
from modeling_lvbert.pretraining.averaging import WeightAverage


def build_model(dtype=torch.float32):
    torch.manual_seed(3)
    config = LVBertConfig(
        vocab_size=12,
        embedding_size=8,
        hidden_size=8,
        num_attention_heads=1,
        intermediate_size=8,
        layer_order="dsf",
        max_position_embeddings=8,
    )
    return LVBertForMaskedLM(config).to(dtype).eval()


def train(model, step):
    generator = torch.Generator().manual_seed(step)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter += 0.1 * noise.to(parameter.dtype)


def copy_weights(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_the_average_follows_the_formula():
    model = build_model()
    average = WeightAverage(model, decay=0.3)
    expected = {name: value.double() for name, value in copy_weights(model).items()}
    for step in range(1, 8):
        train(model, step)
        average.update()
        decay = min(0.3, (1 + step) / (10 + step))
        for name, value in copy_weights(model).items():
            expected[name] = decay * expected[name] + (1 - decay) * value.double()
    # Both rules have had their turn.
    assert (1 + 1) / (10 + 1) < 0.3 < (1 + 7) / (10 + 7)
    with average.swapped_in():
        for name, value in copy_weights(model).items():
            torch.testing.assert_close(value.double(), expected[name], atol=1e-6, rtol=0.0)


def test_swapping_gives_back_the_very_same_weights_also_after_an_error():
    model = build_model()
    average = WeightAverage(model, decay=0.9)
    train(model, 1)
    average.update()
    train(model, 2)
    before = copy_weights(model)
    ids = torch.tensor([[2, 5, 7]])
    logits = model(ids).logits
    with average.swapped_in():
        averaged = copy_weights(model)
        assert not torch.equal(model(ids).logits, logits)
        assert model.generator_lm_head.weight is model.lvbert.embeddings.word_embeddings.weight
    assert same(copy_weights(model), before)
    assert torch.equal(model(ids).logits, logits)
    with pytest.raises(RuntimeError, match="stopped"), average.swapped_in():
        raise RuntimeError("stopped")
    assert same(copy_weights(model), before)
    with average.swapped_in():
        assert same(copy_weights(model), averaged)


def test_a_saved_average_goes_on_bit_for_bit(tmp_path):
    model, resumed_model = build_model(), build_model()
    average = WeightAverage(model, decay=0.6)
    for step in range(20):
        if step == 9:
            torch.save(average.state_dict(), tmp_path / "average.pt")
            resumed_model.load_state_dict(model.state_dict())
        train(model, step)
        average.update()
    resumed = WeightAverage(resumed_model, decay=0.6)
    resumed.load_state_dict(torch.load(tmp_path / "average.pt", weights_only=True))
    for step in range(9, 20):
        train(resumed_model, step)
        resumed.update()
    assert resumed.num_updates == average.num_updates == 20
    assert same(resumed.state_dict()["average"], average.state_dict()["average"])


def test_the_model_saved_within_the_block_is_the_averaged_one(tmp_path):
    model = build_model()
    average = WeightAverage(model, decay=0.9)
    train(model, 1)
    average.update()
    with average.swapped_in():
        model.save_pretrained(tmp_path)
        averaged = copy_weights(model)
    assert same(copy_weights(LVBertForMaskedLM.from_pretrained(tmp_path)), averaged)


def test_small_changes_of_low_precision_weights_are_not_lost():
    model = build_model(torch.bfloat16)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0)
    average = WeightAverage(model, decay=0.999)
    average.num_updates = 100_000
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.5)
    for _ in range(1000):
        average.update()
    expected = 1.5 - 0.5 * 0.999**1000
    for mean in average.state_dict()["average"].values():
        assert mean.dtype == torch.float32
        torch.testing.assert_close(mean, torch.full_like(mean, expected), atol=1e-4, rtol=0.0)


@pytest.mark.parametrize("decay", [-0.1, 1.0])
def test_impossible_decays_are_refused(decay):
    with pytest.raises(ValueError, match=f"decay {decay} of the weight average"):
        WeightAverage(build_model(), decay)


def test_another_models_average_is_refused():
    average = WeightAverage(build_model(), 0.9)
    state = average.state_dict()
    name = "generator_lm_head.bias"
    missing = {key: value for key, value in state["average"].items() if key != name}
    wrong = {**state["average"], name: torch.zeros(3)}
    for tensors in (missing, wrong):
        with pytest.raises(ValueError, match=r"another model's: \['generator_lm_head.bias'\]"):
            average.load_state_dict({"num_updates": 1, "average": tensors})
    assert average.num_updates == 0
