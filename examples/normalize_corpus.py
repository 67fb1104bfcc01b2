"""Joins BabyLM's files into one corpus of plain documents.

    python examples/normalize_corpus.py childes=childes.train.xz simple_wiki=simple_wiki.train \
        --output_file corpus.txt

A paragraph, sentence or utterance stands on each line, an empty line between documents: what
`run_pretraining.py --train_file corpus.txt` reads. Each file's source is named before it, since the
files do not say it; `--help` lists the sources. Needs ftfy: `pip install "lvbert[examples]"`.
"""

import argparse
import logging
import os
import sys
import tempfile
from pathlib import Path

from modeling_lvbert.pretraining.corpus import check_file, open_lines
from modeling_lvbert.pretraining.normalizers import NORMALIZERS, normalize_lines

logger = logging.getLogger("normalize_corpus")


def check(files: list[tuple[str, str]], output_file: Path) -> None:
    """Checks all that can be checked before any work.

    Raises:
        ValueError: An unknown source, a file that is no text, or an output that cannot be written
            or would replace what it is from.
    """
    for source, _ in files:
        normalize_lines(source, [])
    if output_file.exists() and not output_file.is_file():
        raise ValueError(f"output_file {str(output_file)!r}: is no ordinary file")
    if not output_file.absolute().parent.is_dir():
        raise ValueError(f"output_file {str(output_file)!r}: its folder does not exist, make it")
    for source, path in files:
        check_file(source, path)
        if output_file.exists() and output_file.samefile(path):
            raise ValueError(f"output_file {str(output_file)!r} is also the input of {source}")


def main(files: list[tuple[str, str]], output_file: Path) -> None:
    """Writes the normalized files under a temporary name first."""
    check(files, output_file)
    with tempfile.TemporaryDirectory(dir=output_file.absolute().parent, prefix=".") as folder:
        temporary = Path(folder, output_file.name)
        with temporary.open("w", encoding="utf-8") as output:
            for source, path in files:
                num_lines = num_words = 0
                with open_lines(path) as lines:
                    for line in normalize_lines(source, lines):
                        output.write(line + "\n")
                        num_lines += 1
                        num_words += len(line.split())
                # An empty line ends the last document.
                output.write("\n")
                logger.info("%s: %s words on %s lines", path, num_words, num_lines)
        os.replace(temporary, output_file)


def parse_file(text: str) -> tuple[str, str]:
    """Returns the source and the path of SOURCE=FILE."""
    source, _, path = text.partition("=")
    if not path:
        raise ValueError(f"{text!r}: must have the form SOURCE=FILE")
    return source, path


def run(arguments: list[str] | None = None) -> None:
    """Runs the command line; what the user got wrong becomes one line and exit code 1."""
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"sources: {', '.join(NORMALIZERS)}",
    )
    parser.add_argument("files", nargs="+", metavar="SOURCE=FILE")
    parser.add_argument("--output_file", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        main([parse_file(text) for text in options.files], options.output_file)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {' '.join(str(error).split())}")


if __name__ == "__main__":
    run()
