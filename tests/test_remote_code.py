"""Saved folders open in processes that have never heard of the package."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import BertTokenizer, Trainer, TrainingArguments

from tests.families import FAMILIES, HEADS, VOCAB_SIZE, build, head_inputs, padded_batch

BOTH = pytest.mark.parametrize("family", FAMILIES)
PACKAGE_FILES = {path.name for path in (Path(__file__).parents[1] / "modeling_lvbert").glob("*.py")}

OPEN_ALL = """
import importlib.util, json, sys
assert importlib.util.find_spec("modeling_lvbert") is None, "the package is on the path"
import torch, transformers
folder, inputs_file, outputs_file = sys.argv[1:]
inputs = torch.load(inputs_file)
outputs = {}
for auto, name in json.loads(inputs.pop("auto")).items():
    model, report = getattr(transformers, auto).from_pretrained(
        folder, trust_remote_code=True, output_loading_info=True
    )
    assert type(model).__name__.endswith(name), type(model)
    assert not report["unexpected_keys"] or "ForMaskedLM" not in name, report
    assert all(parameter.isfinite().all() for parameter in model.parameters()), auto
    model = model.eval()
    batch = dict(inputs)
    if name.endswith("ForMultipleChoice"):
        batch = {key: value[:, None] for key, value in batch.items()}
    with torch.no_grad():
        outputs[auto] = model(**batch)[0]
    if name.endswith("ForMaskedLM"):
        assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
torch.save(outputs, outputs_file)
"""


def run_isolated(script, *arguments, cwd):
    """Runs a script in a fresh interpreter that cannot see the checkout."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "PYTHONHOME")
    }
    environment["HF_MODULES_CACHE"] = str(cwd / "modules")
    # An editable install would put the package on the path: its finders and paths are taken off.
    prelude = (
        "import sys\n"
        "sys.meta_path[:] = [f for f in sys.meta_path if '__editable__' not in repr(f)]\n"
        f"sys.path[:] = [p for p in sys.path if p != {str(Path(__file__).parents[1])!r}]\n"
    )
    file = cwd / "isolated.py"
    file.write_text(prelude + script)
    command = [sys.executable, "-W", "ignore", str(file), *map(str, arguments)]
    result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]
    return result


@pytest.fixture
def word_tokenizer():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat", "."]
    words += [f"w{index}" for index in range(VOCAB_SIZE - len(words))]
    return BertTokenizer(vocab={word: index for index, word in enumerate(words)})


@BOTH
def test_one_folder_opens_under_every_auto_class(family, tmp_path):
    folder = tmp_path / "checkpoint"
    model = build(family, "ForMaskedLM", attention="sdpa")
    model.save_pretrained(folder)
    batch = padded_batch([6, 4], 6)
    inputs = {**batch, "auto": json.dumps(HEADS)}
    torch.save(inputs, tmp_path / "inputs.pt")
    run_isolated(OPEN_ALL, folder, tmp_path / "inputs.pt", tmp_path / "outputs.pt", cwd=tmp_path)
    outputs = torch.load(tmp_path / "outputs.pt")
    assert set(outputs) == set(HEADS)
    with torch.no_grad():
        torch.testing.assert_close(outputs["AutoModelForMaskedLM"], model(**batch).logits)
        torch.testing.assert_close(outputs["AutoModel"], model.base_model(**batch)[0])


@BOTH
@pytest.mark.parametrize("head", HEADS.values())
def test_every_head_saves_the_code_it_needs_and_no_more(family, head, tmp_path):
    build(family, head).save_pretrained(tmp_path)
    shipped = {path.name for path in tmp_path.glob("*.py")}
    other = {"LVBert": "elcbert", "ELCBert": "_lvbert"}[family]
    assert shipped <= PACKAGE_FILES
    assert not [name for name in shipped if other in name]
    assert "layer_order.py" in shipped and "modeling_dynamic_convolution.py" in shipped
    auto_map = json.loads((tmp_path / "config.json").read_text())["auto_map"]
    assert len(auto_map) == 1 + len(HEADS)
    assert not [value for value in auto_map.values() if "--" in value]


RESAVE = """
import sys
from transformers import AutoModelForMaskedLM
model = AutoModelForMaskedLM.from_pretrained(sys.argv[1], trust_remote_code=True)
model.save_pretrained(sys.argv[2])
"""


