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
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import datasets
from transformers import (
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainingArguments,
)

from ..configuration_elcbert import ELCBertConfig
from ..configuration_layer_order import LayerOrderConfig
from ..configuration_lvbert import LVBertConfig
from ..modeling_elcbert import ELCBertForMaskedLM
from ..modeling_lvbert import LVBertForMaskedLM
from .arguments import (
    DataArguments,
    ModelArguments,
    build_config,
    check_length,
    check_numbers,
    check_size,
    check_training_arguments,
    resolve_layer_order,
    settle_data_arguments,
    warn_of_options_without_effect,
)
from .checkpoints import claim_output_dir
from .corpus import load_corpus, load_file
from .electra import ElectraConfig, ElectraForPreTraining, derive_generator_config
from .embedded_corpus import load_embedded_corpus
from .initial_model import adopt_saved_model
from .masking import MaskingCollator, check_masking, find_special_ids
from .packing import bind_packing, check_packing, pack_corpus
from .published_packing import find_paragraph_id
from .recipes import describe_effective, write_effective_recipe
from .rows import TrainingData
from .stages import Stage, format_stages
from .streaming import StreamedRows, open_stream
from .tokenizer_training import check_vocab_size, choose_vocab_size, train_tokenizer

_NUM_CHECKED_ROWS = 1000

# Options that leave a run what it is, or that its stages tell.
_NOT_RECORDED = ("preprocessing_num_workers", "max_seq_length", "stages")


@dataclasses.dataclass(frozen=True)
class PreparedRun:
    """What a pre-training run starts from.

    Attributes:
        config: The model's configuration; its vocabulary is the tokenizer's.
        collator: Masks the rows; holds the tokenizer.
        training_data: Rows of training for every stage.
        validation_rows: Packed rows of validation, as long as those of the first stage.
    """

    config: LayerOrderConfig
    collator: MaskingCollator
    training_data: TrainingData
    validation_rows: datasets.Dataset


def prepare_run(
    model_args: ModelArguments,
    config_args: Any,
    data_args: DataArguments,
    training_args: TrainingArguments,
    more_settings: Mapping[str, Any] | None = None,
) -> PreparedRun:
    """Checks the options, claims `output_dir`, and prepares tokenizer, configuration and rows.

    Args:
        model_args: Family, size and objective.
        config_args: `ConfigArguments`.
        data_args: Corpus, tokenizer, packing and masking.
        training_args: Folder and seed.
        more_settings: What else makes the run what it is; JSON values.

    Raises:
        ValueError: Any option or file that cannot be used.
    """
    check_training_arguments(training_args)
    check_numbers(model_args, config_args, data_args)
    adopt_saved_model(model_args, config_args, data_args)
    if config_args.layer_order is not None:
        config_args.layer_order = resolve_layer_order(
            config_args.layer_order, model_args.model_family
        )
    stages = settle_data_arguments(model_args, data_args, training_args)
    tokenizer = _check_options(model_args, config_args, data_args, stages)
    if data_args.streaming and tokenizer is None:
        raise ValueError("streaming: a tokenizer_name is needed, training one reads the whole text")
    _check_packing_for(model_args, data_args, tokenizer)
    with training_args.main_process_first(desc="preparing the data"):
        stream = _open_stream(data_args) if data_args.streaming else None
        corpus = _load_validation(data_args) if data_args.streaming else _load_corpus(data_args)
        run = describe_run(model_args, config_args, data_args, corpus, training_args.seed)
        run.update(more_settings or {}, stages=format_stages(stages))
        claim_output_dir(str(training_args.output_dir), run)
        if tokenizer is None:
            config = build_config(model_args, config_args)
            tokenizer = provide_tokenizer(
                corpus["train"], config, config_args.vocab_size, str(training_args.output_dir)
            )
            # What was asked for is the most that training may give.
            config_args = dataclasses.replace(config_args, vocab_size=None)
        config = build_config(model_args, config_args, tokenizer)
        collator = build_collator(tokenizer, data_args, model_args.objective)
        training_data = _build_training_data(
            stages, stream or corpus["train"], tokenizer, data_args, training_args.seed
        )
        validation_rows = pack_corpus(
            corpus["validation"],
            tokenizer,
            stages[0].max_seq_length,
            num_proc=data_args.preprocessing_num_workers,
            description="Packing (validation)",
            **_choose_packing(data_args, training_args.seed),
        )
        for rows in (validation_rows, *training_data.rows):
            if isinstance(rows, datasets.Dataset):
                _check_rows(rows, tokenizer)
    return PreparedRun(config, collator, training_data, validation_rows)


