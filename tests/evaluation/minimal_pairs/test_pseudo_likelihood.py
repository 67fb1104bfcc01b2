"""Scores of sentences against a naive reference, one copy at a time, and against minicons."""

import importlib.util
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import (
    ElectraConfig,
    ElectraForPreTraining,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
)
from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

from modeling_lvbert.evaluation.minimal_pairs.pseudo_likelihood import SentenceScorer
from modeling_lvbert.evaluation.minimal_pairs.pseudo_likelihood_plan import make_batches
from tests.evaluation.minimal_pairs.language_models import (
    SENTENCES,
    SIZES,
    TOKENS,
    enlarge,
    make_masked_model,
    masked_log_probability,
    naive_score,
)


@pytest.fixture(scope="module", params=["LVBert", "ELCBert", "Bert", "Electra"])
def masked_model(request):
    return make_masked_model(request.param)


@pytest.fixture(scope="module")
def slow_tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("slow") / "vocab.txt"
    path.write_text("\n".join(TOKENS) + "\n", encoding="utf-8")
    slow = BertTokenizerLegacy(str(path), model_max_length=64)
    assert not slow.is_fast
    return slow


@pytest.fixture(scope="module")
def decoder():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64)
    return enlarge(GPT2LMHeadModel(config))


@pytest.mark.parametrize("metric", ["pll", "within_word_l2r"])
def test_scores_are_those_of_one_copy_at_a_time(masked_model, tokenizer, metric):
    scores = SentenceScorer(masked_model, tokenizer, metric).score(SENTENCES)
    expected = [naive_score(masked_model, tokenizer, text, metric) for text in SENTENCES]
    np.testing.assert_allclose(scores.totals, expected, atol=2e-5)
    lengths = [len(tokenizer(text).input_ids) - 2 for text in SENTENCES]
    assert scores.num_tokens.tolist() == lengths
    np.testing.assert_allclose(scores.per_token(), np.array(expected) / lengths, atol=2e-5)
    assert not scores.is_constant


def test_masking_the_rest_of_a_word_changes_words_of_several_tokens_alone(bert, tokenizer):
    plain, whole = (
        SentenceScorer(bert, tokenizer, metric).score(SENTENCES).totals
        for metric in ("pll", "within_word_l2r")
    )
    cut = [any("##" in token for token in tokenizer.tokenize(text)) for text in SENTENCES]
    assert (abs(plain - whole) > 1e-3).tolist() == cut
    assert not all(cut)


@pytest.mark.skipif(importlib.util.find_spec("minicons") is None, reason="needs minicons")
@pytest.mark.parametrize("metric", ["pll", "within_word_l2r"])
def test_scores_are_minicons(masked_model, tokenizer, metric):
    from minicons.scorer import MaskedLMScorer

    peer = MaskedLMScorer(masked_model, "cpu", tokenizer=tokenizer)
    expected = peer.sequence_score(
        tokenizer(SENTENCES, padding=True),
        reduction=lambda terms: terms.sum().item(),
        PLL_metric="original" if metric == "pll" else metric,
    )
    scores = SentenceScorer(masked_model, tokenizer, metric).score(SENTENCES)
    np.testing.assert_allclose(scores.totals, expected, atol=1e-4)


@pytest.mark.parametrize("batch_size", [1, 20, 10_000])
def test_the_size_of_batches_does_not_matter(masked_model, tokenizer, batch_size):
    expected = SentenceScorer(masked_model, tokenizer).score(SENTENCES).totals
    scores = SentenceScorer(masked_model, tokenizer, batch_size=batch_size).score(SENTENCES)
    np.testing.assert_allclose(scores.totals, expected, atol=2e-5)


@pytest.mark.parametrize("metric", ["pll", "within_word_l2r"])
def test_a_tokenizer_written_in_python_gives_the_same(bert, tokenizer, slow_tokenizer, metric):
    fast, slow = (
        SentenceScorer(bert, kind, metric).score(SENTENCES).totals
        for kind in (tokenizer, slow_tokenizer)
    )
    np.testing.assert_array_equal(fast, slow)


