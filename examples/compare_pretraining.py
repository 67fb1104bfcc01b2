"""Compares layer orders of LV-BERT and variants of ELC-BERT, each over several seeds.

    python examples/compare_pretraining.py --train_file train.txt.xz \
        --validation_file valid.txt.xz --jobs 2 --output_dir runs/comparison

Each run is one of run_pretraining.py on one thread; options that are not listed here go to all of
them. Started again, it keeps what is finished. It prints a table and writes it to table.md, all
numbers to results.json and, where matplotlib is installed, the curves to curves.png.

    python examples/compare_pretraining.py --search runs/search --model_family lvbert \
        --max_steps 1000 --output_dir runs/orders

compares the best order of run_search.py with the orders that it was compared with there.
"""

import argparse
import json
import logging
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from statistics import mean, stdev

logger = logging.getLogger("compare_pretraining")
ALL = """--model_size tiny --hidden_size 64 --num_attention_heads 2 --vocab_size 2048
--adam_beta2 0.98 --hidden_dropout_prob 0 --attention_probs_dropout_prob 0 --logging_steps 50
--per_device_eval_batch_size 64 --save_strategy no --report_to none --disable_tqdm true --use_cpu"""
ELECTRA = """--model_family lvbert --objective electra --generator_size 0.5 --embedding_size 64
--intermediate_size 256 --initializer_range 0.08 --packing segment_pairs
--replacement_shares 0.85 0 0.15 --max_seq_length 64 --per_device_train_batch_size 16
--learning_rate 1e-3 --warmup_steps 200 --max_steps 1200"""
MLM = """--model_family elcbert --layer_order 'sf sf sf sf sf sf sf sf sf sf sf sf'
--intermediate_size 128 --max_seq_length 32 --per_device_train_batch_size 32
--learning_rate 4e-3 --warmup_steps 100 --max_steps 800"""
CONTENDERS = {
    "published": f"{ELECTRA} --layer_order ddsffsdffsddsfdfsdfdssfs",
    "interleaved": f"{ELECTRA} --layer_order sfsfsfsfsfsfsfsfsfsfsfsf",
    **{n: f"{MLM} --variant {n}" for n in ("zero", "base", "normalized", "weighted_output", "ltg")},
}
# Where a run has them. Contenders with the same ones share a table.
METRICS = """num_parameters loss masked_accuracy detection_accuracy majority_share detection_auc
discriminator_loss generator_loss unigram_entropy processor_minutes"""


def list_contenders(search: str | None) -> dict[str, str]:
    """Returns options by name: those above, or the order of a search's best and its baselines."""
    if search is None:
        return CONTENDERS
    path = Path(search, "search_result.json")
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        orders = {name: entry["order"] for name, entry in result["baselines"].items()}
        orders = {"best": result["best_order"], **orders}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"search {search!r}: {str(path)!r} is not a search's result") from None
    return {name: f"--layer_order {shlex.quote(order)}" for name, order in orders.items()}


