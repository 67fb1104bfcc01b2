"""Small models of both families for tests that hold for each, with the heads by Auto class."""

import torch

import modeling_lvbert
from modeling_lvbert import ELCBertConfig, LVBertConfig

VOCAB_SIZE = 99
HEADS = {
    "AutoModel": "Model",
    "AutoModelForPreTraining": "ForPreTraining",
    "AutoModelForMaskedLM": "ForMaskedLM",
    "AutoModelForSequenceClassification": "ForSequenceClassification",
    "AutoModelForTokenClassification": "ForTokenClassification",
    "AutoModelForQuestionAnswering": "ForQuestionAnswering",
    "AutoModelForMultipleChoice": "ForMultipleChoice",
}
FAMILIES = ("LVBert", "ELCBert")
SIZES = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
}


def small_config(family, **fields):
    """Returns a configuration with every letter, several words and unequal sizes."""
    if family == "LVBert":
        return LVBertConfig(**{**SIZES, "layer_order": "dsfsd", "embedding_size": 24, **fields})
    own = {"layer_order": "sf dsf d", "position_bucket_size": 8}
    return ELCBertConfig(**{**SIZES, **own, **fields})


def model_class(family, head="Model"):
    return getattr(modeling_lvbert, family + head)


def build(family, head="Model", attention="eager", **fields):
    """Returns a small model in evaluation mode, its weights large enough for faults to show."""
    config = small_config(family, **fields)
    config._attn_implementation = attention
    model = model_class(family, head)(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1 and "embeddings" not in name:
                parameter.mul_(3.0)
    return model.eval()


def token_ids(batch, length, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(5, VOCAB_SIZE, (batch, length), generator=generator)


def padded_batch(lengths, width, seed=0):
    """Returns ids and attention mask of rows of these lengths padded to `width`."""
    ids = token_ids(len(lengths), width, seed)
    mask = (torch.arange(width) < torch.tensor(lengths)[:, None]).long()
    return {"input_ids": ids.masked_fill(mask == 0, 0), "attention_mask": mask}


def head_inputs(head, batch=3, length=7):
    """Returns inputs with labels for a head, -100 among the token labels."""
    inputs = padded_batch([length - index for index in range(batch)], length)
    ignored = inputs["attention_mask"] == 0
    if head in ("ForMaskedLM", "ForPreTraining", "ForTokenClassification"):
        labels = inputs["input_ids"].clone() if head == "ForMaskedLM" else inputs["input_ids"] % 2
        inputs["labels"] = labels.masked_fill(ignored, -100)
    elif head == "ForSequenceClassification":
        inputs["labels"] = torch.arange(batch) % 2
    elif head == "ForQuestionAnswering":
        inputs["start_positions"] = torch.ones(batch, dtype=torch.long)
        inputs["end_positions"] = torch.full((batch,), 2)
    elif head == "ForMultipleChoice":
        inputs = {name: value[:, None].repeat(1, 2, 1) for name, value in inputs.items()}
        inputs["input_ids"][:, 1] = inputs["input_ids"][:, 1].flip(-1)
        inputs["labels"] = torch.arange(batch) % 2
    return inputs