def _check_packing_for(
    model_args: ModelArguments, data_args: DataArguments, tokenizer: PreTrainedTokenizerBase | None
) -> None:
    if data_args.packing != "sentences":
        return
    if tokenizer is not None:
        find_paragraph_id(tokenizer)
    elif model_args.model_family != "elcbert":
        raise ValueError(
            "packing 'sentences' needs a tokenizer with [PAR], which ELC-BERT's kind has: give "
            "tokenizer_name, or take another packing"
        )


def _check_rows(rows: datasets.Dataset, tokenizer: PreTrainedTokenizerBase) -> None:
    """Checks that the tokenizer knows something of a corpus, by its first rows."""
    special = set(find_special_ids(tokenizer))
    first = rows[:_NUM_CHECKED_ROWS]["input_ids"]
    if not any(token not in special for row in first for token in row):
        raise ValueError(
            f"tokenizer {tokenizer.name_or_path!r} knows no token of the text: it is for another "
            "language or alphabet"
        )


def _open_stream(data_args: DataArguments) -> Callable[[], Iterable[dict[str, str]]]:
    return open_stream(
        data_args.train_file,
        data_args.dataset_name,
        data_args.dataset_config_name,
        data_args.text_column_name,
    )


def _load_corpus(data_args: DataArguments) -> datasets.DatasetDict:
    return load_corpus(
        data_args.train_file,
        data_args.validation_file,
        data_args.dataset_name,
        data_args.dataset_config_name,
        data_args.text_column_name,
        data_args.validation_split_percentage,
    )


def _load_validation(data_args: DataArguments) -> datasets.DatasetDict:
    """Returns the documents of validation alone, those of training being streamed."""
    if data_args.dataset_name is None and data_args.train_file is None:
        return datasets.DatasetDict(validation=load_embedded_corpus()["validation"])
    if data_args.validation_file is None:
        raise ValueError("streaming: a validation_file is needed, a stream cannot be split")
    column = data_args.text_column_name
    return datasets.DatasetDict(
        validation=load_file("validation_file", data_args.validation_file, column)
    )


def _choose_packing(data_args: DataArguments, seed: int) -> dict[str, Any]:
    return {
        "with_word_ids": data_args.masking_unit == "whole_word",
        "packing": data_args.packing,
        "pair_settings": {
            "seed": seed,
            "short_sequence_probability": data_args.short_sequence_probability,
            "single_segment_probability": data_args.single_segment_probability,
        },
    }


def _build_training_data(
    stages: tuple[Stage, ...],
    documents: datasets.Dataset | Callable[[], Iterable[dict[str, str]]],
    tokenizer: PreTrainedTokenizerBase,
    data_args: DataArguments,
    seed: int,
) -> TrainingData:
    """Returns the rows of each stage, packed or, of a stream, to be packed while read."""
    settings = _choose_packing(data_args, seed)
    rows: list[Any] = []
    for stage in stages:
        length = stage.max_seq_length
        if not isinstance(documents, datasets.Dataset):
            rows.append(StreamedRows(documents, bind_packing(tokenizer, length, **settings), seed))
        else:
            rows.append(
                pack_corpus(
                    documents,
                    tokenizer,
                    length,
                    num_proc=data_args.preprocessing_num_workers,
                    description=f"Packing (training, {length} tokens a row)",
                    **settings,
                )
            )
    first, last = data_args.mlm_probability, data_args.final_mlm_probability
    return TrainingData(
        rows,
        stages,
        # Rows of two segments are shortened when they are packed.
        0.0 if data_args.packing == "segment_pairs" else data_args.short_sequence_probability,
        None if last is None else (first, last),
    )


def record_recipe(model_args: ModelArguments, *other_args: Any) -> None:
    """Writes the recipe as the options have changed it to `recipe.json` in the run's folder.

    Args:
        model_args: Names the recipe; without one nothing is written.
        other_args: The other options, those of training last.
    """
    training_args = other_args[-1]
    if model_args.recipe is not None and training_args.should_save:
        options = {
            key: value for args in (model_args, *other_args) for key, value in vars(args).items()
        }
        path = Path(training_args.output_dir, "recipe.json")
        write_effective_recipe(
            path, model_args.recipe, describe_effective(model_args.recipe, options)
        )


def build_collator(
    tokenizer: PreTrainedTokenizerBase, data_args: DataArguments, objective: str
) -> MaskingCollator:
    """Returns the collator that the options describe.

    Args:
        tokenizer: The run's tokenizer.
        data_args: Masking.
        objective: "mlm" or "electra", which needs numbers to sample with.
    """
    masked, random, _ = data_args.replacement_shares
    return MaskingCollator(
        tokenizer,
        data_args.masking_unit,
        data_args.mlm_probability,
        mask_token_fraction=masked,
        random_token_fraction=random,
        with_sample_fractions=objective == "electra",
    )


