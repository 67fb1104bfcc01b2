"""Pushes small models of both families, their tokenizers, and both halves of an ELECTRA model."""

import json
import sys
from pathlib import Path

import datasets
import torch
from huggingface_hub import HfApi
from transformers import AutoModelForMaskedLM, AutoModelForPreTraining

from modeling_lvbert.pretraining.electra import ElectraConfig, ElectraForPreTraining
from modeling_lvbert.pretraining.tokenizer_training import train_tokenizer
from tests.families import build, small_config

mode, folder = sys.argv[1], Path(sys.argv[2])
api = HfApi()
told = {}
INPUT_IDS = torch.arange(7, 19)[None]
TEXTS = ["The old sea was full of small ships , and birds .", "A fire in the garden !"] * 9


def record(model, name):
    with torch.no_grad():
        outputs = model.eval()(input_ids=INPUT_IDS)[0]
    kept = {"input_ids": INPUT_IDS, "outputs": outputs, "weights": model.state_dict()}
    torch.save(kept, folder / f"{name}.pt")


for family in ("LVBert", "ELCBert"):
    torch.manual_seed(1)
    name = f"{family.lower()}-{mode}"
    repo = f"owner/{name}"
    corpus = datasets.Dataset.from_dict({"text": TEXTS})
    tokenizer = train_tokenizer(corpus, family.lower(), 400, 64)
    options = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    model = build(family, "ForMaskedLM", attention="sdpa", **options)
    # More than one file of weights, so that an index is pushed too.
    model.push_to_hub(repo, max_shard_size="60KB")
    tokenizer.push_to_hub(repo)
    first = api.model_info(repo).sha
    model.push_to_hub(repo, max_shard_size="60KB")
    tokenizer.push_to_hub(repo)
    again = api.model_info(repo).sha
    api.create_tag(repo, tag="v1")
    record(model, f"{name}-v1")
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(2.0)
    model.push_to_hub(repo, max_shard_size="60KB", commit_message="twice as large")
    record(model, name)
    private = f"owner/{name}-private"
    model.push_to_hub(private, private=True)
    told[family] = {"first": first, "again": again, "name": name}

torch.manual_seed(1)
fields = small_config("LVBert", embedding_size=16).to_dict()
narrow = {**fields, "hidden_size": 16, "num_attention_heads": 2}
electra = ElectraForPreTraining(
    ElectraConfig(discriminator_fields=fields, generator_fields=narrow)
).eval()
for half in ("discriminator", "generator"):
    run = folder / "run" if half == "discriminator" else folder / "run" / "generator"
    electra.export_half(half, run)
    record(getattr(electra, half), f"{half}-{mode}")
    auto = AutoModelForPreTraining if half == "discriminator" else AutoModelForMaskedLM
    auto.from_pretrained(run).push_to_hub(f"owner/{half}-{mode}")
api.create_repo(f"owner/electra-{mode}")
api.upload_folder(repo_id=f"owner/electra-{mode}", folder_path=folder / "run")
sys.stdout.write(f"\nRESULT {json.dumps(told)}\n")
