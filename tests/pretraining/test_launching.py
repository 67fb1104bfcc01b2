import os
from dataclasses import dataclass

import pytest

from modeling_lvbert.pretraining import launching

FORMS = (
    "python -m accelerate.commands.launch --cpu --num_processes=2 script.py --num_processes 7",
    "/env/bin/python /env/bin/accelerate launch --cpu --num_processes 2 script.py --x launch",
    "/env/bin/python /env/bin/accelerate-launch --num-processes 2 --cpu script.py",
)


@pytest.mark.parametrize("command", FORMS)
def test_the_number_of_processes_is_read_off_the_command(command):
    assert launching.count_asked_processes(command.split()) == 2


def test_the_number_of_processes_may_stand_in_a_file(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_CPU\nnum_processes: 3\n"
        "mixed_precision: 'no'\nuse_cpu: true\nmachine_rank: 0\nnum_machines: 1\n"
    )
    command = ["accelerate", "launch", "--config_file", str(tmp_path / "a.yaml"), "script.py"]
    assert launching.count_asked_processes(command) == 3


class Parent:
    def __init__(self, command):
        self.command = command

    def parent(self):
        return self

    def cmdline(self):
        return self.command.split()


SEVERAL = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511", "ACCELERATE_USE_CPU": "True"}


def start(monkeypatch, environment, command):
    """The command that takes the process's place, None if it goes on."""
    started = []
    monkeypatch.setattr(os, "environ", environment)
    monkeypatch.setattr(os, "execv", lambda path, words: started.append(words))
    monkeypatch.setattr(launching.psutil, "Process", lambda: Parent(command))
    monkeypatch.setattr(launching.sys, "argv", ["script.py", "--seed=1"])
    launching.start_missing_processes()
    return started[0] if started else None


def test_missing_processes_are_started_with_the_same_options(monkeypatch):
    words = start(monkeypatch, SEVERAL, FORMS[0])
    assert words[1:] == [
        "-m",
        "torch.distributed.run",
        "--nproc_per_node=2",
        "--master_addr=127.0.0.1",
        "--master_port=29511",
        "script.py",
        "--seed=1",
    ]


@pytest.mark.parametrize(
    ("environment", "command"),
    [
        ({}, FORMS[0]),
        ({**SEVERAL, "WORLD_SIZE": "2"}, FORMS[0]),
        ({**SEVERAL, "OMPI_COMM_WORLD_SIZE": "2"}, FORMS[0]),
        ({**SEVERAL, "ACCELERATE_USE_CPU": "False"}, FORMS[0]),
        (SEVERAL, "bash -c whatever"),
        (SEVERAL, "accelerate launch --cpu script.py"),
    ],
)
def test_nothing_is_started_otherwise(monkeypatch, environment, command):
    assert start(monkeypatch, environment, command) is None


@pytest.mark.parametrize(
    ("size", "has_gpu", "expected"), [("2", False, "true"), ("2", True, None), ("1", False, None)]
)
def test_processes_without_gpus_become_one_group(monkeypatch, size, has_gpu, expected):
    environment = {"WORLD_SIZE": size}
    monkeypatch.setattr(launching.torch.accelerator, "is_available", lambda: has_gpu)
    assert start(monkeypatch, environment, "torchrun script.py") is None
    assert environment.get("ACCELERATE_USE_CPU") == expected


@dataclass
class Options:
    """Options of a script."""

    number: int = 0


@pytest.mark.parametrize("goes_on", [True, False])
def test_only_scripts_that_go_on_promise_it_when_they_are_interrupted(goes_on):
    def main(options):
        assert options.number == 3
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as ended:
        launching.run_script(main, (Options,), ["--number=3"], None, goes_on=goes_on)
    message = str(ended.value.code)
    assert message.startswith("interrupted")
    assert ("goes on" in message) == goes_on
