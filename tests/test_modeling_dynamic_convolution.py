from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from modeling_lvbert.modeling_dynamic_convolution import (
    DepthwiseConvolution,
    DynamicConvolution,
    _convolve_by_blocks,
    _convolve_by_taps,
    dynamic_convolution,
)
from tests.helpers import naive_dynamic_convolution

# batch, seq, heads, head size, taps
SIZES = [
    (1, 1, 1, 1, 1),
    (2, 1, 2, 3, 9),
    (2, 7, 4, 3, 9),
    (3, 16, 1, 5, 3),
    (1, 17, 3, 2, 1),
    (2, 33, 2, 5, 9),
    (1, 48, 2, 1, 9),
    (1, 20, 2, 3, 33),
]
SIZE_IDS = [f"b{b}-t{t}-h{h}-d{d}-k{k}" for b, t, h, d, k in SIZES]

both_paths = pytest.mark.parametrize(
    "convolve", [_convolve_by_blocks, _convolve_by_taps], ids=["blocks", "taps"]
)


def random_inputs(size, dtype=torch.float64):
    batch, seq, heads, head_size, taps = size
    values = torch.randn(batch, seq, heads * head_size, dtype=dtype, requires_grad=True)
    kernel = torch.randn(batch, seq, heads, taps, dtype=dtype).softmax(-1).requires_grad_()
    return values, kernel


def make_layer(hidden_size=24, heads=4, taps=9, mask_padding=True):
    config = SimpleNamespace(
        hidden_size=hidden_size,
        num_attention_heads=heads,
        conv_kernel_size=taps,
        conv_mask_padding=mask_padding,
    )
    return DynamicConvolution(config)


def padding_mask(lengths, seq):
    return torch.arange(seq) < torch.tensor(lengths).unsqueeze(1)


def test_a_tap_at_the_end_of_the_kernel_looks_at_the_following_token():
    values = torch.arange(1.0, 6.0).view(1, 5, 1)
    kernel = torch.tensor([0.0, 0.0, 1.0]).expand(1, 5, 1, 3)
    expected = torch.tensor([2.0, 3.0, 4.0, 5.0, 0.0]).view(1, 5, 1)
    torch.testing.assert_close(dynamic_convolution(values, kernel), expected)
    torch.testing.assert_close(naive_dynamic_convolution(values, kernel), expected)


@both_paths
@pytest.mark.parametrize("size", SIZES, ids=SIZE_IDS)
def test_values_and_gradients_equal_the_naive_loop(convolve, size):
    inputs = random_inputs(size)
    output, expected = convolve(*inputs), naive_dynamic_convolution(*inputs)
    torch.testing.assert_close(output, expected)

    direction = torch.randn_like(expected)
    gradients = torch.autograd.grad(output, inputs, direction)
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, inputs, direction))


@both_paths
def test_gradients_equal_finite_differences(convolve):
    assert torch.autograd.gradcheck(convolve, random_inputs((2, 5, 2, 2, 3)))
    assert torch.autograd.gradgradcheck(convolve, random_inputs((1, 3, 1, 2, 3)))


@both_paths
@pytest.mark.parametrize("shape", [(0, 5), (2, 0)], ids=["no rows", "no positions"])
def test_empty_input_gives_empty_output_and_gradients(convolve, shape):
    values, kernel = random_inputs((*shape, 2, 3, 9))
    output = convolve(values, kernel)
    output.sum().backward()
    assert output.shape == values.shape == values.grad.shape
    assert kernel.grad.shape == kernel.shape


def test_shapes_are_known_on_the_meta_device():
    values = torch.empty(2, 7, 12, device="meta")
    kernel = torch.empty(2, 7, 4, 9, device="meta")
    assert dynamic_convolution(values, kernel).shape == (2, 7, 12)


def test_input_that_is_not_contiguous_changes_nothing():
    values, kernel = random_inputs((3, 19, 2, 4, 9))
    expected = dynamic_convolution(values, kernel)
    strided_values = values.transpose(0, 2).contiguous().transpose(0, 2)
    strided_kernel = kernel.transpose(1, 3).contiguous().transpose(1, 3)
    torch.testing.assert_close(dynamic_convolution(strided_values, strided_kernel), expected)


@pytest.mark.parametrize("seq", [1, 16, 50])
def test_a_row_does_not_depend_on_its_batch(seq):
    values, kernel = random_inputs((5, seq, 3, 8, 9), torch.float32)
    batched = dynamic_convolution(values, kernel)
    for row in range(5):
        alone = dynamic_convolution(values[row : row + 1], kernel[row : row + 1])
        torch.testing.assert_close(batched[row : row + 1], alone, rtol=1e-6, atol=1e-6)


