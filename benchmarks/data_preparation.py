"""Measures tokens a second and peak memory of preparing a corpus, and of one ten times as large.

    python benchmarks/data_preparation.py --json data_preparation.json

`1 process` and `2 processes` read a file into the memory-mapped cache and pack it, `streamed` packs
it while it is read. The corpus is the text that comes with Python, again and again with other
words. Every contender runs in a fresh process with an empty cache, and the tokenizer's own threads
are off. Memory is the largest sum over the process and its children: `resident` counts what several
share once for each, and the files that are mapped, which the system takes back when it needs room;
`own` counts neither and is known on Linux alone.
"""

import contextlib
import itertools
import multiprocessing
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.command_line import parse_arguments, write_results  # noqa: E402

# Of text; the second is what memory is compared at.
MEGABYTES = (5, 50)
CONTENDERS = {"1 process": 1, "2 processes": 2, "streamed": 0}
VOCAB_SIZE, MAX_SEQ_LENGTH = 4096, 128
POLLING_SECONDS = 0.02


def write_corpus(path: Path, size: int) -> None:
    """Writes documents of at least `size` bytes in all; in each copy every 20th word is another."""
    from modeling_lvbert.pretraining.embedded_corpus import iterate_embedded_documents

    texts = [document["text"] for document in iterate_embedded_documents()]
    with path.open("w", encoding="utf-8") as file:
        for copy in itertools.count():
            for text in texts:
                if file.tell() >= size:
                    return
                lines = (line.split(" ") for line in text.splitlines())
                for words in lines:
                    words[copy % 20 :: 20] = [f"{word}{copy}" for word in words[copy % 20 :: 20]]
                    file.write(" ".join(words) + "\n")
                file.write("\n")


def train(corpus: Path, folder: Path) -> None:
    """Trains the tokenizer of all contenders."""
    from modeling_lvbert.pretraining.corpus import load_file
    from modeling_lvbert.pretraining.tokenizer_training import save_tokenizer, train_tokenizer

    documents = load_file("corpus", str(corpus))
    save_tokenizer(train_tokenizer(documents, "lvbert", VOCAB_SIZE, 512), str(folder))


def prepare(corpus: Path, tokenizer_folder: Path, num_processes: int, results: Any) -> None:
    """Prepares a corpus, sends "ready" before, "done" behind that, and then the number of tokens.

    Args:
        corpus: The file.
        tokenizer_folder: Its tokenizer.
        num_processes: 0 to stream.
        results: Queue.
    """
    import datasets
    from transformers import AutoTokenizer

    from modeling_lvbert.pretraining.corpus import load_file
    from modeling_lvbert.pretraining.packing import bind_packing, pack_corpus
    from modeling_lvbert.pretraining.streaming import StreamedRows, open_stream

    datasets.disable_progress_bars()
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    results.put("ready")
    if num_processes:
        documents = load_file("corpus", str(corpus))
        rows = pack_corpus(documents, tokenizer, MAX_SEQ_LENGTH, num_proc=num_processes)
        results.put("done")
        lengths: Iterator[int] = (len(row) for row in rows["input_ids"])
    else:
        pack = bind_packing(tokenizer, MAX_SEQ_LENGTH)
        stream = StreamedRows(open_stream(str(corpus)), pack, seed=0).iterate_from((0, 0, 0))
        first_pass = itertools.takewhile(lambda item: item[0][0] == 0, stream)
        lengths = iter([sum(len(row["input_ids"]) for _, row in first_pass)])
        results.put("done")
    results.put(sum(lengths))


def measure_memory(process: psutil.Process) -> tuple[int, int]:
    """Returns the bytes that a process and its children hold: resident, and their own."""
    resident = own = 0
    for member in [process, *process.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess, OSError):
            resident += member.memory_info().rss
            rollup = Path(f"/proc/{member.pid}/smaps_rollup").read_text()
            own += 1024 * int(re.search(r"^Pss_Anon: +(\d+) kB", rollup, re.MULTILINE)[1])
    return resident, own


def measure(corpus: Path, tokenizer_folder: Path, num_processes: int) -> dict[str, float]:
    """Returns tokens a second and the megabytes at the start and at the peak."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["HF_DATASETS_CACHE"] = cache
        arguments = (corpus, tokenizer_folder, num_processes, results)
        child = context.Process(target=prepare, args=arguments)
        child.start()
        process = psutil.Process(child.pid)
        results.get(timeout=300)
        start = time.perf_counter()
        sizes = [measure_memory(process)]
        while results.empty():
            if not child.is_alive():
                raise RuntimeError(f"the preparation ended with exit code {child.exitcode}")
            sizes.append(measure_memory(process))
            time.sleep(POLLING_SECONDS)
        seconds = time.perf_counter() - start
        results.get()
        num_tokens = results.get(timeout=300)
        child.join()
    resident, own = (max(column) / 1e6 for column in zip(*sizes, strict=True))
    return {
        "tokens_per_second": num_tokens / seconds,
        "resident_megabytes": resident,
        "own_megabytes": own,
        "own_megabytes_at_start": sizes[0][1] / 1e6,
    }


def main() -> None:
    """Measures every contender at both sizes and prints one line each."""
    arguments = parse_arguments(__doc__, num_rounds=2)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    rounds: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        corpora = {size: Path(folder, f"{size}.txt") for size in MEGABYTES}
        for size, path in corpora.items():
            write_corpus(path, size * 1_000_000)
        train(corpora[MEGABYTES[0]], Path(folder, "tokenizer"))
        for _, size, name in itertools.product(range(arguments.rounds), MEGABYTES, CONTENDERS):
            figures = measure(corpora[size], Path(folder, "tokenizer"), CONTENDERS[name])
            rounds.setdefault(f"{size} MB, {name}", []).append(figures)
    results = {
        label: {key: statistics.median(one[key] for one in figures) for key in figures[0]}
        for label, figures in rounds.items()
    }
    for label, figures in results.items():
        sys.stdout.write(
            f"{label:>20}  {figures['tokens_per_second'] / 1e6:5.2f} million tokens/s  "
            f"peak {figures['resident_megabytes']:5.0f} MB resident, "
            f"{figures['own_megabytes']:5.0f} MB own "
            f"({figures['own_megabytes_at_start']:.0f} MB at the start)\n"
        )
    write_results(arguments, results, vocab_size=VOCAB_SIZE, max_seq_length=MAX_SEQ_LENGTH)


if __name__ == "__main__":
    main()
