"""Scoring of saved models on folders of minimal pairs: results, and what is refused."""

import json

import numpy as np
import pytest
import torch
from accelerate import PartialState
from transformers import (
    AutoModelForCausalLM,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    BertTokenizer,
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    GPT2Config,
    GPT2LMHeadModel,
)

from modeling_lvbert import LVBertConfig, LVBertForMaskedLM, LVBertForPreTraining
from modeling_lvbert.evaluation.minimal_pairs.pseudo_likelihood import SentenceScorer
from modeling_lvbert.evaluation.minimal_pairs.scoring import (
    MinimalPairArguments,
    evaluate_minimal_pairs,
)
from modeling_lvbert.evaluation.model_loading import ModelArguments

TOKENS = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "cat", "dog", "bird", "sleep", "##s",
    "##ing", "often", "here", ".",
]  # fmt: skip
SIZES = {
    "vocab_size": len(TOKENS),
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 32,
}


@pytest.fixture(scope="module")
def tokenizer():
    vocabulary = {token: number for number, token in enumerate(TOKENS)}
    return BertTokenizer(vocab=vocabulary, model_max_length=32)


@pytest.fixture(scope="module")
def save(tokenizer, tmp_path_factory):
    """Saves a model with large random weights and its tokenizer."""

    def save_model(model, factor=5.0):
        torch.manual_seed(0)
        folder = tmp_path_factory.mktemp("model")
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(factor)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return str(folder)

    return save_model


@pytest.fixture(scope="module")
def bert_dir(save):
    torch.manual_seed(0)
    return save(BertForMaskedLM(BertConfig(**SIZES)))


def make_rows(number):
    subject = ("cat", "dog", "bird")[number % 3]
    end = (".", " often.", " here.", " often here.")[number % 4]
    good, bad = f"The {subject} sleeps{end}", f"The {subject} sleep{end}"
    if number % 2:
        good, bad = f"The {subject}s sleep{end}", f"The {subject}s sleeps{end}"
    return {"sentence_good": good, "sentence_bad": bad}


@pytest.fixture(scope="module")
def blimp_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blimp")
    names = {"field": "syntax_semantics", "linguistics_term": "agreement"}
    tables = {
        "first": [{**make_rows(n), "UID": "first", **names} for n in range(5)],
        "second": [
            {**make_rows(n), "UID": "second", **names, "field": "syntax/semantics"}
            for n in range(5, 12)
        ],
        "unnamed": [make_rows(n) for n in range(12, 15)],
    }
    for name, rows in tables.items():
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    return str(folder)


def evaluate(model_dir, blimp_dir, folder, *, model=(), **options):
    options.setdefault("output_file", str(folder / "blimp.json"))
    arguments = MinimalPairArguments(blimp_dir=blimp_dir, **options)
    _, table = evaluate_minimal_pairs(
        ModelArguments(model_dir, **dict(model)), arguments, PartialState(cpu=True)
    )
    with open(arguments.output_file, encoding="utf-8") as file:
        return json.load(file), table


