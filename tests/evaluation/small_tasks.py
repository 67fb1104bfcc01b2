"""A small library model, small tasks, and a fine-tuning of them: nothing here needs our models."""

import json

import torch
from transformers import BertTokenizer, ElectraConfig, ElectraForMaskedLM, TrainingArguments

from modeling_lvbert.evaluation.model_loading import ModelArguments
from modeling_lvbert.evaluation.sequence_classification.fine_tuning import fine_tune
from modeling_lvbert.evaluation.sequence_classification.options import FineTuningArguments
from modeling_lvbert.evaluation.sequence_classification.task_data import TaskArguments

WORDS = "good bad the boat bird sea old red".split()  # noqa: SIM905
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


def save_tokenizer(folder):
    vocabulary = {token: number for number, token in enumerate(TOKENS)}
    BertTokenizer(vocab=vocabulary, model_max_length=32).save_pretrained(folder)


def save_model(folder, **fields):
    """Saves a model with its tokenizer and returns the folder."""
    save_tokenizer(folder)
    torch.manual_seed(0)
    settings = {
        "vocab_size": len(TOKENS),
        "embedding_size": 16,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 32,
        "hidden_dropout_prob": 0.0,
        **fields,
    }
    ElectraForMaskedLM(ElectraConfig(**settings)).save_pretrained(folder)
    return str(folder)


def write(folder, name, rows):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / name)


def sentences(count, labels=("negative", "positive")):
    rows = []
    for number in range(count):
        good = number % 2
        text = f"the {WORDS[good == 0]} {WORDS[2 + number % 6]}"
        rows.append({"sentence": text, "label": labels[good]})
    return rows


def pairs(count, labels=(0, 1)):
    """Pairs of which those with the word "good" in either text are of the second class."""
    rows = []
    for number in range(count):
        words = [f"the {WORDS[2 + number % 6]}", f"the {WORDS[2 + number % 5]}"]
        words[number % 4 // 2] += " good" if number % 2 else " bad"
        rows.append({"sentence1": words[0], "sentence2": words[1], "label": labels[number % 2]})
    return rows


def training_arguments(folder, **training):
    settings = {
        "use_cpu": True,
        "disable_tqdm": True,
        "report_to": "none",
        "dataloader_pin_memory": False,
        "save_strategy": "no",
        "learning_rate": 1e-2,
        "per_device_train_batch_size": 8,
        **training,
    }
    return TrainingArguments(output_dir=str(folder), **settings)


def tune(model_dir, folder, *, training=(), model=(), method=(), **task):
    """Fine-tunes on the CPU; `task` are fields of `TaskArguments`."""
    return fine_tune(
        ModelArguments(str(model_dir), **dict(model)),
        TaskArguments(**task),
        training_arguments(folder, **dict(training)),
        FineTuningArguments(**dict(method)),
    )


def read_json(path):
    return json.loads(path.read_text(encoding="utf-8"))
