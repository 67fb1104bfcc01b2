"""Fine-tunes models of the Hub for two steps and pushes them the way the Trainer does.

The arguments are a folder for records, and the models.
"""

import sys

import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
)

rows = [{"input_ids": torch.arange(5, 11), "labels": index % 2} for index in range(4)]
for source in sys.argv[2:]:
    name = source.removeprefix("owner/")
    model = AutoModelForSequenceClassification.from_pretrained(source, trust_remote_code=True)
    tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=True)
    arguments = TrainingArguments(
        f"run-{name}",
        max_steps=2,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        push_to_hub=True,
        hub_model_id=f"other/tuned-{name}",
        save_strategy="no",
    )
    trainer = Trainer(model, arguments, train_dataset=rows, processing_class=tokenizer)
    trainer.train()
    trainer.push_to_hub()
    input_ids = torch.arange(5, 11)[None]
    with torch.no_grad():
        outputs = model.eval()(input_ids=input_ids)[0]
    kept = {"input_ids": input_ids, "outputs": outputs, "weights": model.state_dict()}
    torch.save(kept, f"{sys.argv[1]}/{name}.pt")
