"""A small library model, saved once."""

import pytest

from tests.evaluation.small_tasks import save_model, sentences, write


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory):
    """A small library model: nothing here needs ours."""
    return save_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def train_file(tmp_path):
    return write(tmp_path, "train.jsonl", sentences(16))
