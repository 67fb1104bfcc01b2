import logging
import struct
import sys

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from transformers import Trainer, TrainingArguments

from modeling_lvbert import ELCBertConfig, ELCBertForMaskedLM
from modeling_lvbert.pretraining.figures import (
    draw_layer_weights,
    draw_learning_curves,
    draw_run_figures,
    plot_layer_weights,
    plot_learning_curves,
)

HISTORY = [
    {"loss": 7.5, "step": 10, "grad_norm": 1.0, "layer_weights": {"word_01": [1.0]}},
    {"loss": 6.5, "step": 20},
    {"eval_loss": 6.25, "step": 20},
    {"train_loss": 7.0, "train_runtime": 3.0, "step": 20},
    {"eval_loss": 6.0, "step": 20},
]
ELECTRA_HISTORY = [
    {
        "loss": 28.0,
        "generator_loss": 7.0,
        "discriminator_loss": 0.42,
        "detection_accuracy": 0.86,
        "step": 10,
    },
    {
        "eval_loss": 27.0,
        "eval_generator_loss": 6.5,
        "eval_discriminator_loss": 0.41,
        "eval_detection_accuracy": 0.87,
        "eval_detection_auc": float("nan"),
        "step": 10,
    },
]


def make_weights(size):
    generator = torch.Generator().manual_seed(size)
    return [torch.randn(number, generator=generator).softmax(0) for number in range(1, size + 1)]


def read_png_size(path):
    header = path.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", header[16:])


def read_curves(axes):
    return {
        line.get_label(): list(zip(line.get_xdata(), line.get_ydata(), strict=True))
        for line in axes.get_lines()
    }


def test_the_map_has_readers_as_rows_and_what_is_read_as_columns():
    weights = make_weights(4)
    figure = plot_layer_weights(weights, ["1 sf", "2 d", "3 sf", "mix", "unused"])
    axes = figure.axes[0]
    (image,) = axes.get_images()
    table = image.get_array()
    # Pictures of two runs can be compared by their colours.
    assert (image.norm.vmin, image.norm.vmax) == (0, 1)
    for row, values in enumerate(weights):
        np.testing.assert_allclose(table[row, : row + 1], values.numpy())
        assert table.mask[row, row + 1 :].all()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1 sf", "2 d", "3 sf", "mix"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1", "2", "3"]
    assert "reads" in axes.get_ylabel()
    assert "0: embeddings" in axes.get_xlabel()
    # The first row, which reads the embeddings alone, is at the top.
    assert axes.get_ylim()[0] > axes.get_ylim()[1]


def test_each_cell_says_its_value():
    weights = make_weights(5)
    written = {
        text.get_position(): text.get_text() for text in plot_layer_weights(weights).axes[0].texts
    }
    assert written == {
        (column, row): f"{value:.2f}"
        for row, values in enumerate(weights)
        for column, value in enumerate(values.tolist())
    }


def luminance(color):
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in to_rgb(color)
    ]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


@pytest.mark.parametrize("value", [0.0, 0.05, 0.19, 0.21, 0.4, 0.6, 1.0])
def test_numbers_are_told_apart_from_their_cells(value):
    axes = plot_layer_weights([torch.tensor([1.0]), torch.tensor([value, 1 - value])]).axes[0]
    image = axes.get_images()[0]
    for text in axes.texts:
        column, row = text.get_position()
        cell = image.cmap(image.norm(image.get_array()[row, column]))[:3]
        darker, brighter = sorted([luminance(cell), luminance(text.get_color())])
        # The contrast that WCAG 2 asks for is 3 in large print and 4.5 in small.
        assert (brighter + 0.05) / (darker + 0.05) > 4.3


def test_more_layers_than_have_room_for_numbers_are_drawn_without():
    axes = plot_layer_weights(make_weights(40)).axes[0]
    assert axes.get_images()[0].get_array().shape == (40, 40)
    assert len(axes.texts) == 0


def test_weights_of_low_precision_are_drawn(tmp_path):
    weights = [values.bfloat16() for values in make_weights(3)]
    draw_layer_weights(weights, tmp_path / "map.png")
    assert (tmp_path / "map.png").is_file()


def test_losses_are_drawn_against_steps_with_the_last_value_of_each():
    (axes,) = plot_learning_curves(HISTORY, 6.1).axes
    curves = read_curves(axes)
    assert curves.pop("training") == [(10, 7.5), (20, 6.5)]
    assert curves.pop("validation") == [(20, 6.0)]
    (entropy,) = [line for line in axes.get_lines() if "unigram entropy" in line.get_label()]
    assert set(entropy.get_ydata()) == {6.1}
    assert entropy.get_linestyle() == "--"
    assert axes.get_xlabel() == "optimizer step"
    assert axes.get_ylabel() == "nats per predicted token"


def test_without_an_entropy_there_is_no_line():
    (axes,) = plot_learning_curves(HISTORY).axes
    assert set(read_curves(axes)) == {"training", "validation"}