def test_results_follow_from_the_scores_of_each_pair(bert_dir, blimp_dir, tokenizer, tmp_path):
    scores_file = tmp_path / "new" / "scores.jsonl"
    result, table = evaluate(bert_dir, blimp_dir, tmp_path, scores_file=str(scores_file))
    rows = [json.loads(line) for line in scores_file.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 15
    scorer = SentenceScorer(BertForMaskedLM.from_pretrained(bert_dir), tokenizer)
    for side in ("good", "bad"):
        expected = scorer.score([row[f"sentence_{side}"] for row in rows]).totals
        np.testing.assert_allclose([row[f"score_{side}"] for row in rows], expected, atol=1e-5)
    assert {row["verdict"] for row in rows} == {0.0, 1.0}
    accuracies = {}
    for name, pairs in (("first", 5), ("second", 7), ("unnamed", 3)):
        wins = [row["score_good"] > row["score_bad"] for row in rows if row["paradigm"] == name]
        accuracies[name] = sum(wins) / len(wins)
        assert result["by_paradigm"][name] == {
            "accuracy": pytest.approx(accuracies[name]), "ties": 0, "pairs": pairs,
        }  # fmt: skip
    assert result["overall"]["accuracy"] == pytest.approx(sum(accuracies.values()) / 3)
    assert result["overall"]["pairs"] == 15
    named = (accuracies["first"] + accuracies["second"]) / 2
    assert result["by_field"] == {
        "syntax_semantics": {"accuracy": pytest.approx(named), "ties": 0, "pairs": 12}
    }
    assert result["by_term"]["agreement"]["accuracy"] == pytest.approx(named)
    assert "mean over paradigms" in result["averaging"]
    assert result["settings"]["metric"] == "pll"
    assert f"{100 * result['overall']['accuracy']:.1f}" in table
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blimp.json", "new"]


@pytest.mark.parametrize("normalization", ["sum", "per_token"])
def test_a_constant_model_has_exactly_one_half(save, blimp_dir, tmp_path, caplog, normalization):
    model_dir = save(BertForMaskedLM(BertConfig(**SIZES)), 0.0)
    result, _ = evaluate(model_dir, blimp_dir, tmp_path, normalization=normalization)
    groups = [result["overall"], *result["by_paradigm"].values(), *result["by_field"].values()]
    assert {group["accuracy"] for group in groups} == {0.5}
    assert all(group["ties"] == group["pairs"] for group in groups)
    assert "gives every token the same probability" in caplog.text


def test_options_reach_the_scores(bert_dir, blimp_dir, tmp_path):
    seen = {}
    for name, options in {
        "plain": {},
        "words": {"metric": "within_word_l2r"},
        "means": {"normalization": "per_token"},
        "cooled": {"temperature": 3.0},
        "bfloat16": {"dtype": "bfloat16"},
    }.items():
        path = tmp_path / f"{name}.jsonl"
        evaluate(bert_dir, blimp_dir, tmp_path, scores_file=str(path), **options)
        lines = path.read_text(encoding="utf-8").splitlines()
        seen[name] = [json.loads(line)["score_good"] for line in lines]
    assert len({tuple(scores) for scores in seen.values()}) == 5
    lengths = [total / mean for total, mean in zip(seen["plain"], seen["means"], strict=True)]
    assert all(abs(length - round(length)) < 1e-6 for length in lengths)
    np.testing.assert_allclose(seen["bfloat16"], seen["plain"], rtol=0.05)


def test_each_kind_of_model_is_scored_by_its_own_metric(save, blimp_dir, tmp_path):
    electra = ElectraConfig(embedding_size=8, **SIZES)
    gpt2 = GPT2Config(
        vocab_size=len(TOKENS), n_embd=16, n_layer=1, n_head=2, bos_token_id=2, eos_token_id=3
    )
    lvbert = LVBertConfig(**{**SIZES, "layer_order": "ds", "num_hidden_layers": 2})
    for model, metric in (
        (ElectraForMaskedLM(electra), "within_word_l2r"),
        (ElectraForPreTraining(electra), "rtd"),
        (LVBertForMaskedLM(lvbert), "pll"),
        (LVBertForPreTraining(lvbert), "rtd"),
        (GPT2LMHeadModel(gpt2), "causal"),
    ):
        result, _ = evaluate(save(model), blimp_dir, tmp_path, metric=metric)
        assert result["overall"]["pairs"] == 15
        assert result["settings"]["metric"] == metric


@pytest.mark.parametrize("metric", ["pll", "within_word_l2r"])
def test_models_without_a_saved_head_are_refused(save, blimp_dir, tmp_path, metric):
    lvbert = LVBertConfig(**{**SIZES, "layer_order": "ds", "num_hidden_layers": 2})
    for model in (
        BertModel(BertConfig(**SIZES), add_pooling_layer=False),
        BertForSequenceClassification(BertConfig(**SIZES)),
        ElectraForPreTraining(ElectraConfig(embedding_size=8, **SIZES)),
        LVBertForPreTraining(lvbert),
    ):
        with pytest.raises(ValueError, match="has no saved weights for .*rtd for ELECTRA's"):
            evaluate(save(model), blimp_dir, tmp_path, metric=metric)
    assert not list(tmp_path.iterdir())


def test_models_of_another_kind_are_refused(bert_dir, save, blimp_dir, tmp_path):
    with pytest.raises(ValueError, match="sees the tokens after a position"):
        evaluate(bert_dir, blimp_dir, tmp_path, metric="causal")
    with pytest.raises(ValueError, match="metric 'rtd'"):
        evaluate(bert_dir, blimp_dir, tmp_path, metric="rtd")
    gpt2 = GPT2Config(vocab_size=len(TOKENS), n_embd=16, n_layer=1, n_head=2)
    with pytest.raises(
        ValueError, match="(?s)^metric 'pll': .*cannot be loaded.*causal for decoders"
    ):
        evaluate(save(AutoModelForCausalLM.from_config(gpt2)), blimp_dir, tmp_path)
    with pytest.raises(ValueError, match="ignore_mismatched_sizes"):
        evaluate(bert_dir, blimp_dir, tmp_path, model={"ignore_mismatched_sizes": True})


def test_a_sentence_that_cannot_be_scored_is_named_by_file_and_line(bert_dir, tmp_path):
    folder = tmp_path / "pairs"
    folder.mkdir()
    rows = [make_rows(0), {"sentence_good": "A.", "sentence_bad": "\u200b"}]
    (folder / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ValueError, match=r"x\.jsonl, line 2, sentence_bad: .* has no token"):
        evaluate(bert_dir, str(folder), tmp_path)


def test_results_are_replaced_and_other_files_are_not(bert_dir, blimp_dir, tmp_path):
    scores = tmp_path / "scores.jsonl"
    first, _ = evaluate(bert_dir, blimp_dir, tmp_path, scores_file=str(scores))
    again, _ = evaluate(bert_dir, blimp_dir, tmp_path, scores_file=str(scores), metric="pll")
    assert again == first
    for name, content in (("text", "thesis"), ("json", '{"overall": 1}'), ("empty", "")):
        (tmp_path / name).write_text(content)
        for option in ("output_file", "scores_file"):
            with pytest.raises(ValueError, match=f"{option} .* holds something else"):
                evaluate(bert_dir, blimp_dir, tmp_path, **{option: str(tmp_path / name)})
        assert (tmp_path / name).read_text() == content
    with pytest.raises(ValueError, match="scores_file .* holds something else"):
        evaluate(bert_dir, blimp_dir, tmp_path, scores_file=str(tmp_path / "blimp.json"))


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("{blimp}/out.json", "lies in blimp_dir"),
        ("{blimp}/sub/out.jsonl", "lies in blimp_dir"),
        ("{folder}", "is a folder"),
        ("{folder}/file/x/out.json", "is a file, no folder"),
    ],
)
def test_places_that_cannot_be_written_are_refused_before_any_work(
    blimp_dir, tmp_path, path, reason
):
    (tmp_path / "file").write_text("")
    path = path.format(blimp=blimp_dir, folder=tmp_path)
    for option in ("output_file", "scores_file"):
        with pytest.raises(ValueError, match=f"^{option} .*{reason}"):
            evaluate("no such model", blimp_dir, tmp_path, **{option: path})


def test_one_file_for_both_is_refused(blimp_dir, tmp_path):
    with pytest.raises(ValueError, match="scores_file and output_file are both"):
        evaluate("none", blimp_dir, tmp_path, scores_file=str(tmp_path / "blimp.json"))


@pytest.mark.parametrize(
    "options",
    [
        {"metric": "PLL"},
        {"normalization": "mean"},
        {"dtype": "int8"},
        {"temperature": -1.0},
        {"batch_size": 0},
    ],
)
def test_values_that_are_not_allowed_are_refused(options):
    with pytest.raises(ValueError, match=f"^{next(iter(options))} "):
        MinimalPairArguments("folder", "file", **options)
