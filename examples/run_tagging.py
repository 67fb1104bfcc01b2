"""Fine-tunes a model to tag words (entities, chunks, parts of speech) and scores it by seqeval.

    python examples/run_tagging.py --model_name_or_path runs/lvbert-tiny \
        --train_file train.conll --validation_file dev.conll --test_file test.conll \
        --do_train --do_eval --do_predict --learning_rate 3e-4 --num_train_epochs 3 \
        --output_dir runs/lvbert-tiny-tagging

The options are those of transformers' run_ner. Files are in CoNLL's form (a word a line, its tag in
the last column or in that of --label_column) or tables with lists of words and tags. The model's
tags are in predictions.txt of the output folder, a line a word.
"""

from transformers import TrainingArguments

import modeling_lvbert  # noqa: F401  (makes both families known to the Auto classes)
from modeling_lvbert.evaluation.model_loading import ModelArguments
from modeling_lvbert.evaluation.tagging.fine_tuning import TaggingArguments, tag_words
from modeling_lvbert.pretraining.launching import run_script

KINDS = (ModelArguments, TaggingArguments, TrainingArguments)


def run(arguments: list[str] | None = None) -> None:
    """Runs the command line; what the user got wrong becomes one line and exit code 1."""
    run_script(tag_words, KINDS, arguments, __doc__)


if __name__ == "__main__":
    run()
