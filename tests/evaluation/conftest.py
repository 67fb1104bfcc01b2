"""Small models that are saved or trained once."""

import pytest

from tests.evaluation.small_models import FAMILIES
from tests.evaluation.small_tasks import save_model, sentences, write


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory):
    """A small library model: nothing here needs ours."""
    return save_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def train_file(tmp_path):
    return write(tmp_path, "train.jsonl", sentences(16))


@pytest.fixture(scope="module")
def learned(request, tmp_path_factory):
    """A model of each family that the test file's own function has taught everything by heart."""
    teach = request.module.learn_by_heart
    return {family: teach(tmp_path_factory.mktemp(family), family) for family in FAMILIES}


@pytest.fixture(params=FAMILIES)
def trained(request, learned):
    return learned[request.param]


@pytest.fixture
def one_trained(learned):
    """For what does not depend on the model."""
    return learned["lvbert"]
