import os
import stat

import pytest
import torch

from conversion import hub_folder
from modeling_lvbert import LVBertConfig, LVBertForMaskedLM


@pytest.fixture
def model():
    config = LVBertConfig(
        vocab_size=40, hidden_size=8, embedding_size=8, intermediate_size=8, layer_order="sf"
    )
    return LVBertForMaskedLM(config).eval()


@pytest.fixture
def expectation(model):
    inputs = hub_folder.example_inputs(40, 512)
    with torch.no_grad():
        logits = model.double()(**inputs).logits
    model.float()
    return hub_folder.Expectation(inputs, logits)


def test_the_folder_appears_only_when_it_is_complete(tmp_path):
    target = tmp_path / "a" / "b"
    with hub_folder.new_folder(target) as temporary:
        (temporary / "file").write_text("x")
        assert not target.exists()
        assert temporary.parent == target.parent
    assert [path.name for path in target.parent.iterdir()] == ["b"]
    assert (target / "file").read_text() == "x"


def test_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "out").mkdir()
    with hub_folder.new_folder(tmp_path / "out") as temporary:
        (temporary / "file").write_text("x")
    assert (tmp_path / "out" / "file").exists()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_stays_after_an_error(tmp_path, error):
    with pytest.raises(error), hub_folder.new_folder(tmp_path / "a" / "b" / "c") as temporary:
        (temporary / "file").write_text("x")
        raise error
    assert list(tmp_path.iterdir()) == []


def test_filled_folders_and_files_are_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="is a file"):
        hub_folder.check_is_free(tmp_path / "file")
    with pytest.raises(ValueError, match="not empty"):
        hub_folder.check_is_free(tmp_path)


def test_examples_hold_padding_and_stay_within_the_model():
    inputs = hub_folder.example_inputs(7, 12)
    assert inputs["input_ids"].shape == (3, 12)
    assert inputs["input_ids"].max() < 7
    assert inputs["attention_mask"].sum(1).tolist() == [12, 7, 2]
    assert inputs["attention_mask"][:, 0].all()


@pytest.mark.parametrize("longest", [1, 2, 3])
def test_examples_of_tiny_models(longest):
    inputs = hub_folder.example_inputs(2, longest)
    assert inputs["input_ids"].shape == (3, longest)
    assert inputs["attention_mask"][:, 0].all()


def test_a_right_model_is_written_for_everybody_to_read(model, expectation, tmp_path, caplog):
    caplog.set_level("INFO")
    hub_folder.write(tmp_path, model, None, "# Card", expectation)
    assert "largest difference" in caplog.text
    assert "no tokenizer was given" in caplog.text
    assert (tmp_path / "README.md").read_text() == "# Card"
    modes = {stat.S_IMODE(os.stat(path).st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


def test_a_parameter_that_changed_is_noticed(model, expectation, tmp_path):
    with torch.no_grad():
        model.lvbert.encoder.layers[0].sublayer.value.weight[0, 0] += 0.01
    with pytest.raises(ValueError, match="does not compute what its source does"):
        hub_folder.write(tmp_path, model, None, "", expectation)


def test_nan_is_noticed(model, expectation, tmp_path):
    with torch.no_grad():
        model.generator_lm_head.bias[3] = torch.nan
    with pytest.raises(ValueError, match="does not compute what its source does"):
        hub_folder.write(tmp_path, model, None, "", expectation)


def test_constant_logits_are_noticed(model, tmp_path):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    inputs = hub_folder.example_inputs(40, 512)
    zeros = torch.zeros(3, 40, 40, dtype=torch.float64)
    with pytest.raises(ValueError, match="the same whatever the tokens are"):
        hub_folder.write(tmp_path, model, None, "", hub_folder.Expectation(inputs, zeros))


def test_logits_of_another_shape_are_noticed(model, expectation, tmp_path):
    fewer = hub_folder.Expectation(expectation.inputs, expectation.logits[:, :, :9])
    with pytest.raises(ValueError, match="the model's logits have the shape"):
        hub_folder.write(tmp_path, model, None, "", fewer)


def test_filling_needs_every_parameter_but_tied_ones(model):
    shapes = hub_folder.parameter_shapes(model)
    assert "generator_lm_head.weight" not in shapes
    tensors = {name: torch.full(shape, 0.5) for name, shape in shapes.items()}
    hub_folder.fill(model, tensors)
    assert all((parameter == 0.5).all() for parameter in model.parameters())
    assert model.generator_lm_head.weight is model.lvbert.embeddings.word_embeddings.weight
    name = "lvbert.encoder.layers.0.layer_norm.bias"
    with pytest.raises(ValueError, match=f"without a tensor: .'{name}'"):
        hub_folder.fill(model, {key: value for key, value in tensors.items() if key != name})
    with pytest.raises(ValueError, match="without a parameter: .'odd'"):
        hub_folder.fill(model, {**tensors, "odd": torch.ones(1)})
