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
"""From options to what the Trainer needs: a folder, a tokenizer, a configuration and packed rows.

Every rank calls `prepare_run`, rank 0 first; the others find its work in the cache.
"""

import dataclasses
from pathlib import Path
from typing import Any

import datasets
from transformers import AutoTokenizer, PreTrainedTokenizerBase, TrainingArguments

from ..configuration_layer_order import LayerOrderConfig
from .arguments import DataArguments, ModelArguments, build_config, check_length
from .corpus import load_corpus
from .masking import MaskingCollator, check_masking
from .packing import pack_corpus
from .tokenizer_training import check_vocab_size, choose_vocab_size, train_tokenizer
from .trainer import claim_output_dir


@dataclasses.dataclass(frozen=True)
class PreparedRun:
    """What a pre-training run starts from.

    Attributes:
        config: The model's configuration; its vocabulary is the tokenizer's.
        collator: Masks the rows; holds the tokenizer.
        train_rows: Packed rows of training.
        validation_rows: Packed rows of validation.
    """

    config: LayerOrderConfig
    collator: MaskingCollator
    train_rows: datasets.Dataset
    validation_rows: datasets.Dataset


def prepare_run(
    model_args: ModelArguments,
    config_args: Any,
    data_args: DataArguments,
    training_args: TrainingArguments,
) -> PreparedRun:
    """Checks the options, claims `output_dir`, and prepares tokenizer, configuration and rows.

    Args:
        model_args: Family, size and objective.
        config_args: `ConfigArguments`.
        data_args: Corpus, tokenizer, packing and masking.
        training_args: Folder and seed.

    Raises:
        ValueError: Any option or file that cannot be used.
    """
    tokenizer = _check_options(model_args, config_args, data_args)
    with training_args.main_process_first(desc="preparing the data"):
        corpus = load_corpus(
            data_args.train_file,
            data_args.validation_file,
            data_args.dataset_name,
            data_args.dataset_config_name,
            data_args.text_column_name,
            data_args.validation_split_percentage,
        )
        run = describe_run(model_args, config_args, data_args, corpus, training_args.seed)
        claim_output_dir(str(training_args.output_dir), run)
        if tokenizer is None:
            config = build_config(model_args, config_args)
            tokenizer = provide_tokenizer(
                corpus["train"], config, config_args.vocab_size, str(training_args.output_dir)
            )
            # What was asked for is the most that training may give.
            config_args = dataclasses.replace(config_args, vocab_size=None)
        config = build_config(model_args, config_args, tokenizer)
        collator = MaskingCollator(tokenizer, data_args.masking_unit, data_args.mlm_probability)
        rows = {
            split: pack_corpus(
                corpus[split],
                tokenizer,
                data_args.max_seq_length,
                with_word_ids=data_args.masking_unit == "whole_word",
                num_proc=data_args.preprocessing_num_workers,
                description=f"Packing ({split})",
            )
            for split in ("train", "validation")
        }
    return PreparedRun(config, collator, rows["train"], rows["validation"])


def _check_options(
    model_args: ModelArguments, config_args: Any, data_args: DataArguments
) -> PreTrainedTokenizerBase | None:
    """Checks all that can be checked before any work, and returns the named tokenizer."""
    config = build_config(model_args, config_args)
    check_length(config, data_args.max_seq_length)
    check_masking(data_args.masking_unit, data_args.mlm_probability)
    name = data_args.tokenizer_name
    if name is None:
        if config_args.vocab_size is not None:
            check_vocab_size(config_args.vocab_size)
        return None
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"tokenizer_name {name!r} cannot be loaded: {error}") from None
    build_config(model_args, config_args, tokenizer)
    return tokenizer


def describe_run(
    model_args: ModelArguments,
    config_args: Any,
    data_args: DataArguments,
    corpus: datasets.DatasetDict,
    seed: int,
) -> dict[str, Any]:
    """Returns what makes a run the run it is, for `claim_output_dir`: options, corpus and seed."""
    options = {
        **dataclasses.asdict(model_args),
        **dataclasses.asdict(config_args),
        **dataclasses.asdict(data_args),
    }
    options.pop("preprocessing_num_workers")
    given = {name: value for name, value in options.items() if value is not None}
    sizes = {f"{split}_documents": len(documents) for split, documents in corpus.items()}
    return {
        **given,
        **sizes,
        "corpus_bytes": sum(part.data.nbytes for part in corpus.values()),
        "seed": seed,
    }


def provide_tokenizer(
    documents: datasets.Dataset, config: LayerOrderConfig, vocab_size: int | None, output_dir: str
) -> PreTrainedTokenizerBase:
    """Trains a tokenizer of the model's kind, kept in the run's folder and taken from there later.

    Args:
        documents: Training documents.
        config: The model's configuration.
        vocab_size: Size of the vocabulary; by the size of the corpus if None.
        output_dir: The run's folder.
    """
    folder = Path(output_dir)
    if not (folder / "tokenizer.json").is_file():
        size = vocab_size or choose_vocab_size(documents)
        tokenizer = train_tokenizer(
            documents, config.model_type, size, config.max_position_embeddings
        )
        temporary = folder / ".tokenizer"
        tokenizer.save_pretrained(temporary)
        # tokenizer.json comes last: where it is, all is.
        for path in sorted(temporary.iterdir(), key=lambda path: path.name == "tokenizer.json"):
            path.rename(folder / path.name)
        temporary.rmdir()
    return AutoTokenizer.from_pretrained(output_dir)
