import pytest
import torch
from transformers import TrainerCallback, TrainingArguments

from modeling_lvbert import ELCBertConfig, LVBertConfig
from modeling_lvbert.pretraining.checkpoints import find_last_checkpoint
from modeling_lvbert.pretraining.electra import ElectraConfig, derive_generator_config
from modeling_lvbert.pretraining.masking import MaskingCollator
from modeling_lvbert.pretraining.rows import TrainingData
from modeling_lvbert.pretraining.stages import Stage
from modeling_lvbert.pretraining.trainer import OptimizationSettings
from modeling_lvbert.search.supernet import build_supernet, make_supernet_order
from modeling_lvbert.search.supernet_trainer import ElectraSupernetTrainer, SupernetTrainer

NUM_LAYERS = 4


class Recorder(TrainerCallback):
    """Keeps all parameters and moments after each step."""

    def __init__(self):
        self.steps = []

    def on_step_end(self, args, state, control, model=None, optimizer=None, **kwargs):
        optimizer = getattr(optimizer, "optimizer", optimizer)
        self.steps.append(
            {
                name: (
                    parameter.detach().clone(),
                    {
                        key: value.clone()
                        for key, value in optimizer.state.get(parameter, {}).items()
                    },
                )
                for name, parameter in model.named_parameters()
            }
        )


def make_trainer(
    kind, tokenizer, rows, folder, callbacks=(), sampling="uniform", dropout=0.1, **options
):
    settings = {
        "use_cpu": True,
        "disable_tqdm": True,
        "report_to": "none",
        "dataloader_pin_memory": False,
        "logging_steps": 1,
        "learning_rate": 1e-2,
        "weight_decay": 0.1,
        "max_steps": 6,
        "per_device_train_batch_size": 4,
        "save_strategy": "no",
        **options,
    }
    args = TrainingArguments(output_dir=str(folder), **settings)
    sizes = {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "hidden_size": 16,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
    }
    torch.manual_seed(1)
    if kind == "elcbert":
        order = make_supernet_order(NUM_LAYERS, kind)
        config = ELCBertConfig(layer_order=order, **sizes)
    else:
        order = make_supernet_order(NUM_LAYERS, "lvbert")
        config = LVBertConfig(layer_order=order, embedding_size=16, **sizes)
    if kind == "electra":
        generator = derive_generator_config(config, 0.5)
        config = ElectraConfig(
            discriminator_fields=config.to_dict(), generator_fields=generator.to_dict()
        )
    trainer_class = ElectraSupernetTrainer if kind == "electra" else SupernetTrainer
    return trainer_class(
        build_supernet(config),
        args,
        TrainingData([rows], (Stage(1.0, 16, 1.0),)),
        rows,
        MaskingCollator(tokenizer, with_sample_fractions=kind == "electra"),
        callbacks,
        OptimizationSettings(optimizer="lamb" if kind == "elcbert" else "uncorrected_adamw"),
        path_sampling=sampling,
    )


@pytest.mark.parametrize("optimizer", ["lamb", "uncorrected_adamw", "adamw", None])
@pytest.mark.parametrize("kind", ["lvbert", "electra", "elcbert"])
def test_layers_off_the_path_are_left_alone(tokenizer, rows, tmp_path, kind, optimizer):
    if kind != "lvbert" and optimizer == "adamw":
        pytest.skip("one family says it")
    recorder = Recorder()
    trainer = make_trainer(kind, tokenizer, rows, tmp_path, [recorder])
    trainer._optimization.optimizer = optimizer
    start = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    trainer.train()
    before = {name: (value, {}) for name, value in start.items()}
    for step, after in enumerate(recorder.steps):
        (path,) = trainer.draw_paths(42, step)
        letters = path.replace(" ", "")
        assert len(letters) == NUM_LAYERS
        for name, (value, moments) in after.items():
            if ".positions." not in name:
                continue
            place, letter = name.split(".positions.")[1].split(".")[:2]
            is_on_path = letters[int(place)] == letter
            is_same = torch.equal(value, before[name][0])
            # A bias before a softmax over keys has no gradient worth the name.
            if is_on_path and not name.endswith("key.bias"):
                assert moments
                assert not is_same, name
            if not is_on_path:
                assert is_same, name
                assert moments.keys() == before[name][1].keys()
                assert all(torch.equal(v, before[name][1][k]) for k, v in moments.items())
        before = after


