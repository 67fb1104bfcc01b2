r"""Searches a layer order: a supernet, an evolution over its paths, and a table of what came out.

    python examples/run_search.py --model_family lvbert --model_size tiny --num_layers 8 \
        --max_seq_length 64 --per_device_train_batch_size 16 --max_steps 2000 --warmup_steps 100 \
        --learning_rate 2e-3 --output_dir runs/search

trains the supernet on the text that comes with Python; `--train_file` or `--dataset_name` names
another corpus, and every option of run_pretraining.py is one here. Started again with the same
`--output_dir`, the same command goes on where it was. `run_pretraining.py --layer_order
@runs/search` then trains the best order from scratch.
"""

import logging
import sys
from typing import Any

from transformers import TrainingArguments

from modeling_lvbert.pretraining.arguments import (
    ConfigArguments,
    DataArguments,
    ModelArguments,
    parse_arguments,
)
from modeling_lvbert.pretraining.launching import start_missing_processes
from modeling_lvbert.pretraining.trainer import OptimizationSettings
from modeling_lvbert.search.arguments import SearchArguments
from modeling_lvbert.search.pipeline import search_architecture
from modeling_lvbert.search.result_table import format_result

logger = logging.getLogger("run_search")
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
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(name)s: %(message)s", datefmt="%H:%M:%S"
    )
    if arguments is None:
        start_missing_processes()
    try:
        main(*parse_arguments(KINDS, arguments, __doc__))
    except (ValueError, OSError, ImportError) as error:
        logger.debug("where it came from", exc_info=True)
        sys.exit(f"error: {' '.join(str(error).split())}")
    except KeyboardInterrupt:
        sys.exit("interrupted: the same command goes on where it was")


if __name__ == "__main__":
    run()
