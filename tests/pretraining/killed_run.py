"""Runs a script that kills itself at an instant; for test_kill.py.

python -m tests.pretraining.killed_run PLACE COUNT SCRIPT ARGUMENTS

ends by SIGKILL where the COUNT-th call of a PLACE begins or ends.
"""

import functools
import io
import os
import runpy
import signal
import sys
from pathlib import Path

import torch
from transformers import Trainer

from modeling_lvbert.pretraining import resumable_trainer

BEGIN, END = "begin", "end"
PLACES = {
    "step": (Trainer, "training_step", END),
    "epoch": (Trainer, "_run_epoch", BEGIN),
    "weights saved": (Trainer, "_save_optimizer_and_scheduler", BEGIN),
    "before the rename": (resumable_trainer, "publish_checkpoint", BEGIN),
    "after the rename": (resumable_trainer, "publish_checkpoint", END),
    "model written": (resumable_trainer, "publish_files", BEGIN),
    "model saved": (Trainer, "save_state", BEGIN),
}


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at(owner, name, when, count):
    """Makes the call of that number the last thing that the process does."""
    function = getattr(owner, name)
    calls = []

    @functools.wraps(function)
    def counted(*args, **kwargs):
        calls.append(name)
        if len(calls) == count and when == BEGIN:
            die()
        result = function(*args, **kwargs)
        if len(calls) == count:
            die()
        return result

    setattr(owner, name, counted)


def kill_within_a_file(count):
    """Leaves half of a file that `torch.save` writes."""
    save = torch.save
    calls = []

    def torn(thing, file, *args, **kwargs):
        calls.append(file)
        if len(calls) < count:
            save(thing, file, *args, **kwargs)
            return
        whole = io.BytesIO()
        save(thing, whole, *args, **kwargs)
        Path(file).write_bytes(whole.getvalue()[: whole.tell() // 2])
        die()

    torch.save = torn


def kill_between_files():
    """Lets one file of the model get to its place, before the others and the weights."""
    replace = Path.replace

    def once(path, target):
        replace(path, target)
        if ".unfinished" in path.parts:
            die()

    Path.replace = once


def main(place, count, script, *arguments):
    if place == "half a file":
        kill_within_a_file(count)
    elif place == "one file moved":
        kill_between_files()
    else:
        kill_at(*PLACES[place], count)
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