@pytest.mark.parametrize("kind", ["lvbert", "electra", "elcbert"])
@pytest.mark.parametrize("sampling", ["balanced", "strict"])
def test_a_stopped_supernet_goes_on_to_the_last_bit(tokenizer, rows, tmp_path, kind, sampling):
    def start(folder, **options):
        return make_trainer(kind, tokenizer, rows, folder, sampling=sampling, **options)

    whole = start(tmp_path / "whole")
    whole.train_from(None)
    # As if it was killed after its third step.
    stopped = start(tmp_path / "stopped", save_strategy="steps", save_steps=3)
    stopped.callback_handler.callbacks.append(_StopAt(4))
    with pytest.raises(KeyboardInterrupt):
        stopped.train_from(None)
    rest = start(tmp_path / "stopped", save_strategy="steps", save_steps=3)
    rest.train_from(find_last_checkpoint(str(tmp_path / "stopped")))
    weights = whole.model.state_dict()
    assert all(torch.equal(weights[name], w) for name, w in rest.model.state_dict().items())


class _StopAt(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise KeyboardInterrupt


def test_strict_fairness_trains_every_layer_in_one_step(tokenizer, rows, tmp_path):
    trainer = make_trainer("lvbert", tokenizer, rows, tmp_path, sampling="strict", max_steps=1)
    start = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    trainer.train()
    for name, parameter in trainer.model.named_parameters():
        if ".positions." in name and not name.endswith("key.bias"):
            assert not torch.equal(parameter, start[name]), name


def test_strict_fairness_s_step_is_the_mean_over_its_paths(tokenizer, rows, tmp_path):
    options = {"max_steps": 1, "learning_rate": 0.0, "max_grad_norm": 0.0}
    trainer = make_trainer("lvbert", tokenizer, rows, tmp_path, sampling="strict", **options)
    trainer.model.eval()
    batch = next(iter(trainer.get_train_dataloader()))
    inputs = {k: v for k, v in batch.items() if k not in ("row_numbers", "stream_position")}
    losses, gradients = [], []
    for path in trainer.draw_paths(42, 0):
        trainer.model.zero_grad()
        loss = trainer.model(**inputs, layer_order=path).loss
        loss.backward()
        losses.append(loss.item())
        gradients.append(trainer.model.lvbert.embeddings.word_embeddings.weight.grad.clone())
    trainer.model.zero_grad()
    trainer.model.train = lambda mode=True: trainer.model
    count = (batch["labels"] != -100).sum()
    loss = trainer.training_step(trainer.model, batch, count)
    assert loss.item() == pytest.approx(sum(losses) / 3, rel=1e-5)
    found = trainer.model.lvbert.embeddings.word_embeddings.weight.grad
    torch.testing.assert_close(found, torch.stack(gradients).mean(dim=0))


def test_accumulation_changes_no_path_and_no_weight(tokenizer, rows, tmp_path):
    runs = []
    for size, accumulated in ((4, 1), (1, 4)):
        trainer = make_trainer(
            "lvbert", tokenizer, rows, tmp_path / str(size), per_device_train_batch_size=size,
            gradient_accumulation_steps=accumulated, learning_rate=0.1, optim="sgd", dropout=0.0,
        )  # fmt: skip
        trainer._optimization.optimizer = None
        trainer.train()
        runs.append(trainer.model)
    for one, other in zip(runs[0].parameters(), runs[1].parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
