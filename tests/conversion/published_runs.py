"""Small folders as searches and trainings leave them, for the tests of publishing."""

import json
from pathlib import Path

import torch
from transformers import BertTokenizer

from tests.families import VOCAB_SIZE, build

# Shaped like real ones, put together here so that no scanner takes this file for a leak.
TOKENS = {
    "Hugging Face token": "hf_" + "aB3" * 11,
    "API key": "sk-" + "x7" * 16,
    "AWS access key": "AKIA" + "ABCD" * 4,
    "GitHub token": "ghp_" + "a1" * 18,
    "Slack token": "xoxb-" + "12345-" * 3,
    "private key": "-----BEGIN RSA " + "PRIVATE KEY-----",
}
SETTINGS = {
    "num_layers": 5,
    "path_sampling": "uniform",
    "fitness": "accuracy",
    "num_scoring_rows": 8,
    "population_size": 6,
    "num_generations": 3,
    "num_parents": 2,
    "mutation_probability": 0.1,
    "letter_counts": None,
    "max_parameters": None,
    "objectives": ["fitness"],
    "num_random_baselines": 1,
    "rank_check": 0,
    "rank_check_steps": 500,
    "rank_check_seeds": 1,
}
METRICS = {
    "accuracy": 0.25,
    "accuracy_standard_error": 0.01,
    "loss": 3.5,
    "loss_standard_error": 0.02,
}
COSTS = {"parameters": 12345, "flops": 67890}
GAINS = {
    "best_accuracy_minus_this": 0.0625,
    "best_accuracy_minus_this_paired_standard_error": 0.0031,
    "best_loss_minus_this": -0.5,
    "best_loss_minus_this_paired_standard_error": 0.04,
}
RUN = {
    "corpus_bytes": 8440,
    "hidden_size": 32,
    "model_size": "tiny",
    "seed": 42,
    "stages": ["1:24:1"],
    "train_documents": 28,
    "train_file": "/srv/people/ada/corpus.txt",
    "validation_documents": 2,
}
STATE = {
    "global_step": 6,
    "max_steps": 6,
    "train_batch_size": 4,
    "log_history": [{"step": 1, "learning_rate": 0.001}, {"step": 2, "learning_rate": 0.002}],
}


def make_tokenizer():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat", "."]
    words += [f"w{index}" for index in range(VOCAB_SIZE - len(words))]
    return BertTokenizer(vocab={word: index for index, word in enumerate(words)})


def write_json(path: Path, content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")


def save_model(folder: Path, family="LVBert", head="ForMaskedLM", **fields):
    """Saves a small model with its tokenizer, and returns it."""
    model = build(family, head, attention="sdpa", pad_token_id=0, **fields)
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return model


def train(folder: Path, has_scores=True, **changes) -> None:
    """Leaves the records of a pre-training in a folder, and what is not to be published."""
    write_json(folder / "run.json", {**RUN, **changes})
    write_json(folder / "trainer_state.json", STATE)
    write_json(
        folder / "train_results.json",
        {"train_loss": 4.5, "train_runtime": 1.5, "num_input_tokens_seen": 4360},
    )
    if has_scores:
        write_json(
            folder / "eval_results.json",
            {"eval_loss": 3.25, "eval_masked_accuracy": 0.125, "eval_runtime": 1.0, "epoch": 1.0},
        )
    torch.save({"state": {}}, folder / "training_args.bin")


def make_result(order: str, family: str):
    other = {"order": order[::-1], **METRICS, **COSTS, **GAINS}
    return {
        "model_family": family,
        "best_order": order,
        "fitness": METRICS,
        **COSTS,
        "baselines": {"random_1": other, "runner_up": other},
        "evaluated": 18,
        "generations": 3,
        "ended": "all 3 generations are done",
        "settings": SETTINGS,
        "seed": 42,
        "scored_rows": 4,
    }


def make_search(folder: Path, family="LVBert", head="ForMaskedLM", **fields):
    """Makes a search's folder and returns the best order's model."""
    model = save_model(folder / "best", family, head, **fields)
    order, name = model.config.layer_order, model.config.model_type
    write_json(folder / "search_result.json", make_result(order, name))
    entry = {"order": order, "generation": 0, "parents": [], "metrics": METRICS, **COSTS}
    (folder / "history.jsonl").write_text(json.dumps(entry) + "\n")
    train(folder / "supernet", has_scores=False, model_family=name)
    (folder / "figures").mkdir()
    (folder / "figures" / "layer_orders.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    return model
