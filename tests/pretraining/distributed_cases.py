"""Short runs of pre-training for test_distributed.py, as one process or as one of several.

python -m torch.distributed.run --nproc-per-node 2 -m tests.pretraining.distributed_cases FOLDER

runs what FOLDER/cases.json lists, on the rows and the tokenizer in FOLDER/data.
"""

import contextlib
import json
import os
import sys
from pathlib import Path

import datasets
import torch
from safetensors.torch import load_file
from torch.distributed.tensor import DTensor
from transformers import AutoTokenizer, TrainerCallback, TrainingArguments

from modeling_lvbert import ELCBertConfig, ELCBertForMaskedLM, LVBertConfig, LVBertForMaskedLM
from modeling_lvbert.pretraining.checkpoints import find_last_checkpoint
from modeling_lvbert.pretraining.electra import (
    ElectraConfig,
    ElectraForPreTraining,
    derive_generator_config,
)
from modeling_lvbert.pretraining.electra_trainer import ElectraTrainer
from modeling_lvbert.pretraining.masking import MaskingCollator, find_special_ids
from modeling_lvbert.pretraining.rows import TrainingData
from modeling_lvbert.pretraining.stages import Stage
from modeling_lvbert.pretraining.trainer import (
    MaskedLanguageModelingTrainer,
    OptimizationSettings,
)

KINDS = ("lvbert", "elcbert", "electra")
NUM_STEPS = 4
QUIET = {
    "use_cpu": True,
    "disable_tqdm": True,
    "report_to": "none",
    "dataloader_pin_memory": False,
    "log_level": "error",
    "logging_steps": 1,
}


class StopAfter(TrainerCallback):
    """Ends the training after a step as a kill would, before its checkpoint."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise KeyboardInterrupt


def build_model(kind, tokenizer, dropout):
    torch.manual_seed(1)
    fields = {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "hidden_size": 32,
        "intermediate_size": 40,
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
        "max_position_embeddings": 24,
    }
    if kind == "elcbert":
        order = {"layer_order": "dsf sf", "position_bucket_size": 8, "num_attention_heads": 2}
        return ELCBertForMaskedLM(ELCBertConfig(**fields, **order))
    config = LVBertConfig(**fields, layer_order="dsf", embedding_size=16, num_attention_heads=2)
    if kind == "lvbert":
        return LVBertForMaskedLM(config)
    return ElectraForPreTraining(
        ElectraConfig(
            discriminator_fields=config.to_dict(),
            generator_fields=derive_generator_config(config, 0.5).to_dict(),
            special_token_ids=find_special_ids(tokenizer),
        )
    )


def build_trainer(case, data_folder, folder, callbacks=()):
    tokenizer = AutoTokenizer.from_pretrained(data_folder)
    training = datasets.load_from_disk(str(data_folder / "training"))
    validation = datasets.load_from_disk(str(data_folder / "validation"))
    options = {
        "max_steps": NUM_STEPS,
        "learning_rate": 1e-3,
        "save_strategy": "no",
        "per_device_eval_batch_size": 2,
        **QUIET,
        **case.get("options", {}),
    }
    kind = case["kind"]
    is_electra = kind == "electra"
    return (ElectraTrainer if is_electra else MaskedLanguageModelingTrainer)(
        build_model(kind, tokenizer, case.get("dropout", 0.0)),
        TrainingArguments(output_dir=str(folder), **options),
        TrainingData([training], (Stage(1.0, 24, 1.0),)),
        validation.select(range(case.get("validation_rows", 7))),
        MaskingCollator(tokenizer, with_sample_fractions=is_electra),
        callbacks,
        OptimizationSettings(**case.get("optimization", {})),
    )


def start_case(case, data_folder, folder):
    """Trains until the case's `stop_after`, where it breaks off."""
    trainer = build_trainer(case, data_folder, folder, [StopAfter(case["stop_after"])])
    with contextlib.suppress(KeyboardInterrupt):
        trainer.train_from(None)
    trainer.accelerator.wait_for_everyone()


def go_on(case, data_folder, folder):
    """Trains from the last checkpoint or the beginning to the end; returns what is to compare."""
    trainer = build_trainer(case, data_folder, folder)
    trainer.train_from(find_last_checkpoint(str(folder)))
    metrics = trainer.evaluate()
    return {
        "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
        "metrics": {
            name: value
            for name, value in metrics.items()
            if name.startswith("eval_") and not name.endswith(("time", "per_second"))
        },
        "num_processes": trainer.accelerator.num_processes,
        "num_sharded": sum(isinstance(p, DTensor) for p in trainer.model.parameters()),
    }


def run_case(case, data_folder, folder):
    """Trains, evaluates, and leaves the numbers of every start in `case.json` beside the model."""
    if "stop_after" in case:
        start_case(case, data_folder, folder)
    starts = [go_on(case, data_folder, folder) for _ in range(case.get("starts", 1))]
    if int(os.environ.get("RANK", "0")) == 0:
        (folder / "case.json").write_text(json.dumps(starts))
    if torch.distributed.is_initialized():
        torch.distributed.barrier()


def read_case(folder):
    """Returns the numbers of a case's starts, and all weights that it left."""
    files = sorted([*folder.glob("model.safetensors"), *folder.glob("generator/model.safetensors")])
    weights = {
        f"{path.parent.name}.{name}" if path.parent != folder else name: weight
        for path in files
        for name, weight in load_file(path).items()
    }
    return json.loads((folder / "case.json").read_text()), weights


def main(folder):
    for case in json.loads((folder / "cases.json").read_text()):
        run_case(case, folder / "data", folder / case["name"])
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    main(Path(sys.argv[1]))
