import math

import pytest
import torch

from modeling_lvbert.modeling_attention import eager_attention_forward, join_masks, visible_keys

MINIMUM = torch.finfo(torch.float32).min


def random_heads(dtype=torch.float32, scale=1.0):
    return [(scale * torch.randn(2, 3, 5, 8)).to(dtype) for _ in range(3)]


def test_eager_equals_the_formula():
    query, key, value = random_heads()
    keep = torch.rand(2, 1, 1, 5) > 0.3
    keep[..., 0] = True
    context, probabilities = eager_attention_forward(
        torch.nn.Identity(), query, key, value, keep, scaling=0.5
    )
    for b in range(2):
        for h in range(3):
            for i in range(5):
                scores = [
                    math.exp(0.5 * (query[b, h, i] @ key[b, h, j]).item()) * keep[b, 0, 0, j].item()
                    for j in range(5)
                ]
                expected = sum(s / sum(scores) * value[b, h, j] for j, s in enumerate(scores))
                torch.testing.assert_close(context[b, i, h], expected, atol=1e-5, rtol=1e-5)
    assert (probabilities.masked_select(~keep) == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_large_scores_and_an_empty_row_stay_finite(dtype):
    query, key, value = random_heads(dtype, scale=50.0)
    mask = torch.zeros(2, 1, 5, 5, dtype=dtype)
    mask[0, ..., 3:] = torch.finfo(dtype).min
    mask[1] = torch.finfo(dtype).min
    context, probabilities = eager_attention_forward(
        torch.nn.Identity(), query, key, value, mask, scaling=8**-0.5
    )
    assert context.dtype == dtype
    assert context.isfinite().all()
    assert (probabilities[0, ..., 3:] == 0).all()
    assert (context[1] == 0).all()


def test_joined_mask_keeps_the_bias_where_keys_are_kept():
    bias = torch.randn(2, 3, 4, 4)
    keep = torch.rand(2, 1, 4, 4) > 0.5
    joined = join_masks(bias, keep)
    additive = torch.where(keep, 0.0, MINIMUM)
    assert torch.equal(joined, torch.where(keep, bias, MINIMUM))
    assert torch.equal(join_masks(bias, additive), joined)
    assert join_masks(bias, None) is bias
    half = join_masks(bias.half() - 40, additive.clamp(min=torch.finfo(torch.float16).min).half())
    assert half.isfinite().all()


def test_visible_keys_of_every_form_of_mask():
    mask = torch.tensor([[1, 1, 0], [0, 0, 0]])
    keep = mask.bool()[:, None, None, :].expand(-1, 1, 3, -1)
    assert torch.equal(visible_keys(mask), mask.bool())
    assert torch.equal(visible_keys(keep), mask.bool())
    assert torch.equal(visible_keys(torch.where(keep, 0.0, MINIMUM)), mask.bool())
