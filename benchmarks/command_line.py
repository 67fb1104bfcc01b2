"""What every benchmark's command line has: rounds, threads, a JSON file."""

import argparse
import json
import os
from pathlib import Path

import torch


def parse_arguments(description: str | None, num_rounds: int) -> argparse.Namespace:
    """Returns `rounds`, `threads` and `json` of the command line, and sets PyTorch's threads.

    Args:
        description: The script's docstring; its first line is shown.
        num_rounds: Measured rounds a shape where none are given.
    """
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument(
        "--rounds", type=int, default=num_rounds, help="measured rounds a shape, at least 2"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads that PyTorch computes with")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    arguments = parser.parse_args()
    if arguments.rounds < 2 or arguments.threads < 1:
        parser.error("--rounds must be at least 2 and --threads at least 1")
    if arguments.json and not arguments.json.resolve().parent.is_dir():
        parser.error(f"--json {arguments.json}: no such folder")
    torch.set_num_threads(arguments.threads)
    return arguments


def write_results(arguments: argparse.Namespace, results: object, **settings: object) -> None:
    """Writes the figures and what they were measured with, where a file was asked for.

    Args:
        arguments: Result of `parse_arguments`; `json` names the file.
        results: The figures.
        settings: What else was measured with.
    """
    if not arguments.json:
        return
    settings |= {
        "rounds": arguments.rounds,
        "threads": arguments.threads,
        "torch": torch.__version__,
    }
    content = json.dumps({"settings": settings, "results": results}, indent=2)
    # A file of that name is complete.
    temporary = arguments.json.with_name(arguments.json.name + ".tmp")
    temporary.write_text(content + "\n", encoding="utf-8")
    os.replace(temporary, arguments.json)
