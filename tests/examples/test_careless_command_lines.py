"""What a careless user gives is refused in one line before any work, and nothing is left."""

import gzip
import json
import shutil

import datasets
import pytest

from modeling_lvbert.pretraining.tokenizer_training import train_tokenizer
from tests.evaluation.small_models import make_model

from .test_examples import PARAGRAPHS, QUIET, load, read
from .test_run_search import search_flags

QUESTION = {"id": "1", "question": "Who?", "context": "Anna sails.", "answers": [{"text": "Anna"}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of every kind that is no good, and some that are."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "corpus.txt").write_text("\n\n".join(PARAGRAPHS) + "\n")
    packed = gzip.compress((folder / "corpus.txt").read_bytes())
    (folder / "cut.txt.gz").write_bytes(packed[: len(packed) // 2])
    (folder / "empty.txt").write_text("")
    (folder / "numbers.csv").write_text("id,n\n1,2\n3,4\n")
    (folder / "cut.json").write_text('{"data": [{"paragraphs": [')
    (folder / "question.json").write_text(json.dumps([QUESTION]))
    (folder / "tags.conll").write_text("Anna B-PER\nsails O\n\n")
    (folder / "pairs").mkdir()
    pair = {"sentence_good": "The bird was gone .", "sentence_bad": "The bird were gone ."}
    (folder / "pairs" / "agreement.jsonl").write_text(json.dumps(pair))
    make_model(folder / "model", "lvbert")
    documents = datasets.Dataset.from_dict({"text": list(PARAGRAPHS)})
    train_tokenizer(documents, "lvbert", 300, 64).save_pretrained(folder / "tokenizer")
    return folder


STREAM = ["--streaming", "--tokenizer_name={}/tokenizer", "--validation_file={}/corpus.txt"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([*STREAM, "--train_file=nowhere.txt"], "no such file"),
        ([*STREAM, "--train_file={}"], "is a folder"),
        ([*STREAM, "--train_file={}/empty.txt"], "holds no text"),
        ([*STREAM, "--train_file={}/cut.txt.gz"], "cannot be read"),
        ([*STREAM, "--train_file={}/numbers.csv"], "text_column_name"),
        ([*STREAM, "--dataloader_num_workers=2"], "dataloader_num_workers 2"),
        (["--dataloader_num_workers=-1"], "dataloader_num_workers|num_workers"),
        (["--seed=-1"], "[Ss]eed"),
        (["--max_steps=0"], "max_steps 0"),
        (["--max_steps=-5"], "max_steps -5"),
        (["--max_steps=-1", "--num_train_epochs=0"], "num_train_epochs 0"),
        (["--stages", "0.9:24:1", "0.1:32:1"], "too short"),
        (["--packing=sentences"], r"\[PAR\]"),
        (["--packing=sentences", "--tokenizer_name={}/tokenizer"], r"\[PAR\]"),
        (["--recipe="], "recipe ''"),
        (["--save_strategy=best"], "metric_for_best_model"),
        (["--schedule=linear", "--warmup_steps=100"], "warmup_steps 100"),
        (["--eval_accumulation_steps=0"], "eval_accumulation_steps 0"),
        (["--save_only_model"], "save_only_model True: must be False"),
        (["--train_sampling_strategy=group_by_length"], "train_sampling_strategy"),
        (["--hidden_size=1000000000"], "hidden_size 1000000000"),
        (["--vocab_size=1000000000"], "vocab_size 1000000000"),
    ],
)
def test_it_is_refused_before_any_work(folder, tmp_path, flags, message):
    base = [
        "--model_size=tiny", "--hidden_size=16", "--num_attention_heads=2",
        "--intermediate_size=32", "--per_device_train_batch_size=4", "--max_steps=2",
        f"--train_file={folder / 'corpus.txt'}", f"--output_dir={tmp_path / 'run'}", *QUIET,
    ]  # fmt: skip
    flags = [flag.format(folder) for flag in flags]
    if not any(flag.startswith(("--stages", "--recipe")) for flag in flags):
        base.append("--max_seq_length=24")
    with pytest.raises(SystemExit, match=f"error: .*({message})"):
        load("run_pretraining").run([*base, *flags])
    assert not (tmp_path / "run").exists()


MODEL = "--model_name_or_path={}/model"
SCORING = {
    "run_qa": [
        MODEL, "--train_file={}/question.json", "--validation_file={}/question.json",
        "--doc_stride=8", *QUIET,
    ],
    "run_tagging": [
        MODEL, "--train_file={}/tags.conll", "--validation_file={}/tags.conll", *QUIET
    ],
    "run_blimp": [MODEL, "--blimp_dir={}/pairs"],
    "analyze_layers": [MODEL, "--text_file={}/corpus.txt"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("script", "flags", "message"),
    [
        ("run_qa", [], "nothing to do"),
        ("run_qa", ["--do_predict"], "give test_file"),
        ("run_qa", ["--do_train", "--train_file={}/corpus.txt"], "must end in .json or .jsonl"),
        ("run_qa", ["--do_train", "--train_file={}/cut.json"], "cannot be read"),
        ("run_qa", ["--do_train", "--train_file={}/none.json"], "no such file"),
        ("run_qa", ["--do_train", "--doc_stride=-1"], "doc_stride -1"),
        ("run_qa", ["--do_train", "--seed=-1"], "[Ss]eed"),
        ("run_qa", ["--do_train", "--per_device_train_batch_size=0"], "train_batch_size 0"),
        ("run_qa", ["--do_train", "--max_train_samples=0"], "max_train_samples 0"),
        ("run_qa", ["--do_train", "--preprocessing_num_workers=0"], "preprocessing_num_workers 0"),
        ("run_qa", ["--do_train", "--model_name_or_path=nowhere"], "'nowhere' cannot be loaded"),
        ("run_qa", ["--do_train", "--output_dir={}"], "output_dir .* is not empty"),
        ("run_qa", ["--do_eval", "--null_score_diff_threshold=nan"], "threshold nan"),
        ("run_tagging", ["--do_train", "--train_file={}/empty.txt"], "no words"),
        ("run_tagging", ["--do_train", "--train_file={}"], "is a folder"),
        ("run_tagging", ["--do_train", "--train_file={}/cut.txt.gz"], "cannot be read"),
        ("run_tagging", ["--do_train", "--train_file={}/numbers.csv"], "no column tokens or words"),
        ("run_tagging", ["--do_train", "--label_column=-1"], "label_column -1"),
        ("run_tagging", ["--do_train", "--max_seq_length=0"], "max_seq_length 0"),
        ("run_tagging", ["--do_train", "--learning_rate=inf"], "learning_rate inf"),
        ("run_tagging", ["--do_train", "--output_dir={}/corpus.txt"], "is a file"),
        ("run_blimp", ["--blimp_dir={}/none"], "a folder of .jsonl files is needed"),
        ("run_blimp", ["--blimp_dir={}/model"], "no .jsonl file"),
        ("run_blimp", ["--batch_size=0"], "batch_size 0"),
        ("run_blimp", ["--temperature=nan"], "temperature nan"),
        ("run_blimp", ["--output_file={}/corpus.txt"], "holds something else"),
        ("run_blimp", ["--output_file="], "is a folder"),
        ("run_blimp", ["--published_models_summary={}/corpus.txt"], "is not BLiMP's file"),
        ("analyze_layers", ["--text_file={}"], "is a folder"),
        ("analyze_layers", ["--text_file={}/empty.txt"], "no text|empty"),
        ("analyze_layers", ["--text_file={}/cut.txt.gz"], "cannot be read"),
        ("analyze_layers", ["--batch_size=0"], "batch_size 0"),
        ("analyze_layers", ["--seed=-1"], "seed -1"),
        ("analyze_layers", ["--max_seq_length=100000"], "max_seq_length 100000"),
        ("analyze_layers", ["--output_dir={}"], "holds other things"),
    ],
)
def test_scoring_refuses_it_before_any_work(folder, tmp_path, script, flags, message):
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    output = "output_file" if script == "run_blimp" else "output_dir"
    base = [*SCORING[script], f"--{output}={tmp_path / 'run'}"]
    with pytest.raises(SystemExit, match=f"^error: [^\\n]*({message})[^\\n]*$"):
        load(script).run([flag.format(folder) for flag in (*base, *flags)])
    assert not (tmp_path / "run").exists()
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_a_corpus_of_unknown_tokens_is_no_perfect_model(folder, tmp_path):
    """Nothing can be predicted of it: a loss of 0 would be no merit."""
    (tmp_path / "foreign.txt").write_text(
        "\n\n".join("\u5317\u4eac\n\u4e0a\u6d77" for _ in range(40))
    )
    with pytest.raises(SystemExit, match="error: .* knows no token of the text"):
        load("run_pretraining").run([
            "--model_size=tiny", "--hidden_size=16", "--num_attention_heads=2",
            "--intermediate_size=32", "--max_seq_length=24", "--per_device_train_batch_size=4",
            "--max_steps=2", f"--train_file={tmp_path / 'foreign.txt'}",
            f"--tokenizer_name={folder / 'tokenizer'}", f"--output_dir={tmp_path / 'run'}", *QUIET,
        ])  # fmt: skip


@pytest.mark.slow
def test_a_supernet_that_was_trained_on_is_not_ranked_by_scores_of_before(folder, tmp_path):
    """Refused, or scored anew; the same command on a new folder says what is right."""
    script, corpus = load("run_search"), folder / "corpus.txt"

    def search(name, steps):
        more = ["--learning_rate=1e-2", f"--max_steps={steps}"]
        script.run(search_flags(corpus, tmp_path / name, "lvbert", *more))
        lines = (tmp_path / name / "history.jsonl").read_text().splitlines()
        return {entry["order"]: entry["metrics"] for entry in map(json.loads, lines)}

    before, expected = search("run", 2), search("new", 20)
    try:
        found = search("run", 20)
    except SystemExit as refusal:
        assert "error: output_dir" in str(refusal)
        return
    stale = [order for order in found if found[order] == before.get(order)]
    assert not stale
    assert found.keys() == expected.keys()


@pytest.mark.slow
def test_a_rank_check_of_other_steps_is_trained_anew(folder, tmp_path):
    script, corpus = load("run_search"), folder / "corpus.txt"
    flags = search_flags(corpus, tmp_path / "run", "lvbert", "--rank_check=3")
    script.run([*flags, "--rank_check_steps=1"])
    before = read(tmp_path / "run", "rank_check")
    script.run([*flags, "--rank_check_steps=20", "--learning_rate=1e-2"])
    assert read(tmp_path / "run", "rank_check") != before


def test_limits_that_leave_nothing_are_told_before_the_supernet_is_trained(folder, tmp_path):
    for limit in ("--max_parameters=10", "--max_flops=10"):
        flags = search_flags(folder / "corpus.txt", tmp_path / "run", "lvbert", limit)
        with pytest.raises(SystemExit, match="leaves nothing"):
            load("run_search").run(flags)
        assert not list((tmp_path / "run").rglob("*.safetensors"))
        shutil.rmtree(tmp_path / "run", ignore_errors=True)


def test_a_search_leaves_a_folder_of_other_things_alone(folder, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("years of work")
    with pytest.raises(SystemExit, match="error: output_dir .* is not empty"):
        load("run_search").run(search_flags(folder / "corpus.txt", tmp_path / "run", "lvbert"))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.tex"]
