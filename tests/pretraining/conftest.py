"""A small corpus and both kinds of tokenizer, trained on it once."""

import datasets
import pytest

from modeling_lvbert.pretraining.tokenizer_training import train_tokenizer

SENTENCES = (
    "The old sailor told the children a story about the sea .",
    "A small bird sang in the garden while the rain was falling .",
    "Nobody in the village had ever seen such an extraordinary machine !",
    "When the evening came , the travellers lit a fire and waited .",
    "He counted 12 ships , 7 boats and 345 barrels in the harbour .",
)


@pytest.fixture(scope="session")
def documents() -> datasets.Dataset:
    """Forty documents of three lines each, no two the same."""
    texts = []
    for number in range(40):
        lines = [SENTENCES[(number + offset) % len(SENTENCES)] for offset in range(3)]
        texts.append("\n".join([*lines[:2], f"Chapter {number} : {lines[2]}"]))
    return datasets.Dataset.from_dict({"text": texts})


@pytest.fixture(scope="session", params=["lvbert", "elcbert"])
def tokenizer(request, documents):
    """A tokenizer of each family's kind."""
    return train_tokenizer(documents, request.param, 400, 64)
