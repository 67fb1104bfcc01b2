"""Times our scoring of minimal pairs against minicons' (pip install minicons).

    python benchmarks/minimal_pairs.py --blimp_dir blimp/data --json minimal_pairs.json

Both score the same pairs of BLiMP by the same LV-BERT in one process and in turn, by both
pseudo-log-likelihoods; their scores are compared before they are timed. minicons gets sentences in
the order of the files, some at a time, tokenized by the model's tokenizer; of several numbers of
sentences the best for it counts. The model has random weights, 12 layers of width 128 and the
vocabulary of the pairs' own words, filled up to the size of BERT's.
"""

import argparse
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from minicons.scorer import MaskedLMScorer
from transformers import BertTokenizer, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.command_line import parse_arguments, write_results  # noqa: E402
from modeling_lvbert import LVBertConfig, LVBertForMaskedLM  # noqa: E402
from modeling_lvbert.evaluation.minimal_pairs.pairs import read_pairs  # noqa: E402
from modeling_lvbert.evaluation.minimal_pairs.pseudo_likelihood import SentenceScorer  # noqa: E402

METRICS = {"pll": "original", "within_word_l2r": "within_word_l2r"}
PEER_BATCH_SIZES = (8, 32)
NUM_PAIRS = 134
VOCAB_SIZE = 30522
SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# Scores of a sentence may differ by this, in nats.
TOLERANCE = 1e-4


def read_sentences(folder: str) -> list[str]:
    """Returns the sentences of pairs from all paradigms alike, good and bad in turn."""
    pairs = read_pairs(folder)
    by_paradigm: dict[str, list[str]] = {}
    for pair in pairs:
        by_paradigm.setdefault(pair.paradigm, []).extend([pair.good, pair.bad])
    each = 2 * max(1, NUM_PAIRS // len(by_paradigm))
    return [sentence for group in by_paradigm.values() for sentence in group[:each]]


def make_tokenizer(sentences: list[str]) -> PreTrainedTokenizerBase:
    """Returns a tokenizer that cuts every third word of the sentences into two pieces."""
    words = sorted({word for text in sentences for word in re.findall(r"\w+|[^\w\s]", text)})
    tokens = dict.fromkeys(SPECIAL_TOKENS)
    for number, word in enumerate(dict.fromkeys(word.lower() for word in words)):
        cut = len(word) // 2 if number % 3 == 0 and len(word) > 3 else len(word)
        tokens |= dict.fromkeys([word[:cut], *(["##" + word[cut:]] if word[cut:] else [])])
    tokens |= {f"[unused{number}]": None for number in range(VOCAB_SIZE - len(tokens))}
    return BertTokenizer(vocab={token: number for number, token in enumerate(tokens)})


def make_model() -> LVBertForMaskedLM:
    """Returns a model with random weights, large enough for probabilities to differ."""
    torch.manual_seed(0)
    config = LVBertConfig(
        vocab_size=VOCAB_SIZE,
        embedding_size=128,
        hidden_size=128,
        intermediate_size=512,
        layer_order="ddsffsdffsds",
        initializer_range=0.08,
    )
    return LVBertForMaskedLM(config).eval()


def make_peer(
    model: LVBertForMaskedLM,
    tokenizer: PreTrainedTokenizerBase,
    sentences: list[str],
    metric: str,
    batch_size: int,
) -> Callable[[], np.ndarray]:
    """Returns minicons' way: it takes token ids, since its own call is of transformers 4."""
    scorer = MaskedLMScorer(model, "cpu", tokenizer=tokenizer)

    def score() -> np.ndarray:
        scores: list[float] = []
        for start in range(0, len(sentences), batch_size):
            batch = tokenizer(sentences[start : start + batch_size], padding=True)
            scores += scorer.sequence_score(
                batch, reduction=lambda terms: terms.sum().item(), PLL_metric=METRICS[metric]
            )
        return np.array(scores)

    return score


def time_call(call: Callable[[], np.ndarray]) -> float:
    """Returns the seconds of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(sentences: list[str], metric: str, num_rounds: int) -> dict[str, float]:
    """Returns pairs per second of both, medians over rounds, and the median ratio.

    Raises:
        RuntimeError: The scores differ.
    """
    model, tokenizer = make_model(), make_tokenizer(sentences)
    own = SentenceScorer(model, tokenizer, metric)
    peers = {
        size: make_peer(model, tokenizer, sentences, metric, size) for size in PEER_BATCH_SIZES
    }
    difference = np.abs(own.score(sentences).totals - peers[PEER_BATCH_SIZES[0]]()).max()
    if difference > TOLERANCE:
        raise RuntimeError(f"{metric}: scores differ by {difference}")
    best = min(peers, key=lambda size: time_call(peers[size]))
    own_seconds, peer_seconds = [], []
    for _ in range(num_rounds):
        own_seconds.append(time_call(lambda: own.score(sentences).totals))
        peer_seconds.append(time_call(peers[best]))
    ratios = [peer / seconds for peer, seconds in zip(peer_seconds, own_seconds, strict=True)]
    num_pairs = len(sentences) / 2
    return {
        "pairs_per_second": num_pairs / statistics.median(own_seconds),
        "minicons_pairs_per_second": num_pairs / statistics.median(peer_seconds),
        "minicons_sentences_at_once": best,
        "times_faster_than_minicons": statistics.median(ratios),
        "largest_difference": float(difference),
    }


def main() -> None:
    """Measures both metrics and prints one line each."""
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--blimp_dir")
    own, sys.argv[1:] = finder.parse_known_args()
    arguments = parse_arguments(__doc__, num_rounds=2)
    if own.blimp_dir is None:
        sys.exit("give --blimp_dir: the folder of BLiMP's .jsonl files")
    transformers_logging.disable_progress_bar()
    sentences = read_sentences(own.blimp_dir)
    results = {metric: measure(sentences, metric, arguments.rounds) for metric in METRICS}
    for metric, figures in results.items():
        sys.stdout.write(
            f"{metric:>16}  {figures['pairs_per_second']:6.1f} pairs/s, minicons "
            f"{figures['minicons_pairs_per_second']:6.1f}: "
            f"{figures['times_faster_than_minicons']:.2f} times as fast\n"
        )
    write_results(arguments, results, pairs=len(sentences) // 2)


if __name__ == "__main__":
    main()
