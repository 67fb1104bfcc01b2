import pytest
import torch

from conversion.names_lvbert import rename_table, to_pytorch_layout


@pytest.mark.parametrize("part", ["discriminator", "generator"])
@pytest.mark.parametrize("name", ["lvbert_small_order", "lvbert_interleaved"])
def test_every_variable_of_the_original_has_a_rule(golden, name, part):
    recording = golden(name)
    names = list(recording.config["variables"])
    table = rename_table(names, part, recording.layer_order, True, None)
    assert set(table) == set(names)
    targets = [target for target in table.values() if target]
    assert len(set(targets)) == len(targets)
    scopes = ("electra/embeddings/", "generator/", "generator_predictions/")
    if part == "discriminator":
        scopes = ("electra/", "discriminator_predictions/")
    assert {name for name, target in table.items() if target} == {
        name for name in names if name.startswith(scopes)
    }


def test_dense_kernels_are_transposed():
    kernel = torch.rand(3, 5)
    assert torch.equal(to_pytorch_layout("a/dense/kernel", kernel), kernel.T)
    assert torch.equal(to_pytorch_layout("a/word_embeddings", kernel), kernel)


def test_separable_convolutions_keep_the_order_of_their_taps():
    depthwise, pointwise, inputs = torch.rand(9, 4, 1), torch.rand(1, 4, 6), torch.rand(1, 4, 20)
    first = to_pytorch_layout("a/depthwise_kernel", depthwise)
    second = to_pytorch_layout("a/pointwise_kernel", pointwise)
    convolved = torch.nn.functional.conv1d(inputs, first, padding=4, groups=4)
    padded = torch.nn.functional.pad(inputs, (4, 4))[0]
    for position in range(20):
        by_hand = sum(depthwise[tap, :, 0] * padded[:, position + tap] for tap in range(9))
        torch.testing.assert_close(convolved[0, :, position], by_hand)
        mixed = torch.nn.functional.linear(by_hand, second)
        torch.testing.assert_close(mixed, by_hand @ pointwise[0])


@pytest.mark.parametrize("name", ["a/depthwise_kernel", "a/pointwise_kernel", "a/kernel"])
def test_a_variable_of_another_form_is_left_for_the_shape_check(name):
    odd = torch.rand(2, 3, 4, 5)
    assert torch.equal(to_pytorch_layout(name, odd), odd)
