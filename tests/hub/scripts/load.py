"""Opens models as strangers do and compares their outputs with those recorded at the push.

The argument is a list of {"repo", "auto", "expected", ...}, the rest being options of
`from_pretrained`; an entry with "refused" has the name of the exception that it must raise.
"""

import json
import sys

import torch
import transformers

told = []
for task in json.loads(sys.argv[1]):
    repo, auto = task.pop("repo"), getattr(transformers, task.pop("auto"))
    expected, refused = task.pop("expected", None), task.pop("refused", None)
    options = {"trust_remote_code": True, **task}
    if refused is not None:
        try:
            auto.from_pretrained(repo, **options)
        except Exception as error:
            assert type(error).__name__ == refused, repr(error)
            told.append({"message": str(error)})
            continue
        raise AssertionError(f"{repo} opened with {options}")
    model, report = auto.from_pretrained(repo, output_loading_info=True, **options)
    record = torch.load(expected)
    with torch.no_grad():
        outputs = model.eval()(input_ids=record["input_ids"])[0]
    assert not any(report.values()), report
    weights = model.state_dict()
    assert weights.keys() == record["weights"].keys()
    assert all(torch.equal(weight, record["weights"][name]) for name, weight in weights.items())
    # Equal weights at other addresses in memory may give sums that differ in their last bit.
    torch.testing.assert_close(outputs, record["outputs"], rtol=0.0, atol=1e-6)
    told.append(
        {
            "module": type(model).__module__,
            "auto_map": model.config.auto_map,
        }
    )
sys.stdout.write(f"\nRESULT {json.dumps(told)}\n")
