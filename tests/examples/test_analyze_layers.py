"""The analysis of layers from the command line."""

import json

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertTokenizer

from modeling_lvbert import LVBertForPreTraining
from tests.families import build, small_config

from .test_examples import load

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "sea", "was", "old", "and", "."]


@pytest.fixture(scope="module")
def save(tmp_path_factory):
    def save_model(model):
        folder = tmp_path_factory.mktemp("model")
        model.save_pretrained(folder)
        vocabulary = {token: number for number, token in enumerate(TOKENS)}
        BertTokenizer(vocab=vocabulary).save_pretrained(folder)
        return folder

    return save_model


@pytest.fixture(scope="module")
def text_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "held_out.txt"
    path.write_text("The sea was old and the old sea was the sea.\n\n" * 20)
    return path


def flags(model_dir, text_file, output_dir, *more):
    return [
        f"--model_name_or_path={model_dir}", f"--text_file={text_file}",
        f"--output_dir={output_dir}", "--max_seq_length=12", "--max_rows=7", "--batch_size=3",
        *more,
    ]  # fmt: skip


@pytest.mark.parametrize("family", ["LVBert", "ELCBert"])
def test_numbers_and_pictures_are_written(save, text_file, tmp_path, capsys, family):
    torch.manual_seed(0)
    model = build(family, "ForMaskedLM")
    folder = save(model)
    arguments = flags(folder, text_file, tmp_path / "layers")
    load("analyze_layers").run(arguments)
    path = tmp_path / "layers" / "layer_importance.json"
    result = json.loads(path.read_text(encoding="utf-8"))
    letters = model.config.layer_order.replace(" ", "")
    assert result["layer_order"] == model.config.layer_order
    assert "".join(entry["letters"] for entry in result["left_out"]) == letters
    assert len(result["exchanged"]) == len(letters) - 1
    expected = {"layer_importance.json", "layer_importance.png"}
    if family == "ELCBert":
        expected.add("layer_weights.png")
        assert set(result["layer_weights"]) == {"word_01", "word_02", "word_03"}
        assert all(sum(row) == pytest.approx(1) for row in result["layer_weights"].values())
    else:
        assert result["layer_weights"] == {}
    assert {item.name for item in path.parent.iterdir()} == expected
    assert f"1-2 {letters[:2]}" in capsys.readouterr().out
    # The masks are the same the next time, and the folder is the analysis's own.
    load("analyze_layers").run(arguments)
    assert json.loads(path.read_text(encoding="utf-8")) == result


def test_what_is_wrong_is_said_before_any_work(save, text_file, tmp_path):
    model_dir = save(build("LVBert", "ForMaskedLM"))
    detector = save(LVBertForPreTraining(small_config("LVBert")))
    foreign = BertConfig(
        vocab_size=99, hidden_size=8, num_hidden_layers=1, num_attention_heads=1,
        intermediate_size=8,
    )  # fmt: skip
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("x")
    for options, reason in (
        ((model_dir, text_file, tmp_path / "full"), "holds other things"),
        ((model_dir, text_file, text_file), "is a file"),
        ((detector, text_file, tmp_path / "new"), "is no masked language model"),
        ((save(BertForMaskedLM(foreign)), text_file, tmp_path / "new"), "is a BertForMaskedLM"),
        (("/none", text_file, tmp_path / "new"), "cannot be loaded"),
        ((model_dir, "/none", tmp_path / "new"), "text_file '/none': no such file"),
        ((model_dir, text_file, tmp_path / "new", "--max_rows=0"), "max_rows 0: must be at least"),
        ((model_dir, text_file, tmp_path / "new", "--max_seq_length=65"), "longest input is 64"),
    ):
        with pytest.raises(SystemExit) as caught:
            load("analyze_layers").run(flags(*options))
        assert str(caught.value).startswith("error: ")
        assert reason in str(caught.value)
    assert not (tmp_path / "new").exists()
