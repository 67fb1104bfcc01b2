"""Small language models and tokenizers of several kinds, and scores by their definition."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertTokenizer,
    ElectraConfig,
    ElectraForMaskedLM,
    PreTrainedTokenizerFast,
)

from tests.families import build

TOKENS = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "cat", "dog", "##s", "##ing",
    "sleep", "want", "##ed", "un", "##want", ".", ",", "'", "t",
]  # fmt: skip
SENTENCES = [
    "The cat sleeps.",
    "The dog sleeps.",
    "The cats sleep.",
    "The unwanted dogs, sleeping, wanted a cat.",
    "A cat",
    "The cat's dog isn't unwanteds.",
    "The cat sleeps.",
]
SIZES = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
    "hidden_dropout_prob": 0.5,
}


def make_tokenizer():
    vocabulary = {token: number for number, token in enumerate(TOKENS)}
    return BertTokenizer(vocab=vocabulary, model_max_length=64)


def make_byte_tokenizer():
    """Byte-level words with a token that begins a text, as GPT-2 has."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=60, special_tokens=["<s>"], show_progress=False, initial_alphabet=[]
    )
    trained.train_from_iterator(SENTENCES, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=trained, bos_token="<s>", eos_token="<s>")


def enlarge(model, factor=5.0):
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(factor)
    return model.eval()


def make_masked_model(name):
    torch.manual_seed(0)
    if name in ("LVBert", "ELCBert"):
        return build(name, "ForMaskedLM")
    if name == "Bert":
        return enlarge(BertForMaskedLM(BertConfig(**SIZES)))
    return enlarge(ElectraForMaskedLM(ElectraConfig(embedding_size=16, **SIZES)))


@torch.no_grad()
def masked_log_probability(model, ids, position, masked, mask_id, temperature=1.0):
    copy = torch.tensor([ids])
    copy[0, masked] = mask_id
    logits = model(input_ids=copy, attention_mask=torch.ones_like(copy)).logits[0, position]
    return torch.log_softmax(logits.double() / temperature, -1)[ids[position]].item()


def naive_score(model, tokenizer, text, metric, temperature=1.0):
    """The metric's definition, one copy at a time, with words told by the tokens' signs."""
    ids = tokenizer(text).input_ids
    total = 0.0
    for position in range(1, len(ids) - 1):
        masked = [position]
        if metric == "within_word_l2r":
            for later in range(position + 1, len(ids) - 1):
                if not TOKENS[ids[later]].startswith("##"):
                    break
                masked.append(later)
        total += masked_log_probability(
            model, ids, position, masked, tokenizer.mask_token_id, temperature
        )
    return total