def build_objective_config(
    config: LayerOrderConfig, model_args: ModelArguments, collator: MaskingCollator
) -> LayerOrderConfig | ElectraConfig:
    """Returns the configuration of what is trained: the model's, or ELECTRA's of both halves.

    Args:
        config: Configuration of the model, for ELECTRA of its discriminator.
        model_args: The objective and its options.
        collator: Its tokenizer has the special tokens.
    """
    if model_args.objective == "electra" and isinstance(config, LVBertConfig):
        special_ids = find_special_ids(collator.tokenizer)
        return _build_electra_config(config, model_args, special_ids)
    return config


def build_model(config: LayerOrderConfig | ElectraConfig) -> PreTrainedModel:
    """Returns a new model for the objective.

    Args:
        config: Result of `build_objective_config`.
    """
    if isinstance(config, ElectraConfig):
        return ElectraForPreTraining(config)
    if isinstance(config, ELCBertConfig):
        return ELCBertForMaskedLM(config)
    if not isinstance(config, LVBertConfig):
        raise ValueError(f"no objective for {type(config).__name__}")
    return LVBertForMaskedLM(config)


def _build_electra_config(
    config: LVBertConfig, model_args: ModelArguments, special_ids: list[int]
) -> ElectraConfig:
    generator = derive_generator_config(config, model_args.generator_size)
    return ElectraConfig(
        discriminator_fields=config.to_dict(),
        generator_fields=generator.to_dict(),
        generator_weight=model_args.generator_weight,
        discriminator_weight=model_args.detection_weight,
        temperature=model_args.temperature,
        disallow_correct=model_args.disallow_correct,
        uniform_generator=model_args.uniform_generator,
        tie_embeddings=not model_args.untied_generator,
        special_token_ids=special_ids,
    )


def _check_options(
    model_args: ModelArguments,
    config_args: Any,
    data_args: DataArguments,
    stages: tuple[Stage, ...],
) -> PreTrainedTokenizerBase | None:
    """Checks all that can be checked before any work, and returns the named tokenizer."""
    config = build_config(model_args, config_args)
    check_size(config)
    for stage in stages:
        check_length(config, stage.max_seq_length)
        check_packing(data_args.packing, stage.max_seq_length)
    check_masking(data_args.masking_unit, data_args.mlm_probability)
    if data_args.final_mlm_probability is not None:
        check_masking(data_args.masking_unit, data_args.final_mlm_probability)
    _check_data_numbers(data_args)
    if model_args.objective == "electra" and isinstance(config, LVBertConfig):
        _build_electra_config(config, model_args, [])
    warn_of_options_without_effect(model_args)
    name = data_args.tokenizer_name
    if name is None:
        if config_args.vocab_size is not None:
            check_vocab_size(config_args.vocab_size)
        return None
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    # A damaged file makes the library raise anything.
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise ValueError(f"tokenizer_name {name!r} cannot be loaded: {reason}") from error
    build_config(model_args, config_args, tokenizer)
    return tokenizer


def _check_data_numbers(data_args: DataArguments) -> None:
    shares = data_args.replacement_shares
    if len(shares) != 3 or min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
        raise ValueError(
            f"replacement_shares {shares}: three shares are needed (masked, random, unchanged) "
            "that add up to 1"
        )
    for option in ("short_sequence_probability", "single_segment_probability"):
        if not 0 <= getattr(data_args, option) <= 1:
            raise ValueError(f"{option} {getattr(data_args, option)}: must be from 0 to 1")
    workers = data_args.preprocessing_num_workers
    if workers is not None and workers < 1:
        raise ValueError(f"preprocessing_num_workers {workers}: must be at least 1")


def describe_run(
    model_args: ModelArguments,
    config_args: Any,
    data_args: DataArguments,
    corpus: datasets.DatasetDict,
    seed: int,
) -> dict[str, Any]:
    """Returns what makes a run the run it is, for `claim_output_dir`: options, corpus and seed.

    Options that have their defaults are left out: a later version with more options still knows the
    run.
    """
    given = {
        field.name: getattr(arguments, field.name)
        for arguments in (model_args, config_args, data_args)
        for field in dataclasses.fields(arguments)
        if field.name not in _NOT_RECORDED and not _has_default(arguments, field)
    }
    sizes = {f"{split}_documents": len(documents) for split, documents in corpus.items()}
    return {
        **given,
        **sizes,
        "corpus_bytes": sum(part.data.nbytes for part in corpus.values()),
        "seed": seed,
    }


def _has_default(arguments: Any, field: dataclasses.Field) -> bool:
    factory = field.default_factory
    default = field.default if factory is dataclasses.MISSING else factory()
    return bool(getattr(arguments, field.name) == default)


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
