"""Opens tokenizers, and runs the pipelines of every task, from repositories."""

import sys

import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer, pipeline
from transformers.pipelines import PIPELINE_REGISTRY

TEXT = "The old sea was full of small ships ."
for repo in sys.argv[1:]:
    for trusted in (True, False):
        tokenizer = AutoTokenizer.from_pretrained(repo, trust_remote_code=trusted)
        ids = tokenizer("sea", "ship")["input_ids"]
        assert ids[0] == tokenizer.cls_token_id
        assert [ids.index(tokenizer.sep_token_id), ids[-1]] == [2, tokenizer.sep_token_id]
    options = {"model": repo, "trust_remote_code": True}
    fill = pipeline("fill-mask", **options)
    guesses = fill(TEXT.replace("sea", fill.tokenizer.mask_token), top_k=3)
    assert len(guesses) == 3 and all("old" in guess["sequence"].lower() for guess in guesses)
    assert [guess["score"] for guess in guesses] == sorted(
        (guess["score"] for guess in guesses), reverse=True
    )
    (label,) = pipeline("text-classification", **options)(TEXT)
    assert label["label"] in ("LABEL_0", "LABEL_1")
    words = pipeline("token-classification", **options)(TEXT)
    assert len(words) == len(fill.tokenizer(TEXT, add_special_tokens=False)["input_ids"])
    assert all(TEXT[word["start"] : word["end"]] for word in words)
    question = "What was full ?"
    # Later releases of transformers have no such pipeline: what remains is the head.
    if "question-answering" in PIPELINE_REGISTRY.get_supported_tasks():
        answer = pipeline("question-answering", **options)(question=question, context=TEXT)
        assert answer["answer"] == TEXT[answer["start"] : answer["end"]]
    else:
        model = AutoModelForQuestionAnswering.from_pretrained(repo, trust_remote_code=True)
        inputs = fill.tokenizer(question, TEXT, return_tensors="pt")
        outputs = model(**inputs)
        for logits in (outputs.start_logits, outputs.end_logits):
            assert logits.shape == inputs["input_ids"].shape
            assert torch.isfinite(logits).all()
    ((vector, *_),) = pipeline("feature-extraction", **options)(TEXT)
    assert len(vector) == 32
