"""Opens models with different code in one process, all before any is used.

The argument is a list of {"repo", "version", ...}, the rest being options of `from_pretrained`. The
version is what the code says of itself, in the model's file and in another that it imports; None
stands for the installed package.
"""

import json
import sys

import torch
from transformers import AutoModelForMaskedLM

tasks = json.loads(sys.argv[1])
if any(task["version"] is None for task in tasks):
    import modeling_lvbert
models = []
for task in tasks:
    options = {name: value for name, value in task.items() if name not in ("repo", "version")}
    options["trust_remote_code"] = True
    models.append(AutoModelForMaskedLM.from_pretrained(task["repo"], **options).eval())
told = []
for task, model in zip(tasks, models, strict=True):
    if task["version"] is None:
        assert type(model) is modeling_lvbert.LVBertForMaskedLM, type(model)
    else:
        package = type(model).__module__.rpartition(".")[0]
        sibling = sys.modules[f"{package}.layer_order"]
        assert (type(model).code_version, sibling.CODE_VERSION) == (task["version"],) * 2
    with torch.no_grad():
        told.append(model(input_ids=torch.arange(7, 19)[None])[0].sum().item())
sys.stdout.write(f"\nRESULT {json.dumps(told)}\n")
