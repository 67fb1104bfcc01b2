"""Trains a tokenizer of a family's kind on a corpus and prints its F95.

    python examples/train_tokenizer.py --model_family elcbert --vocab_size 6144 \
        --output_dir runs/elcbert-tokenizer

trains on the text that comes with Python; `--train_file` or `--dataset_name` names another corpus.
`run_pretraining.py --tokenizer_name runs/elcbert-tokenizer` takes the result. F95 is how often the
rarest token occurs that is not among the rarest 5%: ELC-BERT's authors hold that about 100 is good.
"""

import dataclasses
import logging
import sys

from modeling_lvbert.pretraining.arguments import parse_arguments
from modeling_lvbert.pretraining.corpus import load_training_documents
from modeling_lvbert.pretraining.tokenizer_training import (
    check_model_family,
    check_output_dir,
    check_vocab_size,
    choose_vocab_size,
    compute_f95,
    save_tokenizer,
    train_tokenizer,
)

logger = logging.getLogger("train_tokenizer")


def _option(help_text: str, default: str | int | None = None) -> dataclasses.Field:
    return dataclasses.field(default=default, metadata={"help": help_text})


@dataclasses.dataclass
class TokenizerArguments:
    """Which tokenizer to train, on what."""

    output_dir: str = dataclasses.field(metadata={"help": "New folder for the tokenizer."})
    model_family: str = _option("lvbert: BERT's kind; elcbert: the kind of ELC-BERT.", "lvbert")
    train_file: str | None = _option("Text, .csv, .json or .jsonl; also .gz, .xz or .bz2.")
    dataset_name: str | None = _option('Data set of the Hub; its split "train" is taken.')
    dataset_config_name: str | None = _option("Its configuration.")
    text_column_name: str | None = _option("Column of the text, where there are several.")
    vocab_size: int | None = _option("Most tokens there may be; absent: by the corpus's size.")
    model_max_length: int = _option("Longest input of the model, tokens.", 512)


def main(args: TokenizerArguments) -> int:
    """Trains and saves the tokenizer; returns its F95."""
    check_model_family(args.model_family)
    if args.vocab_size is not None:
        check_vocab_size(args.vocab_size)
    check_output_dir(args.output_dir)
    documents = load_training_documents(
        args.train_file, args.dataset_name, args.dataset_config_name, args.text_column_name
    )
    tokenizer = train_tokenizer(
        documents,
        args.model_family,
        args.vocab_size or choose_vocab_size(documents),
        args.model_max_length,
    )
    f95 = compute_f95(documents, tokenizer)
    save_tokenizer(tokenizer, args.output_dir)
    logger.info("%s tokens, F95 is %s, saved in %s", len(tokenizer), f95, args.output_dir)
    return f95


def run(arguments: list[str] | None = None) -> None:
    """Runs the command line; what the user got wrong becomes one line and exit code 1."""
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    try:
        main(parse_arguments((TokenizerArguments,), arguments, __doc__)[0])
    except (ValueError, OSError) as error:
        logger.debug("where it came from", exc_info=True)
        sys.exit(f"error: {' '.join(str(error).split())}")


if __name__ == "__main__":
    run()
