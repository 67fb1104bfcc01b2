"""Fine-tunes a model on a task of GLUE or on a file of sentences or pairs of sentences.

    python examples/run_glue.py --model_name_or_path runs/lvbert-tiny --task_name cola \
        --train_file CoLA/train.tsv --validation_file CoLA/dev.tsv --do_train --do_eval \
        --learning_rate 1e-4 --num_train_epochs 3 --output_dir runs/lvbert-tiny-cola

The options are those of transformers' run_glue; files may be GLUE's own .tsv, .csv, .json or
.jsonl, and without a file the task comes from the Hub. Scores need no network.
"""

import logging
import sys

from transformers import TrainingArguments

import modeling_lvbert  # noqa: F401  (makes both families known to the Auto classes)
from modeling_lvbert.evaluation.finetuning import ModelArguments, TaskArguments, fine_tune
from modeling_lvbert.pretraining.arguments import parse_arguments
from modeling_lvbert.pretraining.launching import start_missing_processes

logger = logging.getLogger("run_glue")


def main(
    model_args: ModelArguments, task_args: TaskArguments, training_args: TrainingArguments
) -> dict[str, float]:
    """Fine-tunes, scores and saves; returns the metrics."""
    return fine_tune(model_args, task_args, training_args)


def run(arguments: list[str] | None = None) -> None:
    """Runs the command line; what the user got wrong becomes one line and exit code 1."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(name)s: %(message)s", datefmt="%H:%M:%S"
    )
    if arguments is None:
        start_missing_processes()
    try:
        main(
            *parse_arguments((ModelArguments, TaskArguments, TrainingArguments), arguments, __doc__)
        )
    except (ValueError, OSError, ImportError) as error:
        logger.debug("where it came from", exc_info=True)
        sys.exit(f"error: {' '.join(str(error).split())}")


if __name__ == "__main__":
    run()
