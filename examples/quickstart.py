"""Runs the whole story in minutes on two cores, on text that comes with Python.

    python examples/quickstart.py --output_dir runs/quickstart

For a tiny LV-BERT and a tiny ELC-BERT: trains a tokenizer and the model, opens the saved folder in
a process that cannot import this package, fills a mask, fine-tunes on telling sentences from ones
with two words exchanged, and prints one table. Run again, it goes on where it stopped.
"""

import argparse
import json
import logging
import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from modeling_lvbert.evaluation.acceptability import write_task
from modeling_lvbert.pretraining.corpus import load_embedded_corpus, split_sentences

logger = logging.getLogger("quickstart")
EXAMPLES = Path(__file__).resolve().parent
PRE_TRAINING = """--model_size tiny --vocab_size 2048 --max_seq_length 64
--per_device_train_batch_size 16 --learning_rate 2e-3 --warmup_steps 100 --adam_beta2 0.98
--hidden_dropout_prob 0 --attention_probs_dropout_prob 0
--logging_steps 100 --save_steps 500 --save_total_limit 1 --log_level error --use_cpu
--disable_tqdm true"""
MODELS = {
    "lvbert": "--model_family lvbert --layer_order ddsfsf --max_steps 800",
    "elcbert": "--model_family elcbert --layer_order 'dsf dsf' --variant zero --max_steps 800",
}
FINE_TUNING = """--do_train --do_eval --max_seq_length 64 --per_device_train_batch_size 16
--learning_rate 5e-4 --warmup_steps 0.1 --num_train_epochs 5 --save_strategy no --logging_steps 100
--log_level error --use_cpu --disable_tqdm true --trust_remote_code"""
QUIET = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "PYTHONUNBUFFERED": "1",
}
FILL_MASK = """
import sys
sys.modules["modeling_lvbert"] = None  # importing the package fails from here on
from transformers import pipeline
for folder in sys.argv[1:]:
    fill = pipeline("fill-mask", model=folder, trust_remote_code=True)
    text = f"Return {fill.tokenizer.mask_token} list of strings."
    guesses = ", ".join(repr(guess["token_str"].strip()) for guess in fill(text))
    print(f"{type(fill.model).__name__}: {text}  ->  {guesses}")
"""


def start(name: str, command: list[str], running: list[subprocess.Popen]) -> None:
    """Runs a Python command without a network and shows what it prints, its errors among it.

    Args:
        name: Stands before each line.
        command: What Python is to run.
        running: Gets the process.

    Raises:
        SystemExit: The command failed; its exit code.
    """
    # Small matrices gain nothing from more threads.
    threads = str(min(4, max(1, (os.cpu_count() or 1) // 2)))
    process = subprocess.Popen(
        [sys.executable, *command],
        env={**os.environ, **QUIET, "OMP_NUM_THREADS": threads},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    running.append(process)
    with process:
        for line in process.stdout or ():
            sys.stdout.write(f"[{name}] {line}")
            sys.stdout.flush()
    if process.returncode < 0:
        raise SystemExit(f"error: {name} was ended by signal {-process.returncode}")
    if process.returncode:
        raise SystemExit(process.returncode)


def start_side_by_side(commands: dict[str, list[str]]) -> None:
    """Runs a command for each model at the same time; where one fails, the others are stopped."""
    for command in commands.values():
        logger.info("    python %s", shlex.join(command))
    running: list[subprocess.Popen] = []
    with ThreadPoolExecutor() as pool:
        steps = [pool.submit(start, *step, running) for step in commands.items()]
        for step in as_completed(steps):
            if error := step.exception():
                for process in running:
                    process.terminate()
                raise error


def make_table(folder: Path) -> str:
    """Returns the results of all models as a table."""
    heads = "model,order,parameters,validation loss,unigram entropy,masked accuracy"
    rows = [[*heads.split(","), "fine-tuning accuracy", "majority baseline"]]
    for name in MODELS:
        config = json.loads((folder / name / "config.json").read_text(encoding="utf-8"))
        scores = json.loads((folder / name / "eval_results.json").read_text(encoding="utf-8"))
        tuned = json.loads((folder / f"{name}-tuned/eval_results.json").read_text(encoding="utf-8"))
        numbers = [scores[f"eval_{key}"] for key in ("loss", "unigram_entropy", "masked_accuracy")]
        numbers += [tuned["eval_accuracy"], tuned["eval_majority_baseline"]]
        about = [name, config["layer_order"], f"{scores['num_parameters']:,}"]
        rows.append([*about, *(f"{number:.3f}" for number in numbers)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]]) + "\n"


def main(output_dir: str) -> None:
    """Runs every step in `output_dir`."""
    began, folder = time.perf_counter(), Path(output_dir)
    logger.info("pre-training both models, about two minutes on two cores")
    start_side_by_side(
        {
            name: [
                str(EXAMPLES / "run_pretraining.py"),
                *shlex.split(f"{options} {PRE_TRAINING}"),
                f"--output_dir={folder / name}",
            ]
            for name, options in MODELS.items()
        }
    )
    logger.info("filling a mask in a process that cannot import this package")
    start("fill-mask", ["-I", "-c", FILL_MASK, *(str(folder / name) for name in MODELS)], [])
    texts = load_embedded_corpus()["held_out"]["text"]
    held_out = [line for text in texts for line in text.splitlines()]
    rows = write_task([s for line in held_out for s in split_sentences(line)], folder / "task", 300)
    logger.info("fine-tuning both models on a task made of unseen sentences: %s rows", rows)
    start_side_by_side(
        {
            name: [
                str(EXAMPLES / "run_glue.py"),
                f"--model_name_or_path={folder / name}",
                *(f"--{split}_file={folder}/task/{split}.jsonl" for split in rows),
                *shlex.split(FINE_TUNING),
                f"--output_dir={folder / name}-tuned",
            ]
            for name in MODELS
        }
    )
    table = make_table(folder)
    (folder / "table.txt").write_text(table, encoding="utf-8")
    logger.info("done in %.0f s; everything is in %s", time.perf_counter() - began, folder)
    sys.stdout.write(f"\n{table}\n")


def run(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    logging.basicConfig(level=logging.INFO, format="==> %(message)s")
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--output_dir", default="runs/quickstart", help="Where everything goes.")
    output_dir = parser.parse_args(arguments).output_dir
    try:
        Path(output_dir).mkdir(parents=True, exist_ok=True)
        main(output_dir)
    except (OSError, ValueError) as error:
        logger.debug("where it came from", exc_info=True)
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    run()
