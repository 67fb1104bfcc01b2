r"""Scores a language model on minimal pairs: BLiMP's, or files of the same form.

    python examples/run_blimp.py --model_name_or_path runs/lvbert-tiny --blimp_dir blimp/data \
        --output_file runs/lvbert-tiny/blimp.json

scores any masked language model of transformers by its pseudo-log-likelihood; `--metric` names
others, also for decoders and for ELECTRA's discriminators. A results file of an earlier run is
replaced, any other file is not. Several processes share the work under `accelerate launch`.
"""

import sys

from accelerate import Accelerator

import modeling_lvbert  # noqa: F401  (makes both families known to the Auto classes)
from modeling_lvbert.evaluation.minimal_pairs.pairs import PairResults
from modeling_lvbert.evaluation.minimal_pairs.scoring import (
    MinimalPairArguments,
    evaluate_minimal_pairs,
)
from modeling_lvbert.evaluation.model_loading import ModelArguments
from modeling_lvbert.pretraining.launching import run_script


def main(model_args: ModelArguments, pair_args: MinimalPairArguments) -> PairResults:
    """Scores, writes the results and prints a table of them."""
    accelerator = Accelerator()
    results, table = evaluate_minimal_pairs(model_args, pair_args, accelerator.state)
    if accelerator.is_main_process:
        sys.stdout.write(f"\n{table}\n")
    accelerator.end_training()
    return results


def run(arguments: list[str] | None = None) -> None:
    """Runs the command line; what the user got wrong becomes one line and exit code 1."""
    run_script(main, (ModelArguments, MinimalPairArguments), arguments, __doc__)


if __name__ == "__main__":
    run()
