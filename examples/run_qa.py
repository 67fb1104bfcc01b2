"""Fine-tunes a model on questions whose answers are spans of a text, and scores it as SQuAD does.

    python examples/run_qa.py --model_name_or_path runs/lvbert-tiny \
        --train_file train-v2.0.json --validation_file dev-v2.0.json --version_2_with_negative \
        --do_train --do_eval --learning_rate 1e-4 --num_train_epochs 2 \
        --max_seq_length 128 --doc_stride 32 --output_dir runs/lvbert-tiny-squad

The options are those of transformers' run_qa. Files are in SQuAD's form or flat, as `datasets` has
them. Answers are in eval_predictions.json and predict_predictions.json of the output folder, with
the n best, the odds that there is no answer, and the scores of each question beside them.
"""

from transformers import TrainingArguments

import modeling_lvbert  # noqa: F401  (makes both families known to the Auto classes)
from modeling_lvbert.evaluation.model_loading import ModelArguments
from modeling_lvbert.evaluation.question_answering.fine_tuning import (
    QuestionAnsweringArguments,
    answer_questions,
)
from modeling_lvbert.pretraining.launching import run_script

KINDS = (ModelArguments, QuestionAnsweringArguments, TrainingArguments)


def run(arguments: list[str] | None = None) -> None:
    """Runs the command line; what the user got wrong becomes one line and exit code 1."""
    run_script(answer_questions, KINDS, arguments, __doc__)


if __name__ == "__main__":
    run()
