"""Libraries that people put around a model work with both families as they come."""

import copy

import pytest
import torch
from transformers import Trainer, TrainingArguments

from tests.families import FAMILIES, build, head_inputs, model_class, padded_batch

BOTH = pytest.mark.parametrize("family", FAMILIES)


# The compiler's own imports.
@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method.*:DeprecationWarning")
@BOTH
def test_a_compiled_model_is_saved_under_plain_names(family, tmp_path):
    model = build(family, "ForMaskedLM")
    torch.compile(model).save_pretrained(tmp_path)
    _, report = model_class(family, "ForMaskedLM").from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not any(report.values()), report


# The name that every transformers 5 takes.
@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning")
@BOTH
def test_the_trainers_checkpointing_gives_the_same_update(family, tmp_path):
    inputs = head_inputs("ForMaskedLM")
    rows = [{name: value[row] for name, value in inputs.items()} for row in range(3)]
    plain = build(family, "ForMaskedLM", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    models = [plain, copy.deepcopy(plain)]
    for checkpointing, model in enumerate(models):
        arguments = TrainingArguments(
            str(tmp_path / str(checkpointing)),
            max_steps=2,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            gradient_checkpointing=bool(checkpointing),
        )
        Trainer(model, arguments, train_dataset=rows).train()
    for (name, first), second in zip(
        models[0].named_parameters(), models[1].parameters(), strict=True
    ):
        torch.testing.assert_close(first, second, atol=1e-6, rtol=1e-5, msg=name)


# peft asks the model by the old name.
@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning")
@BOTH
def test_low_rank_adapters_train_and_merge(family, tmp_path):
    peft = pytest.importorskip("peft", reason="needs peft, which the package does not require")
    targets = {"LVBert": ["query", "value"], "ELCBert": ["query_key", "value"]}[family]
    config = peft.LoraConfig(task_type="SEQ_CLS", target_modules=targets, r=2)
    adapted = peft.get_peft_model(build(family, "ForSequenceClassification"), config)
    inputs = head_inputs("ForSequenceClassification")
    adapted(**inputs).loss.backward()
    trained = [name for name, value in adapted.named_parameters() if value.grad is not None]
    assert trained and all("lora_" in name or "classifier" in name for name in trained)
    adapted.eval()
    expected = adapted(**inputs).logits
    torch.testing.assert_close(adapted.merge_and_unload()(**inputs).logits, expected)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning"
)
@BOTH
def test_exported_to_onnx_it_runs_at_other_lengths(family, tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime and onnxscript")
    pytest.importorskip("onnxscript", reason="needs onnxruntime and onnxscript")
    model = build(family, attention="sdpa")
    model.config.return_dict = False
    batch = padded_batch([7, 4], 7)
    dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    torch.onnx.export(
        model,
        (),
        str(tmp_path / "model.onnx"),
        kwargs=batch,
        dynamic_shapes={"input_ids": dynamic, "attention_mask": dynamic},
        dynamo=True,
        verbose=False,
    )
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"))
    for lengths in ([7, 4], [11, 3, 1], [5, 5]):
        other = padded_batch(lengths, max(lengths), seed=1)
        (got,) = session.run(None, {name: value.numpy() for name, value in other.items()})[:1]
        real = other["attention_mask"].bool()
        expected = model(**other)[0].detach()
        torch.testing.assert_close(
            torch.from_numpy(got)[real], expected[real], atol=1e-4, rtol=1e-3
        )
