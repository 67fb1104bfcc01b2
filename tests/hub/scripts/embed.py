"""Opens a repository with sentence-transformers, which is to average over the real tokens."""

import sys

import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

(repo,) = sys.argv[1:]
texts = ["the cat sat on the mat .", "the cat"]
embedder = SentenceTransformer(repo, trust_remote_code=True, device="cpu")
vectors = embedder.encode(texts, convert_to_tensor=True)
tokenizer = AutoTokenizer.from_pretrained(repo)
batch = tokenizer(texts, padding=True, return_tensors="pt")
with torch.no_grad():
    states = AutoModel.from_pretrained(repo, trust_remote_code=True).eval()(**batch)[0]
mask = batch["attention_mask"][..., None]
torch.testing.assert_close(vectors, (states * mask).sum(1) / mask.sum(1), atol=1e-5, rtol=1e-5)
