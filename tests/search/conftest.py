"""A small corpus, a tokenizer trained on it, and its rows."""

import random

import datasets
import pytest

from modeling_lvbert.pretraining.packing import pack_corpus
from modeling_lvbert.pretraining.tokenizer_training import train_tokenizer


@pytest.fixture(scope="module")
def corpus():
    rng = random.Random(0)
    words = "sea bird rain machine fire ship garden village story old small new"
    texts = [" ".join(rng.choices(words.split(), k=30)) for _ in range(12)]
    return datasets.Dataset.from_dict({"text": texts})


@pytest.fixture(scope="module")
def tokenizer(corpus):
    return train_tokenizer(corpus, "lvbert", 400, 64)


@pytest.fixture(scope="module")
def rows(corpus, tokenizer):
    return pack_corpus(corpus, tokenizer, 16)
