import pytest

from tests.evaluation.small_models import TEXT, make_model
from tests.examples.test_examples import (
    QUIET,
    launch_on_cpu,
    load,
    open_elsewhere,
    read,
    run_script,
)

pytest.importorskip("seqeval")


@pytest.fixture(scope="module")
def data_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "train.conll"
    lines = []
    for text in TEXT * 2 + TEXT[:1]:
        lines += [f"{word} {'B-NAME' if word.istitle() else 'O'}" for word in text.split()]
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("model") / "model", "lvbert")


def flags(model_dir, data_file, folder, *more):
    return [
        f"--model_name_or_path={model_dir}", f"--train_file={data_file}",
        f"--validation_file={data_file}", f"--test_file={data_file}", "--max_seq_length=24",
        f"--output_dir={folder}", *QUIET, *more,
    ]  # fmt: skip


def test_the_script_leaves_the_scores_and_the_tags(model_dir, data_file, tmp_path):
    doing = ["--do_train", "--do_eval", "--do_predict", "--max_steps=2"]
    load("run_tagging").run(flags(model_dir, data_file, tmp_path / "tuned", *doing))
    names = {f"eval_{name}" for name in ("loss", "precision", "recall", "f1", "accuracy")}
    assert names <= set(read(tmp_path / "tuned", "eval_results"))
    assert {"train_loss", "eval_f1", "predict_f1"} <= set(read(tmp_path / "tuned", "all_results"))
    words = [line.split()[0] for line in data_file.read_text("utf-8").split("\n") if line]
    text = (tmp_path / "tuned" / "predictions.txt").read_text("utf-8")
    assert [line.split()[0] for line in text.split("\n") if line] == words


@pytest.mark.slow
def test_the_model_tags_where_the_package_is_not(model_dir, data_file, tmp_path):
    load("run_tagging").run(
        flags(model_dir, data_file, tmp_path / "tuned", "--do_train", "--max_steps=2")
    )
    result = open_elsewhere("token-classification", tmp_path / "tuned", TEXT[0])
    assert (result.returncode, result.stdout[:1]) == (0, "["), result.stderr


def test_a_user_s_mistake_is_one_line(model_dir, data_file, tmp_path):
    for more, message in (
        (["--do_train", "--train_file=gone.txt"], "train_file 'gone.txt': no such file"),
        (["--do_train", "--label_column=3"], "train_file .* line 1 has 2 columns: at least 3"),
        (["--do_eval"], "the model has no tags: do_train, or give a fine-tuned one"),
    ):
        with pytest.raises(SystemExit, match=f"^error: {message}[^\\n]*$"):
            load("run_tagging").run(flags(model_dir, data_file, tmp_path / "out", *more))
        assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_two_processes_score_as_one(model_dir, data_file, tmp_path):
    trained = flags(model_dir, data_file, tmp_path / "tuned", "--do_train", "--max_steps=9")
    load("run_tagging").run(trained)
    for name, start in (("one", ()), ("two", launch_on_cpu(2))):
        asked = flags(tmp_path / "tuned", data_file, tmp_path / name, "--do_eval", "--do_predict")
        result = run_script("run_tagging", *asked, "--per_device_eval_batch_size=2", launcher=start)
        assert result.returncode == 0, result.stderr
    scores = [read(tmp_path / name, "eval_results") for name in ("one", "two")]
    for key in ("eval_f1", "eval_accuracy", "eval_samples"):
        assert scores[0][key] == scores[1][key]
    assert scores[0]["eval_loss"] == pytest.approx(scores[1]["eval_loss"], abs=1e-5)
    texts = [(tmp_path / name / "predictions.txt").read_text() for name in ("one", "two")]
    assert texts[0] == texts[1]
