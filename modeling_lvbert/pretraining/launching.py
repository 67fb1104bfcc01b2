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
"""Several processes on a CPU under `accelerate launch --cpu --num_processes N`.

Where there is no MPI, accelerate (checked up to 1.15) starts one process for that command, and says
nothing. `start_missing_processes` starts the N that were asked for, by torch's own launcher.
"""

import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import psutil  # type: ignore[import-untyped]
import torch
from accelerate.commands.config.config_args import (
    load_config_from_file,
)
from accelerate.commands.launch import (
    launch_command_parser,
)

from .arguments import list_recipe_defaults, parse_arguments

logger = logging.getLogger(__name__)


def run_script(
    main: Callable[..., Any],
    kinds: Sequence[Any],
    arguments: Sequence[str] | None,
    description: str | None,
    list_defaults: Callable[[Sequence[str]], dict[str, Any]] = list_recipe_defaults,
    *,
    goes_on: bool = False,
) -> None:
    """Runs a script's command line; what the user got wrong becomes one line and exit code 1.

    Args:
        main: Called with the parsed dataclasses.
        kinds: The dataclasses.
        arguments: The command line; the process's own if None.
        description: Text of `--help`.
        list_defaults: Given the command line, returns defaults that depend on it, by option.
        goes_on: Whether the same command, once interrupted, goes on from what it has saved.
    """
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(name)s: %(message)s", datefmt="%H:%M:%S"
    )
    if arguments is None:
        start_missing_processes()
    try:
        main(*parse_arguments(kinds, arguments, description, list_defaults))
    except (ValueError, OSError, ImportError) as error:
        logger.debug("where it came from", exc_info=True)
        sys.exit(f"error: {' '.join(str(error).split())}")
    except KeyboardInterrupt:
        hint = ": the same command goes on from where it was saved" if goes_on else ""
        sys.exit(f"interrupted{hint}")


# Set by whatever launcher has started this process as one of several.
_RANK_VARIABLES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")


def count_asked_processes(command: list[str]) -> int:
    """Returns the number of processes that a command line of `accelerate launch` asks for.

    Args:
        command: All words of the command, the interpreter's and the script's included.
    """
    after_launch = command[_find_launch(command) + 1 :]
    options = launch_command_parser().parse_args(after_launch)
    if options.num_processes is None and options.config_file is not None:
        return load_config_from_file(options.config_file).num_processes
    return options.num_processes or 1


def _find_launch(command: list[str]) -> int:
    """Returns the place of the word that starts accelerate's launcher, -1 if there is none."""
    words = [os.path.basename(word) for word in command]
    for place, word in enumerate(words):
        if word in ("accelerate-launch", "accelerate.commands.launch", "launch.py"):
            return place
        if word == "launch" and place and words[place - 1].startswith("accelerate"):
            return place
    return -1


def _join_cpu_processes() -> None:
    """Tells accelerate that processes without a GPU compute on the CPU.

    It does not see that by itself: each would be a run of its own, all in one folder. DeepSpeed
    makes groups by itself.
    """
    is_one_of_several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    has_deepspeed = os.environ.get("ACCELERATE_USE_DEEPSPEED", "").lower() == "true"
    if is_one_of_several and not has_deepspeed and not torch.accelerator.is_available():
        os.environ["ACCELERATE_USE_CPU"] = "true"


def start_missing_processes() -> None:
    """Replaces this process by all that `accelerate launch --cpu` should have started.

    Does nothing in any other case: without accelerate, as one process of several, or where one
    is all that it was asked for. Those of several that have no GPU are made one group.
    """
    _join_cpu_processes()
    # With several processes to start, accelerate says where they meet.
    asked_for_several = "MASTER_PORT" in os.environ
    on_cpu = os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true")
    is_one_of_several = any(name in os.environ for name in _RANK_VARIABLES)
    if not asked_for_several or not on_cpu or is_one_of_several:
        return
    parent = psutil.Process().parent()
    command = parent.cmdline() if parent is not None else []
    if _find_launch(command) < 0 or (number := count_asked_processes(command)) < 2:
        return
    logger.info("accelerate has started one process of %s: starting all", number)
    address, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    launcher = ["-m", "torch.distributed.run", f"--nproc_per_node={number}"]
    launcher += [f"--master_addr={address}", f"--master_port={port}"]
    os.execv(sys.executable, [sys.executable, *launcher, *sys.argv])
