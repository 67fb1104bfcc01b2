"""Times our dynamic convolution against the form that ConvBERT computes, forward and backward.

    python benchmarks/dynamic_convolution.py --json dynamic_convolution.json

The contenders run in turn in one process, so that what else the machine does falls on all of them:
`eager` and `compiled` are ours, `unfold` gathers one shifted copy of the values a tap with
`nn.functional.unfold` and multiplies it by the kernels (ConvBERT, arXiv 2008.02496). All three are
compared in value and gradient before they are timed.
"""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.command_line import parse_arguments, write_results  # noqa: E402
from modeling_lvbert.modeling_dynamic_convolution import dynamic_convolution  # noqa: E402

Convolution = Callable[[Tensor, Tensor], Tensor]

# (batch, seq, hidden): the base model at the pre-training lengths of both phases.
SHAPES = [(8, 128, 768), (2, 512, 768)]
NUM_HEADS = 12
NUM_TAPS = 9


def unfold_form(values: Tensor, kernel: Tensor) -> Tensor:
    """Returns the same as `dynamic_convolution`, from one shifted copy of the values a tap."""
    batch_size, seq_length, hidden_size = values.shape
    num_heads, num_taps = kernel.shape[2:]
    copies = nn.functional.unfold(
        values.transpose(1, 2).unsqueeze(-1), (num_taps, 1), padding=(num_taps // 2, 0)
    )
    # (batch * seq * heads, head size, k)
    copies = copies.transpose(1, 2).reshape(-1, hidden_size // num_heads, num_taps)
    output = torch.matmul(copies, kernel.reshape(-1, num_taps, 1))
    return output.reshape(batch_size, seq_length, hidden_size)


def make_inputs(shape: tuple[int, int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """Returns values, kernel and the gradient of the output, for a (batch, seq, hidden)."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(shape, generator=generator).requires_grad_()
    logits = torch.randn(*shape[:2], NUM_HEADS, NUM_TAPS, generator=generator)
    gradient = torch.randn(shape, generator=generator)
    return values, logits.softmax(-1).requires_grad_(), gradient


def run(convolve: Convolution, inputs: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, ...]:
    """Returns the output and the gradients of values and kernel."""
    values, kernel, gradient = inputs
    output = convolve(values, kernel)
    return output, *torch.autograd.grad(output, (values, kernel), gradient)


def measure(shape: tuple[int, int, int], num_rounds: int) -> dict[str, list[float]]:
    """Returns the milliseconds of every round, by contender, after one unmeasured round."""
    contenders: dict[str, Convolution] = {
        "eager": dynamic_convolution,
        "compiled": torch.compile(dynamic_convolution, fullgraph=True, dynamic=False),
        "unfold": unfold_form,
    }
    inputs = make_inputs(shape)
    expected = run(unfold_form, inputs)
    for convolve in contenders.values():
        torch.testing.assert_close(run(convolve, inputs), expected, rtol=1e-4, atol=1e-4)
    milliseconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(num_rounds):
        for name, convolve in contenders.items():
            start = time.perf_counter()
            run(convolve, inputs)
            milliseconds[name].append(1000 * (time.perf_counter() - start))
    return milliseconds


def summarize(milliseconds: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """Returns median, quartiles and the median over rounds of unfold's time / own time."""
    summary = {}
    for name, times in milliseconds.items():
        lower, median, upper = statistics.quantiles(times, n=4)
        ratios = [peer / own for peer, own in zip(milliseconds["unfold"], times, strict=True)]
        summary[name] = {
            "median_ms": median,
            "lower_quartile_ms": lower,
            "upper_quartile_ms": upper,
            "times_faster_than_unfold": statistics.median(ratios),
        }
    return summary


def main() -> None:
    """Measures at every shape and prints one line a contender."""
    arguments = parse_arguments(__doc__, num_rounds=20)
    results = {}
    for shape in SHAPES:
        torch.compiler.reset()
        label = "x".join(map(str, shape))
        results[label] = summarize(measure(shape, arguments.rounds))
        for name, figures in results[label].items():
            sys.stdout.write(
                f"{label:>10} {name:>8}  {figures['median_ms']:8.2f} ms "
                f"({figures['lower_quartile_ms']:.2f} to {figures['upper_quartile_ms']:.2f})  "
                f"{figures['times_faster_than_unfold']:5.1f} times as fast as unfold\n"
            )
    write_results(arguments, results, num_heads=NUM_HEADS, num_taps=NUM_TAPS)


if __name__ == "__main__":
    main()
