"""What shows that a model, a tokenizer or a sentence cannot be scored by a metric."""

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

from modeling_lvbert.evaluation.minimal_pairs.pseudo_likelihood import SentenceScorer
from modeling_lvbert.evaluation.minimal_pairs.pseudo_likelihood_model import count_shifted_hits
from modeling_lvbert.evaluation.minimal_pairs.pseudo_likelihood_plan import EncodedSentence
from tests.evaluation.minimal_pairs.language_models import (
    SENTENCES,
    SIZES,
    TOKENS,
    make_masked_model,
)


class Copier(torch.nn.Module):
    """Says at each position which token is `shift` to the right of it."""

    def __init__(self, shift):
        super().__init__()
        self.shift = shift
        self.device = torch.device("cpu")

    def forward(self, input_ids, attention_mask):
        moved = torch.roll(input_ids, -self.shift, dims=1)
        return {"logits": 9.0 * torch.nn.functional.one_hot(moved, 99)}


def varied_sentences():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(5, 99, (40, 12), generator=generator).tolist()
    return [EncodedSentence((2, *row, 3), tuple(range(1, 13))) for row in rows]


@pytest.mark.parametrize("shift", [-1, 0, 1, 2])
def test_the_shift_of_a_model_that_copies_is_found(shift):
    hits, num_tokens = count_shifted_hits(Copier(shift), varied_sentences())
    assert max(hits, key=hits.get) == shift
    assert hits[shift] >= 0.9 * num_tokens > 10 * hits.get(shift - 1, 0)


def test_a_model_that_always_says_the_same_word_has_as_many_hits_at_every_shift():
    class Same(Copier):
        def forward(self, input_ids, attention_mask):
            return {"logits": torch.nn.functional.one_hot(torch.full_like(input_ids, 7), 99)}

    hits, _ = count_shifted_hits(Same(0), varied_sentences())
    assert hits[0] > 0
    assert len({hits[shift] for shift in (-1, 0)}) == 1


def test_a_model_whose_logits_are_of_the_next_token_is_refused(bert, tokenizer, monkeypatch):
    monkeypatch.setattr(bert, "forward", Copier(1).forward)
    with pytest.raises(ValueError, match=r"token \+1 from there.*at shift 0"):
        SentenceScorer(bert, tokenizer).score(SENTENCES)


def test_a_model_whose_weights_are_damaged_is_refused(tokenizer):
    model = make_masked_model("Bert")
    with torch.no_grad():
        model.cls.predictions.decoder.bias[7] = float("nan")
    with pytest.raises(ValueError, match="not finite"):
        SentenceScorer(model, tokenizer).score(SENTENCES)


def test_tokens_without_a_row_in_the_model_are_named(tokenizer):
    model = BertForMaskedLM(BertConfig(**{**SIZES, "vocab_size": len(TOKENS) - 2}))
    with pytest.raises(ValueError, match=r"no row for: \"'\" \(18\), 't' \(19\)"):
        SentenceScorer(model, tokenizer)


def test_a_tokenizer_without_a_mask_is_refused(bert, byte_tokenizer):
    with pytest.raises(ValueError, match="no mask token; a decoder is scored"):
        SentenceScorer(bert, byte_tokenizer)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("\u200b", "has no token that can be scored"),
        ("the " * 70, "72 tokens, but the model takes 64 at most"),
    ],
)
def test_sentences_that_cannot_be_scored_are_refused_by_name(bert, tokenizer, text, reason):
    scorer = SentenceScorer(bert, tokenizer)
    with pytest.raises(ValueError, match=f"^line 2: .*{reason}"):
        scorer.score(["A cat", text, text], ["line 1", "line 2", "line 3"])


@pytest.mark.parametrize(
    "options",
    [
        {"metric": "perplexity"},
        {"temperature": 0.0},
        {"temperature": float("nan")},
        {"batch_size": 0},
    ],
)
def test_settings_out_of_range_are_refused(bert, tokenizer, options):
    name = next(iter(options))
    with pytest.raises(ValueError, match=f"^{name} "):
        SentenceScorer(bert, tokenizer, **options)


def test_a_model_that_sees_later_tokens_is_no_decoder(bert, tokenizer):
    with pytest.raises(ValueError, match="sees the tokens after a position"):
        SentenceScorer(bert, tokenizer, "causal").score(SENTENCES)


def test_a_masked_language_model_is_no_discriminator(bert, tokenizer):
    with pytest.raises(ValueError, match="BertForMaskedLM is no discriminator"):
        SentenceScorer(bert, tokenizer, "rtd").score(SENTENCES)
