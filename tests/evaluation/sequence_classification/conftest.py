"""Models that several files fine-tune."""

import pytest

from tests.evaluation.small_models import FAMILIES, make_model
from tests.evaluation.small_tasks import save_model


@pytest.fixture(scope="session")
def deep_model_dir(tmp_path_factory):
    """Two layers, for rates that differ, and dropout, for modes that do."""
    return save_model(tmp_path_factory.mktemp("deep"), num_hidden_layers=2, hidden_dropout_prob=0.5)


@pytest.fixture(params=["library", *FAMILIES])
def any_model_dir(request, model_dir, tmp_path):
    if request.param == "library":
        return model_dir
    return make_model(tmp_path / "model", request.param)
