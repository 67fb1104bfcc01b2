"""Times our span masking of whole batches against a loop over rows and spans.

    python benchmarks/masking.py --json masking.json

The contenders run in turn in one process, so that what else the machine does falls on all of them:
`batch` is ours, `loop` draws one span after the other for each row, as ELC-BERT (arXiv 2311.02265)
does; tests/pretraining/test_span_masking.py holds it against examples recorded from that code. Both
get token ids and return masked ids and labels; their shares of masked tokens are compared before
they are timed. `collator` is ours as training calls it, with rows as lists and padding to do.
"""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import BertTokenizer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.command_line import parse_arguments, write_results  # noqa: E402
from modeling_lvbert.pretraining.counter_hash import make_row_keys  # noqa: E402
from modeling_lvbert.pretraining.masking import IGNORED_LABEL, MaskingCollator  # noqa: E402

# Calls a round, so that all contenders run for about as long and are interrupted as often.
NUM_CALLS = {"batch": 40, "collator": 20, "loop": 1}

# (batch, seq): rows of both phases of pre-training.
SHAPES = [(256, 128), (64, 512)]
SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCAB_SIZE, NUM_SPECIAL_IDS, MASK_ID = 6144, len(SPECIAL_TOKENS), 4
MASK_FRACTION = 0.15


def mask_row(tokens: Tensor, num_special_ids: int, vocab_size: int) -> tuple[Tensor, Tensor]:
    """Masks one row, a span at a time, with PyTorch's own generator.

    Args:
        tokens: Token ids; those below `num_special_ids` are never masked, (seq,).
        num_special_ids: Random words begin one id below.
        vocab_size: They end below this one.

    Returns:
        Masked ids and labels, (seq,).
    """
    masked, labels = tokens.clone(), torch.full_like(tokens, IGNORED_LABEL)
    candidates = tokens >= num_special_ids
    chosen = torch.zeros_like(candidates)
    count = candidates.sum().float().unsqueeze(0)
    target = torch.binomial(count, torch.tensor([MASK_FRACTION])).item()
    for _ in range(100):
        if chosen.sum() >= target:
            break
        length = int(torch.zeros(1, dtype=torch.int64).geometric_(1 / 3).item()) % 10
        start = int(torch.randint(1 - length, len(tokens) + length, ()).item())
        span = torch.zeros_like(candidates)
        span[max(0, start) : min(len(tokens) - 1, start + length)] = True
        span &= candidates
        action = torch.rand(()).item()
        if action < 0.8:
            masked[span] = MASK_ID
        elif action < 0.9:
            num_words = int(span.sum())
            masked[span] = torch.randint(num_special_ids - 1, vocab_size, (num_words,))
        else:
            masked[span] = tokens[span]
        chosen |= span
    labels[chosen] = tokens[chosen]
    return masked, labels


def make_rows(shape: tuple[int, int]) -> list[dict[str, Any]]:
    """Returns full rows of random ordinary tokens between [CLS] and [SEP], as lists."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(NUM_SPECIAL_IDS, VOCAB_SIZE, shape, generator=generator)
    ids[:, 0], ids[:, -1] = 2, 3
    return [
        {"input_ids": row, "mask_key": (0, 0, number)} for number, row in enumerate(ids.tolist())
    ]


def mask_by_loop(input_ids: Tensor) -> tuple[Tensor, Tensor]:
    """Returns masked ids and labels of full rows, (batch, seq)."""
    rows = [mask_row(row, NUM_SPECIAL_IDS, VOCAB_SIZE) for row in input_ids]
    masked, labels = zip(*rows, strict=True)
    return torch.stack(masked), torch.stack(labels)


def make_contenders(shape: tuple[int, int]) -> dict[str, Callable[[], tuple[Tensor, Tensor]]]:
    """Returns the contenders; each masks the same rows and returns masked ids and labels."""
    names = [*SPECIAL_TOKENS, *(f"w{i}" for i in range(NUM_SPECIAL_IDS, VOCAB_SIZE))]
    tokenizer = BertTokenizer(vocab={name: number for number, name in enumerate(names)})
    collator = MaskingCollator(tokenizer, "span", MASK_FRACTION)
    rows = make_rows(shape)
    input_ids = torch.tensor([row["input_ids"] for row in rows])
    row_lengths = torch.full((shape[0], 1), shape[1])
    keys = make_row_keys([row["mask_key"] for row in rows])

    def collate() -> tuple[Tensor, Tensor]:
        batch = collator(rows)
        return batch["input_ids"], batch["labels"]

    return {
        "batch": lambda: collator.mask_tokens(input_ids, row_lengths, keys),
        "collator": collate,
        "loop": lambda: mask_by_loop(input_ids),
    }


def measure(shape: tuple[int, int], num_rounds: int) -> dict[str, list[float]]:
    """Returns the milliseconds a call of every round, by contender, after one unmeasured round.

    Raises:
        RuntimeError: The contenders do not mask the same share of tokens.
    """
    contenders = make_contenders(shape)
    shares = {
        name: (mask()[1] != IGNORED_LABEL).float().mean().item()
        for name, mask in contenders.items()
    }
    if max(shares.values()) - min(shares.values()) > 0.02:
        raise RuntimeError(f"the shares of masked tokens differ: {shares}")
    milliseconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(num_rounds):
        for name, mask in contenders.items():
            start = time.perf_counter()
            for _ in range(NUM_CALLS[name]):
                mask()
            seconds = time.perf_counter() - start
            milliseconds[name].append(1000 * seconds / NUM_CALLS[name])
    return milliseconds


def summarize(milliseconds: dict[str, list[float]], num_tokens: int) -> dict[str, dict[str, float]]:
    """Returns tokens per second (median, quartiles) and the median ratio of times to the loop's."""
    summary = {}
    for name, times in milliseconds.items():
        upper, median, lower = (1000 * num_tokens / q for q in statistics.quantiles(times, n=4))
        ratios = [peer / own for peer, own in zip(milliseconds["loop"], times, strict=True)]
        summary[name] = {
            "median_tokens_per_second": median,
            "lower_quartile_tokens_per_second": lower,
            "upper_quartile_tokens_per_second": upper,
            "times_faster_than_loop": statistics.median(ratios),
        }
    return summary


def main() -> None:
    """Measures at every shape and prints one line a contender."""
    arguments = parse_arguments(__doc__, num_rounds=15)
    results = {}
    for shape in SHAPES:
        label = "x".join(map(str, shape))
        results[label] = summarize(measure(shape, arguments.rounds), shape[0] * shape[1])
        for name, figures in results[label].items():
            sys.stdout.write(
                f"{label:>8} {name:>8}  {figures['median_tokens_per_second'] / 1e6:7.2f} million "
                f"tokens/s ({figures['lower_quartile_tokens_per_second'] / 1e6:.2f} to "
                f"{figures['upper_quartile_tokens_per_second'] / 1e6:.2f})  "
                f"{figures['times_faster_than_loop']:5.1f} times as fast as the loop\n"
            )
    write_results(arguments, results, vocab_size=VOCAB_SIZE, mask_fraction=MASK_FRACTION)


if __name__ == "__main__":
    main()