def train(folder: Path, options: list[str]) -> None:
    """Trains one run, unless an earlier start did, and records its processor time."""
    record, log = folder.with_suffix(".json"), folder.with_suffix(".log")
    if record.is_file():
        if json.loads(record.read_text(encoding="utf-8"))["options"] != options:
            raise ValueError(f"{str(record)!r} has other options: take a new output_dir")
        return
    script = str(Path(__file__).with_name("run_pretraining.py"))
    command = [sys.executable, script, *options, f"--output_dir={folder}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        last = (log.read_text(encoding="utf-8").strip() or "no output").splitlines()[-1]
        raise ValueError(f"run {folder.name!r} failed, see {str(log)!r}: {last}")
    seconds = usage.ru_utime + usage.ru_stime
    temporary = record.with_suffix(".tmp")
    temporary.write_text(json.dumps({"options": options, "processor_seconds": seconds}))
    temporary.rename(record)
    logger.info("%s: %.0f s of processor time", folder.name, seconds)


def read_run(folder: Path) -> dict[str, float]:
    """Returns a finished run's metrics of validation, and its processor time in minutes."""
    scores = json.loads((folder / "eval_results.json").read_text(encoding="utf-8"))
    scores = {name.removeprefix("eval_"): value for name, value in scores.items()}
    if "detection_recall" in scores:
        recall, precision = scores["detection_recall"], scores["detection_precision"]
        # Errors for each replaced token: they tell the share of the original ones.
        errors = 1 + (recall / precision - 2 * recall if precision else 0)
        scores["majority_share"] = 1 - (1 - scores["detection_accuracy"]) / errors
        del scores["loss"]  # only the weighted sum of the two that follow
    record = json.loads(folder.with_suffix(".json").read_text(encoding="utf-8"))
    return {**scores, "processor_minutes": record["processor_seconds"] / 60}


def make_tables(results: dict[str, list[dict[str, float]]]) -> str:
    """Returns mean and standard deviation over the seeds, in Markdown."""
    lines, shown = [], METRICS.split()
    for names, contenders in groupby(results, lambda c: [m for m in shown if m in results[c][0]]):
        heads = " | ".join(["model", *names]).replace("_", " ")
        lines += ["", heads, "--- | " * len(names) + "---"]
        for contender in contenders:
            cells = [contender]
            for values in ([run[name] for run in results[contender]] for name in names):
                number = mean(values)
                digits = 0 if number > 1000 else 3 if number > 1 else 4
                spread = f" ± {stdev(values):.{digits}f}" if len(set(values)) > 1 else ""
                cells.append(f"{number:,.{digits}f}{spread}")
            lines.append(" | ".join(cells))
    return "\n".join(line and f"| {line} |" for line in lines[1:]) + "\n"


def draw_curves(folder: Path, results: dict[str, list[dict[str, float]]], seeds: list[int]) -> None:
    """Draws the losses in training: the mean over the seeds, and the range that they span."""
    from matplotlib.figure import Figure

    known = {name for runs in results.values() for name in runs[0]}
    losses = [name for name in METRICS.split() if name.endswith("loss") and name in known]
    figure = Figure(figsize=(max(10, 5 * len(losses)), 4.5), layout="constrained")
    plots = figure.subplots(1, len(losses), squeeze=False)[0]
    for axes, loss in zip(plots, losses, strict=True):
        for contender in (name for name, runs in results.items() if loss in runs[0]):
            files = [folder / f"{contender}-{seed}" / "trainer_state.json" for seed in seeds]
            logs = [json.loads(file.read_text(encoding="utf-8"))["log_history"] for file in files]
            runs = [{e["step"]: e[loss] for e in log if "loss" in e} for log in logs]
            points = list(zip(*(run.values() for run in runs), strict=True))
            low, middle, high = (list(map(choose, points)) for choose in (min, mean, max))
            axes.plot(list(runs[0]), middle, label=contender)
            axes.fill_between(list(runs[0]), low, high, alpha=0.2)
        axes.set(title=loss.replace("_", " "), xlabel="step", ylabel="nats a token, in training")
        axes.legend(frameon=False)
    figure.savefig(folder / "curves.png", dpi=100)


def main(
    folder: Path, contenders: dict[str, str], seeds: list[int], jobs: int, others: list[str]
) -> None:
    """Trains what is not finished, and shows the results of all runs."""
    runs = {
        folder / f"{name}-{seed}": [*shlex.split(f"{ALL} {options}"), *others, f"--seed={seed}"]
        for seed in seeds
        for name, options in contenders.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(train, runs, runs.values()))
    results = {name: [read_run(folder / f"{name}-{seed}") for seed in seeds] for name in contenders}
    (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    tables = make_tables(results)
    (folder / "table.md").write_text(tables, encoding="utf-8")
    sys.stdout.write(f"\n{tables}")
    if find_spec("matplotlib"):
        draw_curves(folder, results, seeds)


def run(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form, allow_abbrev=False)
    parser.add_argument("--output_dir", default="runs/comparison", help="Where everything goes.")
    parser.add_argument("--search", help="Folder of a search: its orders are the models.")
    parser.add_argument("--jobs", type=int, default=1, help="Runs at the same time.")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="A run for each.")
    args, others = parser.parse_known_args(arguments)
    try:
        contenders = list_contenders(args.search)
        main(Path(args.output_dir), contenders, args.seeds, args.jobs, others)
    except (OSError, ValueError) as error:
        logger.debug("where it came from", exc_info=True)
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    run()