def test_words_that_cannot_be_told_are_refused(bert, slow_tokenizer, monkeypatch):
    monkeypatch.setattr(slow_tokenizer, "_tokenize", lambda text, **_: [text[:2].lower(), text[2:]])
    scorer = SentenceScorer(bert, slow_tokenizer, "within_word_l2r")
    with pytest.raises(ValueError, match="does not tell which tokens make a word"):
        scorer.score(["The cat sleeps."])


def test_a_tokenizer_without_template_is_warned_of_and_scored_as_it_encodes(
    bert, tokenizer, caplog
):
    bare = PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer.from_str(
        re.sub(r'"post_processor":\{.*?\},"decoder"', '"post_processor":null,"decoder"',
               tokenizer.backend_tokenizer.to_str())),
        cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", mask_token="[MASK]",
    )  # fmt: skip
    text = "The cat sleeps."
    assert bare(text).input_ids == tokenizer(text).input_ids[1:-1]
    score = SentenceScorer(bert, bare).score([text]).totals[0]
    assert "has [CLS] and [SEP], but does not put it around" in caplog.text
    ids = bare(text).input_ids
    expected = sum(
        masked_log_probability(bert, ids, place, [place], bare.mask_token_id)
        for place in range(len(ids))
    )
    assert score == pytest.approx(expected, abs=2e-5)


def test_dropout_is_off(tokenizer, bert):
    expected = SentenceScorer(bert, tokenizer).score(SENTENCES).totals
    scores = SentenceScorer(bert.train(), tokenizer).score(SENTENCES).totals
    np.testing.assert_array_equal(scores, expected)


def test_what_is_needed_twice_is_computed_once(bert, tokenizer, monkeypatch):
    seen = []
    hook = bert.register_forward_pre_hook(
        lambda _, args, inputs: seen.extend(map(tuple, inputs["input_ids"].tolist())),
        with_kwargs=True,
    )
    scorer = SentenceScorer(bert, tokenizer)
    monkeypatch.setattr(scorer, "_prepare_model", keep_out(scorer._prepare_model, seen))
    scorer.score(["The cat sleeps.", "The dog sleeps.", "The cat sleeps."])
    hook.remove()
    # Of 5 copies each, the one with the animal masked is shared.
    assert len(seen) == len(set(seen)) == 9


def keep_out(prepare, seen):
    """Leaves the inputs of the checks out of what was seen."""

    def prepared(*arguments):
        compute = prepare(*arguments)
        seen.clear()
        return compute

    return prepared


@pytest.mark.parametrize("size", [2, 3, 50])
def test_processes_share_the_terms_without_overlap(bert, tokenizer, monkeypatch, size):
    expected = SentenceScorer(bert, tokenizer, batch_size=8).score(SENTENCES).totals
    parts = []
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda terms: parts.append(terms.clone()))
    for rank in range(size):
        group = SimpleNamespace(process_index=rank, num_processes=size, is_main_process=rank == 0)
        SentenceScorer(bert, tokenizer, batch_size=8, processes=group).score(SENTENCES)
    computed = torch.stack(parts) != 0
    assert (computed.sum(dim=0) == 1).all()
    assert torch.stack(parts).sum().item() == pytest.approx(expected[:-1].sum(), abs=1e-4)


def test_batches_hold_every_input_once_and_equal_lengths_only():
    rows = [[0] * length for length in (3, 5, 3, 3, 7, 5, 3, 3)]
    batches = make_batches(rows, 7)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(rows)))
    assert all(len({len(rows[row]) for row in batch}) == 1 for batch in batches)
    assert all(len(batch) * len(rows[batch[0]]) <= 7 for batch in batches)
    assert [len(batch) for batch in make_batches(rows, 10_000)] == [1, 2, 5]
    assert all(len(batch) == 1 for batch in make_batches(rows, 1))


def test_the_output_matrix_gets_the_scored_positions_alone(masked_model, tokenizer):
    sizes = []
    head = masked_model.get_output_embeddings()
    scorer = SentenceScorer(masked_model, tokenizer, batch_size=10_000)
    scorer.score(SENTENCES)
    hook = head.register_forward_hook(lambda _, inputs, output: sizes.append(output.shape[:-1]))
    scorer.score(SENTENCES)
    hook.remove()
    num_copies = len({len(tokenizer(text).input_ids) for text in SENTENCES})
    assert all(len(shape) == 1 for shape in sizes[-num_copies:])
    assert sum(shape[0] for shape in sizes[-num_copies:]) < scorer.score(SENTENCES).num_tokens.sum()


