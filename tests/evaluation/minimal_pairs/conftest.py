"""Tokenizers and a model whose sentences several files score."""

import pytest

from tests.evaluation.minimal_pairs.language_models import (
    make_byte_tokenizer,
    make_masked_model,
    make_tokenizer,
)


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer()


@pytest.fixture(scope="module")
def byte_tokenizer():
    return make_byte_tokenizer()


@pytest.fixture(scope="module")
def bert():
    return make_masked_model("Bert")
