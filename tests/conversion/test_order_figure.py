import logging

import pytest

from conversion import order_figure
from modeling_lvbert.search.report import LETTER_COLORS

LONG = "ddsffsdffsddsfdfsdfdssfs"


@pytest.fixture
def pixels():
    image = pytest.importorskip("matplotlib.image", reason="needs matplotlib")
    return image.imread


def luminance(color):
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_black_letters_stand_out_on_every_colour_and_all_colours_differ():
    values = sorted(luminance(color) for color in LETTER_COLORS.values())
    assert all((value + 0.05) / 0.05 >= 5 for value in values)
    assert len(set(LETTER_COLORS.values())) == 3


def test_every_layer_is_a_block_with_its_letter_and_number():
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    (axes,) = order_figure.plot_order(LONG).axes
    texts = [text.get_text() for text in axes.texts]
    assert texts[0::2] == list(LONG)
    assert texts[1::2] == [str(number) for number in range(1, 25)]
    assert len(axes.patches) == 24


def test_on_a_telephone_letters_have_a_readable_height(tmp_path, pixels):
    name = order_figure.draw_order(LONG, tmp_path)
    image = pixels(tmp_path / name)
    assert image.shape[1] == 1600
    # Points are a 72nd of an inch, pictures have 200 pixels an inch, a telephone shows a quarter.
    assert order_figure._LETTER_SIZE / 72 * 200 / 4 >= 16
    assert order_figure._NUMBER_SIZE / 72 * 200 / 4 >= 9
    # All three colours are there, in both rows.
    half = image.shape[0] // 2
    for part in (image[:half], image[half:]):
        for color in LETTER_COLORS.values():
            wanted = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
            assert (abs(part[..., :3] - wanted).max(axis=2) < 0.01).sum() > 500


def test_gaps_part_the_words(tmp_path):
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    (axes,) = order_figure.plot_order("ds f").axes
    assert [patch.get_width() for patch in axes.patches] == [0.96, 0.78, 0.78]
    (axes,) = order_figure.plot_order("dsf").axes
    assert [patch.get_width() for patch in axes.patches] == [0.96] * 3


def test_the_same_order_gives_the_same_file(tmp_path, pixels):
    files = [tmp_path / part / order_figure.draw_order("dsf", tmp_path / part) for part in "ab"]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_without_matplotlib_there_is_a_warning_and_no_picture(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(order_figure, "can_draw", lambda path: False)
    with caplog.at_level(logging.WARNING):
        assert order_figure.draw_order("dsf", tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_the_picture_is_told_to_those_who_do_not_see_it():
    text = order_figure.describe_order("ds f")
    assert text.endswith("dynamic convolution self-attention, then feed-forward")
