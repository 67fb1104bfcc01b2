r"""Shows what each layer of an LV-BERT or ELC-BERT is worth, and what ELC-BERT's words read.

    python examples/analyze_layers.py --model_name_or_path runs/elcbert-tiny \
        --text_file held_out.txt --output_dir runs/elcbert-tiny-layers

leaves out each layer in turn and exchanges each two neighbours, without training, and writes how
the loss and the accuracy on masked tokens of the text change: `layer_importance.json` and
`layer_importance.png`; for ELC-BERT `layer_weights.png` is the paper's figure of layer weights.
"""

import sys

from modeling_lvbert.pretraining.launching import run_script
from modeling_lvbert.search.layer_analysis import (
    AnalysisArguments,
    analyze_layers,
    format_importance,
)


def main(arguments: AnalysisArguments) -> None:
    """Measures, writes and prints."""
    result = analyze_layers(arguments)
    sys.stdout.write(f"\n{format_importance(result)}\n")


def run(arguments: list[str] | None = None) -> None:
    """Runs the command line; what the user got wrong becomes one line and exit code 1."""
    run_script(main, (AnalysisArguments,), arguments, __doc__)


if __name__ == "__main__":
    run()