def test_electra_has_a_panel_for_each_loss_and_for_detection():
    generator, discriminator, detection = plot_learning_curves(ELECTRA_HISTORY, 6.1).axes
    assert read_curves(generator)["training"] == [(10, 7.0)]
    assert read_curves(generator)["validation"] == [(10, 6.5)]
    assert any("unigram" in label for label in read_curves(generator))
    assert read_curves(discriminator) == {"training": [(10, 0.42)], "validation": [(10, 0.41)]}
    curves = read_curves(detection)
    assert curves["accuracy, training"] == [(10, 0.86)]
    assert curves["accuracy, validation"] == [(10, 0.87)]
    assert np.isnan(curves["area under the curve, validation"][0][1])
    assert detection.get_xlabel() == "optimizer step"


@pytest.mark.parametrize(("history", "height"), [(HISTORY, 800), (ELECTRA_HISTORY, 1620)])
def test_pictures_are_png_files_of_a_fixed_size(tmp_path, history, height):
    draw_learning_curves(history, tmp_path / "new" / "curves.png", 6.1)
    assert read_png_size(tmp_path / "new" / "curves.png") == (1600, height)
    for size in (1, 13):
        draw_layer_weights(make_weights(size), tmp_path / "new" / "map.png")
        assert read_png_size(tmp_path / "new" / "map.png") == (1600, 1320)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["curves.png", "map.png"]


def test_a_fault_while_drawing_leaves_the_last_picture(tmp_path, monkeypatch):
    path = tmp_path / "curves.png"
    draw_learning_curves(HISTORY, path)
    before = path.read_bytes()

    def fill_disk(figure, target, **options):
        target.write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fill_disk)
    with pytest.raises(OSError, match="no space left"):
        draw_learning_curves(HISTORY, path)
    assert path.read_bytes() == before


def test_a_history_without_losses_draws_nothing(tmp_path):
    for history in ([], [{"train_runtime": 1.0, "step": 3}]):
        draw_learning_curves(history, tmp_path / "curves.png")
    assert list(tmp_path.iterdir()) == []


def test_drawing_needs_no_display_and_leaves_matplotlib_s_settings(tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    loaded = "matplotlib.pyplot" in sys.modules
    draw_layer_weights(make_weights(2), tmp_path / "map.png")
    assert dict(matplotlib.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == loaded


def test_where_matplotlib_is_missing_a_line_says_what_is_left_out(tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with caplog.at_level(logging.WARNING):
        draw_learning_curves(HISTORY, tmp_path / "curves.png")
        draw_layer_weights(make_weights(2), tmp_path / "map.png")
    assert list(tmp_path.iterdir()) == []
    assert [message.split(" is left out")[0] for message in caplog.messages] == [
        "curves.png",
        "map.png",
    ]
    assert all("pip install 'lvbert[examples]'" in message for message in caplog.messages)


def train(folder, variant):
    torch.manual_seed(1)
    config = ELCBertConfig(
        vocab_size=20,
        hidden_size=16,
        num_attention_heads=2,
        intermediate_size=32,
        layer_order="sf d",
        variant=variant,
    )
    args = TrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        report_to="none",
        dataloader_pin_memory=False,
        disable_tqdm=True,
        logging_steps=1,
        max_steps=2,
        save_strategy="no",
    )
    rows = [{"input_ids": torch.arange(5, 15), "labels": torch.arange(5, 15)}] * 16
    trainer = Trainer(ELCBertForMaskedLM(config), args, train_dataset=rows, eval_dataset=rows)
    trainer.train()
    return trainer


@pytest.mark.parametrize(
    ("variant", "names"),
    [
        ("weighted_output", ["layer_weights.png", "learning_curves.png"]),
        ("ltg", ["learning_curves.png"]),
    ],
)
def test_a_run_s_pictures_are_in_its_folder(tmp_path, variant, names):
    trainer = train(tmp_path, variant)
    draw_run_figures(trainer, str(tmp_path), unigram_entropy=2.0)
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == names


def test_only_the_main_process_draws(tmp_path, monkeypatch):
    trainer = train(tmp_path, "zero")
    monkeypatch.setattr(trainer, "is_world_process_zero", lambda: False)
    draw_run_figures(trainer, str(tmp_path))
    assert not (tmp_path / "figures").exists()


def test_a_run_s_rows_are_named_by_their_words(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "modeling_lvbert.pretraining.figures.plot_layer_weights",
        lambda weights, names: drawn.append((weights, names)) or plot_layer_weights(weights, names),
    )
    trainer = train(tmp_path, "weighted_output")
    draw_run_figures(trainer, str(tmp_path))
    ((weights, names),) = drawn
    torch.testing.assert_close(weights, trainer.model.layer_selection_weights())
    assert names == ["1  sf", "2  d", "mix"]