def unfold_form(values, kernel):
    """Holds every shifted copy, as ConvBERT does: what the measurements below must catch."""
    batch, seq, hidden = values.shape
    heads, taps = kernel.shape[2:]
    columns = nn.functional.unfold(
        values.transpose(1, 2).unsqueeze(-1), (taps, 1), padding=(taps // 2, 0)
    )
    copies = columns.transpose(1, 2).reshape(batch, seq, heads, hidden // heads, taps)
    return torch.matmul(copies, kernel.unsqueeze(-1)).reshape(batch, seq, hidden)


def saved_size(convolve, values, kernel):
    """Elements kept for the backward pass, each storage once, as a multiple of the values'."""
    storages = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes() / tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        kept_alive = convolve(values, kernel)
    assert kept_alive.grad_fn is not None
    return sum(storages.values()) / values.numel()


class LargestTensor(TorchDispatchMode):
    """Notes the most elements that any operation under it gives out, views of its input aside."""

    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, torch.Tensor):
                elements = tensor.untyped_storage().nbytes() // tensor.element_size()
                self.numel = max(self.numel, elements)
        return result


def largest_size(convolve, values, kernel):
    """Elements of the largest tensor made by forward and backward, as a multiple of the values'."""
    with LargestTensor() as largest:
        convolve(values, kernel).sum().backward()
    return largest.numel / values.numel()


def test_memory_for_the_backward_pass_stays_far_below_one_copy_a_tap():
    inputs = random_inputs((2, 128, 4, 64, 9), torch.float32)
    assert saved_size(unfold_form, *inputs) > 9
    assert saved_size(dynamic_convolution, *inputs) < 3
    assert saved_size(_convolve_by_taps, *inputs) < 3


def test_no_tensor_is_as_large_as_one_copy_a_tap():
    inputs = random_inputs((2, 128, 4, 64, 9), torch.float32)
    assert largest_size(unfold_form, *inputs) >= 9
    assert largest_size(dynamic_convolution, *inputs) < 2
    assert largest_size(_convolve_by_taps, *inputs) < 2


@pytest.mark.parametrize(("seq", "taps"), [(1, 9), (4, 9), (31, 3), (5, 1)])
def test_depthwise_convolution_equals_conv1d_with_the_same_weight(seq, taps):
    fast = DepthwiseConvolution(6, taps).double()
    plain = nn.Conv1d(6, 6, taps, padding=taps // 2, groups=6, bias=False).double()
    plain.load_state_dict(fast.state_dict())
    channels = torch.randn(3, seq, 6, dtype=torch.float64, requires_grad=True).transpose(1, 2)

    output, expected = fast(channels), plain(channels)
    torch.testing.assert_close(output, expected)
    direction = torch.randn_like(expected)
    gradients = torch.autograd.grad(output, (channels, fast.weight), direction)
    expected_gradients = torch.autograd.grad(expected, (channels, plain.weight), direction)
    torch.testing.assert_close(gradients, expected_gradients)


def test_parameters_have_the_names_and_shapes_of_the_checkpoints():
    shapes = {name: tuple(weight.shape) for name, weight in make_layer().state_dict().items()}
    linear = {"glu_value": 24, "glu_gate": 24, "pointwise": 24, "kernel": 36, "output": 24}
    expected = {"depthwise.weight": (24, 1, 9)}
    for name, size in linear.items():
        expected |= {f"{name}.weight": (size, 24), f"{name}.bias": (size,)}
    assert shapes == expected
    assert isinstance(make_layer().depthwise, nn.Conv1d)


def test_layer_equals_the_formula():
    layer = make_layer().double()
    hidden_states = torch.randn(3, 13, 24, dtype=torch.float64)
    values = layer.glu_value(hidden_states) * layer.glu_gate(hidden_states).sigmoid()
    features = nn.functional.conv1d(
        values.transpose(1, 2), layer.depthwise.weight, padding=4, groups=24
    )
    logits = layer.kernel(layer.pointwise(features.transpose(1, 2))).view(3, 13, 4, 9)
    expected = layer.output(naive_dynamic_convolution(values, logits.softmax(-1)))
    # Tight enough to see a softmax in single precision.
    torch.testing.assert_close(layer(hidden_states), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("seq", [3, 9, 40], ids=lambda seq: f"t{seq}")
@pytest.mark.parametrize("mask_dtype", [torch.bool, torch.int64], ids=["bool", "int"])
@pytest.mark.parametrize("content", [0.0, 100.0, float("nan")])
def test_padding_does_not_change_real_tokens(seq, mask_dtype, content):
    layer = make_layer().double()
    sentence = torch.randn(1, seq, 24, dtype=torch.float64)
    alone = layer(sentence)

    padded = torch.full((2, seq + 5, 24), content, dtype=torch.float64)
    padded[0, :seq] = sentence
    padded[1, 5:] = sentence
    mask = padding_mask([seq, seq + 5], seq + 5)
    mask[1, :5] = False
    output = layer(padded, mask.to(mask_dtype))
    torch.testing.assert_close(output[:1, :seq], alone)
    torch.testing.assert_close(output[1:, 5:], alone)


def test_gradients_of_real_tokens_do_not_reach_padding():
    hidden_states = torch.randn(1, 8, 24, requires_grad=True)
    make_layer()(hidden_states, padding_mask([5], 8))[:, :5].sum().backward()
    assert (hidden_states.grad[:, :5] != 0).any(dim=-1).all()
    assert (hidden_states.grad[:, 5:] == 0).all()


def test_without_mask_padding_padding_changes_its_neighbours_as_in_the_original():
    layer = make_layer(mask_padding=False)
    hidden_states = torch.randn(1, 20, 24)
    mask = padding_mask([12], 20)
    output = layer(hidden_states, mask)
    torch.testing.assert_close(output, layer(hidden_states))

    changed = hidden_states.clone()
    changed[:, 12:] += 1.0
    difference = (layer(changed, mask) - output).abs().amax(dim=-1)
    assert (difference[0, 8:12] > 1e-4).all()


def test_a_mask_of_ones_changes_nothing():
    layer = make_layer()
    hidden_states = torch.randn(2, 7, 24)
    masked = layer(hidden_states, torch.ones(2, 7, dtype=torch.int64))
    torch.testing.assert_close(masked, layer(hidden_states), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.bfloat16, 2e-2), (torch.float16, 2e-3)], ids=["bf16", "fp16"]
)
def test_half_precision_is_close_to_single(dtype, tolerance):
    layer = make_layer()
    half = make_layer().to(dtype)
    half.load_state_dict(layer.state_dict())
    hidden_states = torch.randn(2, 21, 24)
    mask = padding_mask([21, 6], 21)

    output, half_output = layer(hidden_states, mask), half(hidden_states.to(dtype), mask)
    assert half_output.dtype == dtype
    torch.testing.assert_close(half_output.float(), output, rtol=tolerance, atol=tolerance)
    output.square().sum().backward()
    half_output.float().square().sum().backward()
    scale = layer.kernel.weight.grad.abs().max()
    error = (half.kernel.weight.grad.float() - layer.kernel.weight.grad).abs().max()
    assert error < 5 * tolerance * scale


def test_autocast_trains_single_precision_weights():
    layer = make_layer()
    hidden_states = torch.randn(2, 21, 24)
    expected = layer(hidden_states)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = layer(hidden_states)
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.float(), expected, rtol=2e-2, atol=2e-2)
    output.float().square().sum().backward()
    assert all(weight.grad.dtype == torch.float32 for weight in layer.parameters())


