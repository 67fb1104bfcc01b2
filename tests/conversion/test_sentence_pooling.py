import json
import subprocess
import sys

import pytest
import torch

from conversion.sentence_pooling import FILES, write_pooling

from .published_runs import make_tokenizer, save_model

ENCODE = """
import json, sys
sys.modules["modeling_lvbert"] = None
from sentence_transformers import SentenceTransformer
encoder = SentenceTransformer(sys.argv[1], trust_remote_code=True, device="cpu")
print(json.dumps(encoder.encode(["the cat sat", "on"]).tolist()))
"""


def test_the_files_say_mean_pooling(tmp_path):
    write_pooling(tmp_path, 32, 64)
    modules, sentence, pooling = (json.loads((tmp_path / name).read_text()) for name in FILES)
    assert [module["path"] for module in modules] == ["", "1_Pooling"]
    assert sentence["max_seq_length"] == 64
    modes = [name for name, value in pooling.items() if value is True]
    assert modes == ["pooling_mode_mean_tokens"]
    assert pooling["word_embedding_dimension"] == 32


@pytest.mark.slow
@pytest.mark.parametrize("family", ["LVBert", "ELCBert"])
def test_sentence_transformers_averages_the_tokens(family, tmp_path):
    pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")
    model = save_model(tmp_path, family)
    write_pooling(tmp_path, 32, 64)
    result = subprocess.run(
        [sys.executable, "-I", "-W", "ignore", "-c", ENCODE, str(tmp_path)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-2000:]
    got = torch.tensor(json.loads(result.stdout.splitlines()[-1]))
    batch = make_tokenizer()(["the cat sat", "on"], padding=True, return_tensors="pt")
    batch.pop("token_type_ids", None)
    with torch.no_grad():
        hidden = model.base_model(**batch)[0]
    mask = batch["attention_mask"].unsqueeze(-1)
    torch.testing.assert_close(got, (hidden * mask).sum(1) / mask.sum(1), atol=1e-5, rtol=1e-5)
