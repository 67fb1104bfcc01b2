"""What every test runs under: no network, one core, caches of its own, fixed seeds."""

import atexit
import os
import random
import shutil
import tempfile
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parent.parent
# A cache for each test process keeps the user's clean, and workers side by side apart.
CACHE = tempfile.mkdtemp(prefix="lvbert-tests-")
atexit.register(shutil.rmtree, CACHE, ignore_errors=True)

# Read when the libraries are imported, so set before the first such import; processes that a test
# starts inherit them.
os.environ.update(
    HF_HOME=CACHE,
    HF_MODULES_CACHE=os.path.join(CACHE, "modules"),
    HF_HUB_OFFLINE="1",
    HF_HUB_DISABLE_TELEMETRY="1",
    HF_HUB_DISABLE_PROGRESS_BARS="1",
    HF_DATASETS_OFFLINE="1",
    TOKENIZERS_PARALLELISM="false",
    OMP_NUM_THREADS="1",
    TF_CPP_MIN_LOG_LEVEL="3",
)

import numpy  # noqa: E402  (after the environment)
import pytest  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def fixed_seeds():
    """Makes every test start from the same random state, whichever tests ran before."""
    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def skip_without_accelerator(request):
    if request.node.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs an accelerator, and PyTorch sees none")


@pytest.fixture(scope="session")
def project_root() -> Path:
    return PROJECT_ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of corpora and task files that is handed out beside the checkout, never in it."""
    shared = Path(os.environ.get("LVBERT_SHARED", PROJECT_ROOT.parent / "shared"))
    data = shared / "data"
    if not data.is_dir():
        pytest.skip(
            f"needs the data that is not in the repository: no folder {data}; set LVBERT_SHARED"
        )
    return data
