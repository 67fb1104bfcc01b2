r"""Pre-trains an LV-BERT or ELC-BERT by masked language modelling, an LV-BERT also as ELECTRA.

    python examples/run_pretraining.py --model_family lvbert --model_size tiny \
        --max_steps 1000 --per_device_train_batch_size 16 --learning_rate 1e-3 --warmup_steps 100 \
        --output_dir runs/lvbert-tiny

trains on the text that comes with Python; `--train_file` or `--dataset_name` names another corpus.
Started again with the same `--output_dir`, the same command goes on from the last complete
checkpoint. All options may come from one .json or .yaml file instead.
"""

import logging
from typing import Any

from transformers import TrainingArguments, set_seed

from modeling_lvbert.pretraining.arguments import (
    ConfigArguments,
    DataArguments,
    ModelArguments,
)
from modeling_lvbert.pretraining.checkpoints import find_last_checkpoint
from modeling_lvbert.pretraining.electra_trainer import ElectraTrainer
from modeling_lvbert.pretraining.figures import draw_run_figures
from modeling_lvbert.pretraining.initial_model import load_initial_weights
from modeling_lvbert.pretraining.launching import run_script
from modeling_lvbert.pretraining.preparation import (
    build_model,
    build_objective_config,
    prepare_run,
    record_recipe,
)
from modeling_lvbert.pretraining.trainer import (
    MaskedLanguageModelingTrainer,
    OptimizationSettings,
    compute_unigram_entropy,
)

logger = logging.getLogger("run_pretraining")
KINDS = (
    ModelArguments,
    ConfigArguments,
    DataArguments,
    OptimizationSettings,
    TrainingArguments,
)
TRAINERS = {"mlm": MaskedLanguageModelingTrainer, "electra": ElectraTrainer}


def main(
    model_args: ModelArguments,
    config_args: Any,
    data_args: DataArguments,
    optimization: OptimizationSettings,
    training_args: TrainingArguments,
) -> dict[str, float]:
    """Trains, saves the model and returns the metrics of validation."""
    chosen = optimization.list_chosen(training_args)
    prepared = prepare_run(model_args, config_args, data_args, training_args, chosen)
    record_recipe(model_args, config_args, data_args, optimization, training_args)
    set_seed(training_args.seed)
    config = build_objective_config(prepared.config, model_args, prepared.collator)
    model = build_model(config)
    if model_args.model_name_or_path is not None:
        load_initial_weights(model, model_args.model_name_or_path)
    logger.info("%s parameters, %s", model.num_parameters(), prepared.training_data.describe())
    trainer = TRAINERS[model_args.objective](
        model,
        training_args,
        prepared.training_data,
        prepared.validation_rows,
        prepared.collator,
        optimization=optimization,
    )
    trainer.train_from(find_last_checkpoint(training_args.output_dir))
    metrics = trainer.evaluate()
    tokenizer = prepared.collator.tokenizer
    metrics["eval_unigram_entropy"] = compute_unigram_entropy(prepared.validation_rows, tokenizer)
    metrics["num_parameters"] = model.num_parameters()
    trainer.log_metrics("eval", metrics)
    trainer.save_metrics("eval", metrics)
    with trainer.averaged_weights():
        draw_run_figures(trainer, training_args.output_dir, metrics["eval_unigram_entropy"])
    return metrics


def run(arguments: list[str] | None = None) -> None:
    """Runs the command line; what the user got wrong becomes one line and exit code 1."""
    run_script(main, KINDS, arguments, __doc__, goes_on=True)


if __name__ == "__main__":
    run()