def test_a_head_that_mixes_positions_is_given_all_of_them(tokenizer, caplog):
    model = make_masked_model("Bert")

    def mix(_, inputs, logits):
        return logits + logits.mean(dim=-2, keepdim=True)

    model.get_output_embeddings().register_forward_hook(mix)
    with caplog.at_level("INFO"):
        scores = SentenceScorer(model, tokenizer).score(SENTENCES)
    assert "computed at every position" in caplog.text
    expected = [naive_score(model, tokenizer, text, "pll") for text in SENTENCES]
    np.testing.assert_allclose(scores.totals, expected, atol=5e-5)


def test_a_model_without_an_output_matrix_is_scored(bert, tokenizer, monkeypatch):
    expected = SentenceScorer(bert, tokenizer).score(SENTENCES).totals
    monkeypatch.setattr(bert, "get_output_embeddings", lambda: None)
    monkeypatch.setattr(
        "modeling_lvbert.evaluation.minimal_pairs.pseudo_likelihood_model._MOST_LOGITS", 2000
    )
    scores = SentenceScorer(bert, tokenizer).score(SENTENCES).totals
    np.testing.assert_allclose(scores, expected, atol=2e-5)


def test_the_temperature_divides_logits(bert, tokenizer):
    scores = SentenceScorer(bert, tokenizer, temperature=2.5).score(SENTENCES[:2])
    expected = [naive_score(bert, tokenizer, text, "pll", 2.5) for text in SENTENCES[:2]]
    np.testing.assert_allclose(scores.totals, expected, atol=2e-5)


def test_probabilities_are_in_float32_where_the_model_is_not(tokenizer):
    model = make_masked_model("LVBert").to(torch.bfloat16)
    scores = SentenceScorer(model, tokenizer).score(["A cat"])
    ids = tokenizer("A cat").input_ids
    expected = sum(
        masked_log_probability(model, ids, place, [place], tokenizer.mask_token_id)
        for place in (1, 2)
    )
    # In bfloat16 a logarithm near -5 is off by up to 0.016.
    assert scores.totals[0] == pytest.approx(expected, abs=1e-4)


@torch.no_grad()
def naive_causal_score(model, ids):
    logits = model(input_ids=torch.tensor([ids])).logits[0].double()
    log_probabilities = torch.log_softmax(logits, -1)
    return sum(log_probabilities[place - 1, ids[place]].item() for place in range(1, len(ids)))


def test_a_decoder_is_scored_from_the_token_that_begins_a_text(decoder, byte_tokenizer):
    scores = SentenceScorer(decoder, byte_tokenizer, "causal", batch_size=16).score(SENTENCES)
    for text, score in zip(SENTENCES, scores.totals, strict=True):
        ids = [byte_tokenizer.bos_token_id, *byte_tokenizer(text).input_ids]
        assert score == pytest.approx(naive_causal_score(decoder, ids), abs=2e-5)


def test_without_such_a_token_the_first_is_not_scored(decoder, byte_tokenizer, caplog):
    bare = PreTrainedTokenizerFast(tokenizer_object=byte_tokenizer.backend_tokenizer)
    scores = SentenceScorer(decoder, bare, "causal").score(SENTENCES)
    assert "the first token of a sentence has nothing before it" in caplog.text
    for text, score in zip(SENTENCES, scores.totals, strict=True):
        assert score == pytest.approx(naive_causal_score(decoder, bare(text).input_ids), abs=2e-5)


def test_a_discriminator_is_scored_by_the_probability_of_being_original(tokenizer):
    torch.manual_seed(0)
    model = enlarge(ElectraForPreTraining(ElectraConfig(embedding_size=16, **SIZES)))
    scores = SentenceScorer(model, tokenizer, "rtd").score(SENTENCES)
    for text, score in zip(SENTENCES, scores.totals, strict=True):
        with torch.no_grad():
            logits = model(**tokenizer(text, return_tensors="pt")).logits[0, 1:-1].double()
        assert score == pytest.approx((1 - torch.sigmoid(logits)).log().sum().item(), abs=2e-5)
