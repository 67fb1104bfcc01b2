r"""Searches a layer order: a supernet, an evolution over its paths, and a table of what came out.

    python examples/run_search.py --model_family lvbert --model_size tiny --num_layers 8 \
        --max_seq_length 64 --per_device_train_batch_size 16 --max_steps 2000 --warmup_steps 100 \
        --learning_rate 2e-3 --output_dir runs/search

trains the supernet on the text that comes with Python; `--train_file` or `--dataset_name` names
another corpus, and every option of run_pretraining.py is one here. Started again with the same
`--output_dir`, the same command goes on where it was. `run_pretraining.py --layer_order
@runs/search` then trains the best order from scratch.
"""

import sys
from typing import Any

from transformers import TrainingArguments

from modeling_lvbert.pretraining.arguments import (
    ConfigArguments,
    DataArguments,
    ModelArguments,
)
from modeling_lvbert.pretraining.launching import run_script
from modeling_lvbert.pretraining.trainer import OptimizationSettings
from modeling_lvbert.search.arguments import SearchArguments
from modeling_lvbert.search.pipeline import search_architecture
from modeling_lvbert.search.result_table import format_result

KINDS = (
    ModelArguments,
    ConfigArguments,
    DataArguments,
    OptimizationSettings,
    SearchArguments,
    TrainingArguments,
)


def main(*arguments: Any) -> None:
    """Searches, and prints the result on the main process."""
    result = search_architecture(*arguments)
    if arguments[-1].process_index == 0:
        sys.stdout.write(f"\n{format_result(result)}\n")


def run(arguments: list[str] | None = None) -> None:
    """Runs the command line; what the user got wrong becomes one line and exit code 1."""
    run_script(main, KINDS, arguments, __doc__, goes_on=True)


if __name__ == "__main__":
    run()
