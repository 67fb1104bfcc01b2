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
"""What a fine-tuning is, and whether its options go together: checked before any work."""

from typing import Any

from transformers import TrainingArguments
from transformers.trainer_utils import SaveStrategy

from ..model_loading import ModelArguments
from ..run_checks import check_best_metric, describe_run
from .glue import SYMMETRIC_TASKS
from .options import TASK_METRIC, FineTuningArguments
from .task_data import TaskArguments


def describe_fine_tuning(
    model_args: ModelArguments,
    task_args: TaskArguments,
    training_args: TrainingArguments,
    method: FineTuningArguments,
) -> dict[str, Any]:
    """Returns what makes a run the run it is: options that are not at their defaults."""
    run = describe_run(
        (model_args, task_args, method),
        training_args,
        scores_only=task_args.SCORES_ONLY,
        # The options that a recipe stands for are here themselves.
        ignored=("recipe", "num_trials"),
    )
    if run.get("metric_for_best_model") == TASK_METRIC:
        del run["metric_for_best_model"]
    if method.num_trials > 1:
        run["has_trials"] = True
    return run


def check_method(
    method: FineTuningArguments, task_args: TaskArguments, training_args: TrainingArguments
) -> None:
    """Checks that options of fine-tuning go with the task and with the Trainer's.

    Raises:
        ValueError: They do not.
    """
    task = task_args.task_name
    if method.pair_both_orders and task and task not in SYMMETRIC_TASKS:
        raise ValueError(
            f"pair_both_orders: the order of the texts matters in task {task!r}; it does not in "
            f"{', '.join(SYMMETRIC_TASKS)}"
        )
    if method.early_stopping_patience is not None and not training_args.load_best_model_at_end:
        raise ValueError(
            f"early_stopping_patience {method.early_stopping_patience}: load_best_model_at_end is "
            "needed, else the model is the last and not the best"
        )
    if method.num_trials > 1:
        if not (training_args.do_train and training_args.do_eval):
            raise ValueError(
                f"num_trials {method.num_trials}: do_train and do_eval are needed, trials are "
                "compared by their scores"
            )
        if training_args.resume_from_checkpoint is not None:
            raise ValueError(
                f"num_trials {method.num_trials}: each trial goes on by itself, without "
                "resume_from_checkpoint"
            )


def choose_best_metric(
    training_args: TrainingArguments, main_metric: str, scores: list[str]
) -> str | None:
    """Returns the metric that checkpoints are chosen by, None where none is chosen.

    Args:
        training_args: With `TASK_METRIC` where the user named none.
        main_metric: The task's own.
        scores: All scores that there are.

    Raises:
        ValueError: The user named one that there is not.
    """
    wanted = training_args.metric_for_best_model
    if wanted == TASK_METRIC:
        is_used = (
            training_args.load_best_model_at_end
            or training_args.save_strategy == SaveStrategy.BEST
            or training_args.lr_scheduler_type in ("reduce_lr_on_plateau", "greedy")
        )
        return main_metric if is_used else None
    check_best_metric(training_args, scores)
    return wanted
