import json
import subprocess
import sys

import pytest

from tests.evaluation.small_models import TEXT, make_model
from tests.examples.test_examples import QUIET, launch_on_cpu, load, read, run_script

RECORDS = [
    {
        "id": f"q{number}",
        "question": f"Who built harbour {number}?",
        "context": f"Harbour {number}. {TEXT[0]} {TEXT[1]}",
        "answers": {"text": ["Anna Berg"], "answer_start": [-1]},
    }
    for number in range(7)
]


@pytest.fixture(scope="module")
def data_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.json"
    path.write_text(json.dumps({"version": "1.1", "data": RECORDS}))
    return path


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("model") / "model", "elcbert")


def flags(model_dir, data_file, folder, *more):
    return [
        f"--model_name_or_path={model_dir}", f"--train_file={data_file}",
        f"--validation_file={data_file}", f"--test_file={data_file}", "--max_seq_length=40",
        "--doc_stride=8", f"--output_dir={folder}", *QUIET, *more,
    ]  # fmt: skip


def test_the_script_leaves_the_scores_and_the_answers(model_dir, data_file, tmp_path):
    doing = ["--do_train", "--do_eval", "--do_predict", "--max_steps=2"]
    load("run_qa").run(flags(model_dir, data_file, tmp_path / "tuned", *doing))
    assert {"eval_exact_match", "eval_f1", "eval_samples"} <= set(
        read(tmp_path / "tuned", "eval_results")
    )
    assert {"train_loss", "eval_f1", "predict_f1"} <= set(read(tmp_path / "tuned", "all_results"))
    assert list(read(tmp_path / "tuned", "predict_predictions")) == [r["id"] for r in RECORDS]


ELSEWHERE = """
import sys
sys.modules["modeling_lvbert"] = None
from transformers import AutoModelForQuestionAnswering, AutoTokenizer
model = AutoModelForQuestionAnswering.from_pretrained(sys.argv[1], trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], trust_remote_code=True)
inputs = tokenizer("Who?", "Anna.", return_tensors="pt")
print(model(**inputs).start_logits.shape == inputs["input_ids"].shape)
"""


@pytest.mark.slow
def test_the_model_answers_where_the_package_is_not(model_dir, data_file, tmp_path):
    load("run_qa").run(
        flags(model_dir, data_file, tmp_path / "tuned", "--do_train", "--max_steps=2")
    )
    command = [sys.executable, "-I", "-c", ELSEWHERE, str(tmp_path / "tuned")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.stdout.strip() == "True", result.stderr


def test_a_user_s_mistake_is_one_line(model_dir, data_file, tmp_path):
    for more, message in (
        (["--do_train", "--train_file=gone.json"], "train_file 'gone.json': no such file"),
        (["--do_train", "--doc_stride=39"], "doc_stride 39: must be"),
        (["--do_eval"], ".* has no saved weights for qa_outputs"),
    ):
        with pytest.raises(SystemExit, match=f"^error: {message}[^\\n]*$"):
            load("run_qa").run(flags(model_dir, data_file, tmp_path / "out", *more))
        assert not (tmp_path / "out").exists()


def test_help_tells_a_command(capsys):
    for name in ("run_qa", "run_tagging"):
        with pytest.raises(SystemExit) as ended:
            load(name).run(["--help"])
        assert ended.value.code == 0
        assert f"python examples/{name}.py" in capsys.readouterr().out


@pytest.mark.slow
def test_two_processes_score_as_one(model_dir, data_file, tmp_path):
    load("run_qa").run(
        flags(model_dir, data_file, tmp_path / "tuned", "--do_train", "--max_steps=9")
    )
    for name, start in (("one", ()), ("two", launch_on_cpu(2))):
        asked = flags(tmp_path / "tuned", data_file, tmp_path / name, "--do_eval")
        result = run_script("run_qa", *asked, "--per_device_eval_batch_size=3", launcher=start)
        assert result.returncode == 0, result.stderr
    scores = [read(tmp_path / name, "eval_results") for name in ("one", "two")]
    for key in ("eval_exact_match", "eval_f1", "eval_samples"):
        assert scores[0][key] == scores[1][key]
    best = [read(tmp_path / name, "eval_nbest_predictions") for name in ("one", "two")]
    for question in best[0]:
        first, second = (entries[question] for entries in best)
        assert [e["start_logit"] for e in first] == pytest.approx(
            [e["start_logit"] for e in second], abs=1e-4
        )
        assert [e["text"] for e in first] == [e["text"] for e in second]
