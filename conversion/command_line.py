# Copyright 2026 The lvbert authors.
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
"""What the converters' command lines share: arguments from flags or a file, errors in one place."""

import dataclasses
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

import yaml
from huggingface_hub.errors import StrictDataclassError
from transformers import HfArgumentParser
from transformers.utils.logging import disable_progress_bar

Arguments = TypeVar("Arguments")

CONFIG_SUFFIXES = (".json", ".yaml", ".yml")


def parse_arguments(
    arguments_class: type[Arguments], module: str, description: str, argv: Sequence[str]
) -> Arguments:
    """Returns the arguments from flags, or from the one JSON or YAML file that `argv` names.

    Raises:
        ValueError: The file cannot be read, lacks an argument or has an unknown one.
    """
    if len(argv) == 1 and argv[0].lower().endswith(CONFIG_SUFFIXES):
        return arguments_class(**_read_arguments(arguments_class, Path(argv[0])))
    parser = HfArgumentParser(
        cast(Any, arguments_class),
        prog=f"python -m {module}",
        description=description,
        allow_abbrev=False,
    )
    (arguments,) = parser.parse_args_into_dataclasses(args=list(argv), look_for_args_file=False)
    return arguments


def _read_arguments(arguments_class: Any, path: Path) -> dict[str, Any]:
    text = path.read_bytes()
    try:
        values = json.loads(text) if path.suffix.lower() == ".json" else yaml.safe_load(text)
    # json.JSONDecodeError and UnicodeDecodeError are ValueErrors.
    except (ValueError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path}: expected names and values, got {type(values).__name__}")
    fields = dataclasses.fields(arguments_class)
    known = {field.name for field in fields}
    required = {field.name for field in fields if field.default is dataclasses.MISSING}
    if unknown := sorted(map(str, set(values) - known)):
        raise ValueError(f"{path}: unknown arguments {unknown}; known: {sorted(known)}")
    if missing := sorted(required - set(values)):
        raise ValueError(f"{path}: missing arguments {missing}")
    for field in fields:
        allowed = get_args(field.type) or (field.type,)
        # The values of a Literal are checked by name, by the arguments themselves.
        kinds = tuple(kind if isinstance(kind, type) else type(kind) for kind in allowed)
        if field.name in values and not isinstance(values[field.name], kinds):
            raise ValueError(
                f"{path}: {field.name} must be {' or '.join(kind.__name__ for kind in kinds)}, "
                f"got {values[field.name]!r}"
            )
    return values


def run(main: Callable[[Sequence[str]], None]) -> int:
    """Runs `main` on the command line and returns the exit code: 1 with a message on user errors.

    Results go to standard output, warnings to standard error. Under a launcher of several processes
    only the first one works: a conversion is one process's job.
    """
    if os.environ.get("RANK", "0") != "0":
        return 0
    disable_progress_bar()
    with _logging_to_the_terminal():
        try:
            main(sys.argv[1:])
        except (ValueError, OSError, ImportError, StrictDataclassError) as error:
            sys.stderr.write(f"error: {error}\n")
            return 1
    return 0


@contextmanager
def _logging_to_the_terminal() -> Iterator[None]:
    results, warnings = logging.StreamHandler(sys.stdout), logging.StreamHandler(sys.stderr)
    results.addFilter(lambda record: record.levelno < logging.WARNING)
    warnings.setLevel(logging.WARNING)
    warnings.setFormatter(logging.Formatter("warning: %(message)s"))
    logger = logging.getLogger("conversion")
    logger.setLevel(logging.INFO)
    logger.addHandler(results)
    logger.addHandler(warnings)
    try:
        yield
    finally:
        logger.removeHandler(results)
        logger.removeHandler(warnings)
