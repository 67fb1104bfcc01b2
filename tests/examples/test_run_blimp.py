"""The scoring of minimal pairs from the command line, by any number of processes."""

import json

import pytest
import torch
from transformers import BertTokenizer

from modeling_lvbert import ELCBertConfig, ELCBertForMaskedLM

from .test_examples import launch_on_cpu, load, run_script

WORDS = ["the", "a", "cat", "dog", "bird", "sleep", "##s", "often", "here", "."]
KEYS = {"accuracy", "ties", "pairs"}


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    BertTokenizer(vocab=vocabulary, model_max_length=32).save_pretrained(folder)
    torch.manual_seed(0)
    config = ELCBertConfig(
        vocab_size=len(tokens), hidden_size=16, num_attention_heads=2, intermediate_size=16,
        layer_order="sf df",
    )  # fmt: skip
    ELCBertForMaskedLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def blimp_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blimp")
    for name, count in (("agreement", 7), ("agreement_long", 4)):
        rows = [
            {
                "sentence_good": f"The {WORDS[2 + number % 3]} sleeps{end}",
                "sentence_bad": f"The {WORDS[2 + number % 3]} sleep{end}",
                "UID": name,
                "field": "morphology",
                "linguistics_term": "subject_verb_agreement",
            }
            for number, end in zip(
                range(count), [".", " often.", " here.", " often here."] * 2, strict=False
            )
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def flags(model_dir, blimp_dir, output_file, *more):
    return [
        f"--model_name_or_path={model_dir}", "--trust_remote_code", f"--blimp_dir={blimp_dir}",
        f"--output_file={output_file}", *more,
    ]  # fmt: skip


def test_the_results_have_the_agreed_names(model_dir, blimp_dir, tmp_path, capsys):
    output = tmp_path / "runs" / "blimp.json"
    load("run_blimp").run(flags(model_dir, blimp_dir, output))
    result = json.loads(output.read_text(encoding="utf-8"))
    assert set(result["overall"]) == KEYS
    assert result["overall"]["pairs"] == 11
    assert 0 <= result["overall"]["accuracy"] <= 1
    assert set(result["by_field"]) == {"morphology"}
    assert set(result["by_term"]) == {"subject_verb_agreement"}
    assert set(result["by_paradigm"]) == {"agreement", "agreement_long"}
    assert all(
        set(group) == KEYS
        for name in ("by_field", "by_term", "by_paradigm")
        for group in result[name].values()
    )
    printed = capsys.readouterr().out
    assert f"{100 * result['overall']['accuracy']:.1f}" in printed
    # A file of options, into the same file of results.
    options = tmp_path / "options.json"
    names = ("model_name_or_path", "blimp_dir", "output_file")
    values = map(str, (model_dir, blimp_dir, output))
    options.write_text(json.dumps(dict(zip(names, values, strict=True))))
    load("run_blimp").run([str(options)])
    assert json.loads(output.read_text(encoding="utf-8")) == result


def test_what_is_wrong_is_said_in_one_line(model_dir, blimp_dir, tmp_path):
    for more, reason in (
        (["--temperature=0"], "temperature 0.0: must be positive"),
        ([f"--output_file={model_dir}/config.json"], "holds something else"),
        (["--model_name_or_path=/none"], "model_name_or_path '/none' cannot be loaded"),
    ):
        with pytest.raises(SystemExit) as caught:
            load("run_blimp").run(flags(model_dir, blimp_dir, tmp_path / "out.json", *more))
        assert str(caught.value).startswith("error: ")
        assert reason in str(caught.value)
        assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_any_number_of_processes_gives_the_same(model_dir, blimp_dir, tmp_path):
    written = {}
    for number in (1, 2, 3):
        output, scores = tmp_path / f"{number}.json", tmp_path / f"{number}.jsonl"
        run = run_script(
            "run_blimp",
            # Batches of one copy each: there are more than processes.
            *flags(model_dir, blimp_dir, output, f"--scores_file={scores}", "--batch_size=8"),
            launcher=launch_on_cpu(number) if number > 1 else (),
        )
        assert run.returncode == 0, run.stderr
        assert run.stdout.count("overall") == 1
        rows = [json.loads(line) for line in scores.read_text(encoding="utf-8").splitlines()]
        written[number] = (
            json.loads(output.read_text(encoding="utf-8")),
            [(row["sentence_good"], row["sentence_bad"]) for row in rows],
            [score for row in rows for score in (row["score_good"], row["score_bad"])],
        )
    result, sentences, found = written[1]
    assert result["overall"]["pairs"] == len(sentences) == 11
    # Elsewhere in memory, a sum of a few floats may differ in its last bit.
    for number in (2, 3):
        assert written[number] == (result, sentences, pytest.approx(found, rel=1e-6))
