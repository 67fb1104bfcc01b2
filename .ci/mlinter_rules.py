"""Writes mlinter's own rules with TRF057 off to the file named: `python .ci/mlinter_rules.py FILE`.

TRF057 asks for `@auto_docstring`, which reads transformers' own source tree: on a model outside of
it the decorator prints errors at import and writes "configuration of a None". All other rules stay.
"""

import re
import sys
from pathlib import Path

import mlinter


def main(path: Path) -> None:
    """Writes the rules to `path`, or stops where the installed mlinter has no such rule."""
    rules = Path(mlinter.__file__).with_name("rules.toml").read_text(encoding="utf-8")
    pattern = r"(\[rules\.TRF057\]\n(?:[^\[]*\n)??default_enabled = )true"
    rules, replaced = re.subn(pattern, r"\1false", rules)
    if replaced != 1:
        sys.exit("The installed mlinter has no rule TRF057 that is on: this file is out of date.")
    path.write_text(rules, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
