"""Small folders of both families, with tokenizers of their own kinds, for tasks on long texts."""

import datasets
import torch

import modeling_lvbert
from modeling_lvbert.pretraining.masking import count_token_ids
from modeling_lvbert.pretraining.tokenizer_training import train_tokenizer

FAMILIES = ("lvbert", "elcbert")
TEXT = [
    "The old harbour of Port Ellen was built in 1842 by Anna Berg, an engineer from Norway.",
    "A storm took the lighthouse away. Nobody in the village knew its keeper, John Reed.",
    "Who built the harbour? When was it built? Where did the engineer come from?",
    "Das Café in Zürich öffnet um neun; möchte jemand Kaffee?",
]
SIZES = {
    "lvbert": ("LVBert", {"layer_order": "ds", "embedding_size": 32, "initializer_range": 0.1}),
    "elcbert": ("ELCBert", {"layer_order": "sf d"}),
}


def make_tokenizer(family, max_length=128):
    documents = datasets.Dataset.from_dict({"text": TEXT})
    return train_tokenizer(documents, family, 400, max_length)


def make_model(folder, family, *, head="ForMaskedLM", max_length=128, **fields):
    """Saves a model with its tokenizer and returns the folder."""
    tokenizer = make_tokenizer(family, max_length)
    name, own = SIZES[family]
    config = getattr(modeling_lvbert, f"{name}Config")(
        vocab_size=count_token_ids(tokenizer),
        hidden_size=32,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=max_length,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=tokenizer.pad_token_id,
        **own,
        **fields,
    )
    torch.manual_seed(0)
    getattr(modeling_lvbert, name + head)(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


QUIET = {
    "use_cpu": True,
    "disable_tqdm": True,
    "report_to": "none",
    "dataloader_pin_memory": False,
    "save_strategy": "no",
    "per_device_train_batch_size": 8,
    "learning_rate": 5e-3,
    "lr_scheduler_type": "constant",
}
