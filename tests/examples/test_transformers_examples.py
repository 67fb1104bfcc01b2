"""transformers' own scripts, unmodified, on our folders, where the package is out of reach.

The variable TRANSFORMERS_EXAMPLES names their folder, `examples/pytorch` of transformers' source.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import modeling_lvbert.evaluation.sequence_classification.metrics.glue as glue_folder
from tests.evaluation.small_models import FAMILIES, make_model

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
# An editable install would put the package on the path: its finders and paths are taken off.
PRELUDE = f"""
import importlib.util, runpy, sys
sys.meta_path[:] = [f for f in sys.meta_path if "__editable__" not in repr(f)]
sys.path[:] = [p for p in sys.path if p not in ("", {str(ROOT)!r})]
assert importlib.util.find_spec("modeling_lvbert") is None
sys.argv[:] = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
ACCURACY = """
import datasets
import evaluate
class Accuracy(evaluate.Metric):
    def _info(self):
        features = {name: datasets.Value("int64") for name in ("predictions", "references")}
        return evaluate.MetricInfo(
            description="", citation="", inputs_description="",
            features=datasets.Features(features),
        )
    def _compute(self, predictions, references):
        hits = sum(x == y for x, y in zip(predictions, references))
        return {"accuracy": hits / len(predictions)}
"""
CARD = """---
configs:
- config_name: rte
  data_files:
  - {split: train, path: train.jsonl}
  - {split: validation, path: validation.jsonl}
  - {split: test, path: test.jsonl}
dataset_info:
  config_name: rte
  features:
  - {name: sentence1, dtype: string}
  - {name: sentence2, dtype: string}
  - name: label
    dtype:
      class_label:
        names:
          '0': entailment
          '1': not_entailment
---
"""
SENTENCES = [
    f"The old harbour of town {number} was built by {name} ."
    for number, name in enumerate(["Anna", "John", "a storm", "nobody"] * 16)
]


@pytest.fixture(scope="module")
def scripts():
    folder = os.environ.get("TRANSFORMERS_EXAMPLES")
    if not folder:
        pytest.skip("TRANSFORMERS_EXAMPLES does not name a folder with transformers' scripts")
    return Path(folder)


@pytest.fixture(params=FAMILIES)
def workplace(request, tmp_path):
    """An empty working directory with a model, metrics and data."""
    make_model(tmp_path / "model", request.param)
    (tmp_path / "accuracy").mkdir()
    (tmp_path / "accuracy" / "accuracy.py").write_text(ACCURACY)
    # Ours takes the place of the Hub's.
    shutil.copytree(Path(glue_folder.__file__).parent, tmp_path / "glue")
    data = tmp_path / "nyu-mll" / "glue"
    data.mkdir(parents=True)
    (data / "README.md").write_text(CARD)
    for split in ("train", "validation", "test"):
        rows = [
            {"sentence1": text, "sentence2": SENTENCES[place // 2], "label": place % 2}
            for place, text in enumerate(SENTENCES[:16])
        ]
        (data / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "text.txt").write_text("\n".join(SENTENCES) + "\n")
    (tmp_path / "start.py").write_text(PRELUDE)
    return tmp_path


def run(workplace, script, *arguments):
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    }
    environment["HF_HOME"] = str(workplace / "cache")
    environment["HF_MODULES_CACHE"] = str(workplace / "cache" / "modules")
    command = [
        sys.executable, "-P", "start.py", str(script), *arguments, "--trust_remote_code",
        "--use_cpu", "--max_steps=2", "--disable_tqdm=true", "--report_to=none",
        "--max_seq_length=32",
    ]  # fmt: skip
    result = subprocess.run(
        command, cwd=workplace, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_run_mlm_then_run_glue(scripts, workplace):
    run(
        workplace, scripts / "language-modeling" / "run_mlm.py", "--model_name_or_path=model",
        "--train_file=text.txt", "--validation_file=text.txt", "--do_train", "--do_eval",
        "--output_dir=adapted",
    )  # fmt: skip
    assert read(workplace / "adapted" / "eval_results.json")["eval_loss"] > 0
    run(
        workplace, scripts / "text-classification" / "run_glue.py",
        "--model_name_or_path=adapted", "--task_name=rte", "--do_train", "--do_eval",
        "--do_predict", "--output_dir=tuned",
    )  # fmt: skip
    assert 0 <= read(workplace / "tuned" / "eval_results.json")["eval_accuracy"] <= 1
    assert read(workplace / "tuned" / "config.json")["auto_map"]
    lines = (workplace / "tuned" / "predict_results_rte.txt").read_text().splitlines()
    assert len(lines) == 1 + 16


def test_run_glue_on_local_files(scripts, workplace):
    for name in ("train", "validation"):
        rows = [{"sentence": text, "label": n % 2} for n, text in enumerate(SENTENCES[:16])]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (workplace / f"{name}.json").write_text(lines)
    run(
        workplace, scripts / "text-classification" / "run_glue.py", "--model_name_or_path=model",
        "--train_file=train.json", "--validation_file=validation.json", "--do_train", "--do_eval",
        "--output_dir=tuned",
    )  # fmt: skip
    assert read(workplace / "tuned" / "eval_results.json")["eval_samples"] == 16
