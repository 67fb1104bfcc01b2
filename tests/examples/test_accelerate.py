"""The configuration files of examples/accelerate are read by accelerate, and those for CPUs run."""

import dataclasses
import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from accelerate.commands.config.config_args import ClusterConfig, load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from transformers import TrainingArguments
from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig, is_deepspeed_available

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "accelerate"
FILES = sorted(path.name for path in FOLDER.glob("*.yaml"))
KINDS = {
    "cpu.yaml": DistributedType.MULTI_CPU,
    "cpu_fsdp2.yaml": DistributedType.FSDP,
    "deepspeed_zero2.yaml": DistributedType.DEEPSPEED,
    "deepspeed_zero3.yaml": DistributedType.DEEPSPEED,
    "gpu.yaml": DistributedType.MULTI_GPU,
    "gpu_fsdp2.yaml": DistributedType.FSDP,
    "nodes.yaml": DistributedType.MULTI_GPU,
    "nodes_fsdp2.yaml": DistributedType.FSDP,
}


def test_every_file_is_in_the_table():
    table = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\S+\.yaml)`", table, re.MULTILINE) == [
        "cpu.yaml", "cpu_fsdp2.yaml", "gpu.yaml", "gpu_fsdp2.yaml", "deepspeed_zero2.yaml",
        "deepspeed_zero3.yaml", "nodes.yaml", "nodes_fsdp2.yaml",
    ]  # fmt: skip
    assert sorted(KINDS) == FILES


@pytest.mark.parametrize("name", FILES)
def test_accelerate_reads_the_file(name, project_root, monkeypatch):
    monkeypatch.chdir(project_root)
    path = FOLDER / name
    config = load_config_from_file(str(path))
    assert isinstance(config, ClusterConfig)
    assert config.distributed_type == KINDS[name]
    known = {field.name for field in dataclasses.fields(ClusterConfig)}
    assert set(yaml.safe_load(path.read_text(encoding="utf-8"))) <= known
    # Names within the file's parts are options of the launcher.
    options = launch_command_parser().parse_args(["--config_file", str(path), "script.py"])
    parts = {**config.fsdp_config, **config.deepspeed_config}
    assert set(parts) <= set(vars(options))
    launched, _, _ = _validate_launch_command(options)
    assert launched.num_processes == config.num_processes
    assert {key: str(getattr(launched, key)) for key in parts} == {
        key: str(value) for key, value in parts.items()
    }


@pytest.mark.parametrize("name", [name for name in FILES if "fsdp2" in name])
def test_the_sharding_is_version_2(name, monkeypatch):
    fields = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))["fsdp_config"]
    for key, value in fields.items():
        monkeypatch.setenv(key.upper(), str(value))
    plugin = FullyShardedDataParallelPlugin()
    assert plugin.fsdp_version == 2
    assert plugin.reshard_after_forward is True
    assert plugin.state_dict_type.name == "SHARDED_STATE_DICT"


@pytest.mark.parametrize("stage", [2, 3])
def test_deepspeed_takes_the_numbers_of_the_command_line(stage, tmp_path):
    path = FOLDER / f"deepspeed_zero{stage}.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    assert settings["zero_optimization"]["stage"] == stage
    # Without these a model of stage 3 could not be saved whole.
    gathers = settings["zero_optimization"].get("stage3_gather_16bit_weights_on_model_save", False)
    assert gathers == (stage == 3)
    if not is_deepspeed_available():
        pytest.skip("what the file says is checked, but not filled in: needs DeepSpeed")
    config = HfTrainerDeepSpeedConfig(settings)
    args = TrainingArguments(
        output_dir=str(tmp_path), use_cpu=True, per_device_train_batch_size=4,
        gradient_accumulation_steps=2, max_grad_norm=0.5,
    )  # fmt: skip
    config.trainer_config_process(args)
    assert "auto" not in json.dumps({**config.config, "bf16": None})
    assert config.config["gradient_clipping"] == 0.5
    assert config.config["train_batch_size"] == 8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cpu.yaml", "cpu_fsdp2.yaml"])
def test_two_steps_run_on_the_cpu(name, tmp_path, project_root):
    (tmp_path / "corpus.txt").write_text(
        "\n\n".join(f"The old sailor told story number {n} of the sea ." for n in range(60)) + "\n"
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    result = subprocess.run(
        [
            sys.executable, "-m", "accelerate.commands.launch", "--config_file",
            f"examples/accelerate/{name}", f"--main_process_port={port}",
            "examples/run_pretraining.py",
            "--model_size=tiny", "--hidden_size=16", "--num_attention_heads=2",
            "--intermediate_size=32", "--vocab_size=300", f"--train_file={tmp_path / 'corpus.txt'}",
            "--max_seq_length=24", "--per_device_train_batch_size=4", "--max_steps=2",
            "--save_steps=1", "--report_to=none", "--disable_tqdm=true",
            "--dataloader_pin_memory=false", f"--output_dir={tmp_path / 'run'}",
        ],
        cwd=project_root, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-3000:]
    written = {path.name for path in (tmp_path / "run" / "checkpoint-2").iterdir()}
    assert {"rng_state_0.pth", "rng_state_1.pth"} <= written
    assert ("pytorch_model_fsdp_0" in written) == (name == "cpu_fsdp2.yaml")
    assert (tmp_path / "run" / "model.safetensors").is_file()
