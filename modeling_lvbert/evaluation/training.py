# Copyright 2026 The lvbert authors.
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
"""What every fine-tuning leaves in its folder: the model, the Trainer's state, and metrics."""

from transformers import Trainer


def train(trainer: Trainer, num_samples: int) -> dict[str, float]:
    """Trains, saves the model and returns the metrics of training.

    Args:
        trainer: The Trainer.
        num_samples: How many rows or texts it trains on, for the metrics.
    """
    checkpoint = trainer.args.resume_from_checkpoint
    metrics = trainer.train(resume_from_checkpoint=checkpoint).metrics
    metrics["train_samples"] = num_samples
    trainer.save_model()
    trainer.save_state()
    report(trainer, "train", metrics)
    return metrics


def report(trainer: Trainer, prefix: str, metrics: dict[str, float]) -> None:
    """Logs metrics, and writes them to a file of their own and to `all_results.json`.

    Args:
        trainer: The Trainer.
        prefix: Begins the file's name: train, eval or predict.
        metrics: The metrics.
    """
    trainer.log_metrics(prefix, metrics)
    trainer.save_metrics(prefix, metrics)