@BOTH
def test_saving_again_what_was_opened_by_remote_code(family, tmp_path):
    model = build(family, "ForMaskedLM", attention="sdpa")
    model.save_pretrained(tmp_path / "first")
    run_isolated(RESAVE, tmp_path / "first", tmp_path / "second", cwd=tmp_path)
    shutil.rmtree(tmp_path / "first")
    batch = padded_batch([6, 4], 6)
    torch.save(
        {**batch, "auto": json.dumps({"AutoModelForMaskedLM": "ForMaskedLM"})}, tmp_path / "i"
    )
    run_isolated(OPEN_ALL, tmp_path / "second", tmp_path / "i", tmp_path / "o", cwd=tmp_path)
    with torch.no_grad():
        expected = model(**batch).logits
    torch.testing.assert_close(torch.load(tmp_path / "o")["AutoModelForMaskedLM"], expected)


TRAIN = """
import sys
import torch
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments
folder, output = sys.argv[1:]
rows = [{"input_ids": torch.arange(5, 11), "labels": i % 2} for i in range(4)]
model = AutoModelForSequenceClassification.from_pretrained(folder, trust_remote_code=True)
arguments = TrainingArguments(output, max_steps=2, use_cpu=True, report_to=[], disable_tqdm=True)
trainer = Trainer(model, arguments, train_dataset=rows)
trainer.train()
trainer.save_model(output)
torch.save(model.eval()(input_ids=torch.arange(5, 11)[None]).logits, output + "/logits.pt")
"""

CHECK_LOGITS = """
import sys
import torch
from transformers import AutoModelForSequenceClassification
model = AutoModelForSequenceClassification.from_pretrained(sys.argv[1], trust_remote_code=True)
logits = model.eval()(input_ids=torch.arange(5, 11)[None]).logits
torch.testing.assert_close(logits, torch.load(sys.argv[1] + "/logits.pt"))
"""


@BOTH
def test_a_fine_tuned_folder_moves_with_its_code(family, tmp_path):
    build(family).save_pretrained(tmp_path / "pretrained")
    run_isolated(TRAIN, tmp_path / "pretrained", tmp_path / "tuned", cwd=tmp_path)
    shutil.rmtree(tmp_path / "pretrained")
    (tmp_path / "tuned").rename(tmp_path / "moved")
    run_isolated(CHECK_LOGITS, tmp_path / "moved", cwd=tmp_path)
    checkpoints = list((tmp_path / "moved").glob("checkpoint-*"))
    assert all((path / "modeling_dynamic_convolution.py").exists() for path in checkpoints)


PIPELINES = """
import sys
from transformers import pipeline
folder = sys.argv[1]
fill = pipeline("fill-mask", model=folder, trust_remote_code=True)
assert len(fill("the cat [MASK] on the mat .", top_k=3)) == 3
for task in ("text-classification", "token-classification", "feature-extraction"):
    assert pipeline(task, model=folder, trust_remote_code=True)("the cat sat .")
"""


@BOTH
def test_pipelines_run_from_the_folder(family, tmp_path, word_tokenizer):
    build(family, "ForMaskedLM", pad_token_id=0).save_pretrained(tmp_path / "checkpoint")
    word_tokenizer.save_pretrained(tmp_path / "checkpoint")
    run_isolated(PIPELINES, tmp_path / "checkpoint", cwd=tmp_path)


@BOTH
def test_folders_of_both_families_open_side_by_side(family, tmp_path):
    script = """
import sys
import torch
from transformers import AutoModel
for folder in sys.argv[1:]:
    model = AutoModel.from_pretrained(folder, trust_remote_code=True)
    assert model(input_ids=torch.arange(5, 9)[None])[0].isfinite().all()
"""
    folders = []
    for name in (family, *FAMILIES):
        folders.append(tmp_path / name)
        build(name).save_pretrained(folders[-1])
    run_isolated(script, *folders, cwd=tmp_path)


@BOTH
def test_accumulation_does_not_change_the_update(family, tmp_path):
    rows = []
    for index in range(8):
        row = head_inputs("ForMaskedLM", batch=1, length=12)
        row = {name: value[0].clone() for name, value in row.items()}
        row["input_ids"] = (row["input_ids"] + index) % 90 + 5
        row["labels"] = row["input_ids"].masked_fill(torch.arange(12) > index, -100)
        rows.append(row)
    states = []
    for batch_size, accumulation in ((8, 1), (2, 4)):
        torch.manual_seed(0)
        model = build(
            family, "ForMaskedLM", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        )
        trainer = Trainer(
            model,
            TrainingArguments(
                str(tmp_path / str(batch_size)),
                per_device_train_batch_size=batch_size,
                gradient_accumulation_steps=accumulation,
                max_steps=1,
                learning_rate=1.0,
                lr_scheduler_type="constant",
                optim="sgd",
                max_grad_norm=0.0,
                use_cpu=True,
                report_to=[],
                save_strategy="no",
                disable_tqdm=True,
            ),
            train_dataset=rows,
        )
        trainer.train()
        states.append(model.state_dict())
    for name, value in states[0].items():
        torch.testing.assert_close(states[1][name], value, atol=1e-5, rtol=1e-4, msg=name)
