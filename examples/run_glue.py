"""Fine-tunes a model on a task of GLUE or on a file of sentences or pairs of sentences.

    python examples/run_glue.py --model_name_or_path runs/lvbert-tiny --task_name cola \
        --train_file CoLA/train.tsv --validation_file CoLA/dev.tsv --do_train --do_eval \
        --recipe lvbert-small --num_trials 5 --output_dir runs/lvbert-tiny-cola

The options are those of transformers' run_glue and what the papers need beyond them; files may be
GLUE's own .tsv, .csv, .json or .jsonl, and without a file the task comes from the Hub. An option
that is given overrides the recipe's. Best checkpoints are chosen by the task's own metric. With
do_predict there are files for GLUE's test server beside the predictions. Scores need no network.
"""

from transformers import TrainingArguments

import modeling_lvbert  # noqa: F401  (makes both families known to the Auto classes)
from modeling_lvbert.evaluation.model_loading import ModelArguments
from modeling_lvbert.evaluation.sequence_classification.fine_tuning import fine_tune
from modeling_lvbert.evaluation.sequence_classification.options import (
    FineTuningArguments,
    list_defaults,
)
from modeling_lvbert.evaluation.sequence_classification.task_data import TaskArguments
from modeling_lvbert.pretraining.launching import run_script


def run(arguments: list[str] | None = None) -> None:
    """Runs the command line; what the user got wrong becomes one line and exit code 1."""
    kinds = (ModelArguments, TaskArguments, TrainingArguments, FineTuningArguments)
    run_script(fine_tune, kinds, arguments, __doc__, list_defaults)


if __name__ == "__main__":
    run()