def test_checkpointing_gives_the_same_gradients():
    layer = make_layer()
    hidden_states = torch.randn(2, 21, 24, requires_grad=True)
    layer(hidden_states).square().sum().backward()
    expected = [weight.grad.clone() for weight in layer.parameters()]
    layer.zero_grad()
    checkpoint(layer, hidden_states, use_reentrant=False).square().sum().backward()
    torch.testing.assert_close([weight.grad for weight in layer.parameters()], expected)


def compiled_layer_equals_the_layer(backend):
    layer = make_layer()
    counter = CompileCounterWithBackend(backend)
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend=counter, dynamic=True, fullgraph=True)
    for batch, seq in [(2, 7), (3, 12), (20, 33), (4, 128)]:
        hidden_states = torch.randn(batch, seq, 24)
        mask = padding_mask([seq // 2 + 1] * batch, seq)
        results = []
        for module in (layer, compiled):
            layer.zero_grad()
            output = module(hidden_states, mask)
            output.square().sum().backward()
            results.append([output.detach(), *(weight.grad for weight in layer.parameters())])
        torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-4)
    assert counter.frame_count == 1


def test_one_graph_serves_every_batch_and_length():
    compiled_layer_equals_the_layer("eager")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")
def test_the_default_compiler_gives_the_same_values_and_gradients():
    compiled_layer_equals_the_layer("inductor")


def test_an_exported_layer_takes_other_batches_and_lengths():
    layer = make_layer().eval()
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("seq")}
    example = (torch.randn(2, 7, 24), padding_mask([7, 4], 7))
    exported = torch.export.export(layer, example, dynamic_shapes=(axes, axes)).module()
    hidden_states, mask = torch.randn(20, 41, 24), padding_mask([41, 5] * 10, 41)
    torch.testing.assert_close(exported(hidden_states, mask), layer(hidden_states, mask))


@pytest.mark.filterwarnings("ignore:.torch.jit.trace:DeprecationWarning")
def test_a_traced_layer_takes_other_batches_and_lengths():
    layer = make_layer().eval()
    example = (torch.randn(2, 7, 24), padding_mask([7, 4], 7))
    traced = torch.jit.trace(layer, example)
    hidden_states, mask = torch.randn(20, 41, 24), padding_mask([41, 5] * 10, 41)
    torch.testing.assert_close(traced(hidden_states, mask), layer(hidden_states, mask))
