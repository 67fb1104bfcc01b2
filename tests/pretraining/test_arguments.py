import dataclasses
import json

import pytest
from transformers import BertTokenizer, PreTrainedConfig, TrainingArguments

from modeling_lvbert import ELCBertConfig, LVBertConfig
from modeling_lvbert.pretraining.arguments import (
    CONFIGS,
    ConfigArguments,
    DataArguments,
    ModelArguments,
    build_config,
    check_length,
    parse_arguments,
)

KINDS = (ModelArguments, ConfigArguments, DataArguments, TrainingArguments)
FLAGS = [
    "--model_family=elcbert", "--model_size=base", "--layer_order", "sf d", "--hidden_size=24",
    "--num_attention_heads", "3", "--conv_mask_padding", "false", "--layer_norm_eps=1e-6",
    "--max_seq_length=32", "--output_dir=out", "--learning_rate=1e-3", "--use_cpu",
]  # fmt: skip


def parse(*arguments):
    return parse_arguments(KINDS, list(arguments), None)


def make_tokenizer(size):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(size - 5))]
    return BertTokenizer(vocab={token: number for number, token in enumerate(tokens)})


@pytest.mark.parametrize("family", list(CONFIGS))
def test_every_own_field_of_a_configuration_is_a_flag(family):
    own = {
        field.name
        for field in dataclasses.fields(CONFIGS[family])
        if not hasattr(PreTrainedConfig, field.name)
    }
    flags = {field.name for field in dataclasses.fields(ConfigArguments)}
    assert own - flags == {"pad_token_id", "bos_token_id", "eos_token_id"}
    assert {"layer_order", "hidden_size", "conv_kernel_size", "tie_word_embeddings"} <= flags & own


def test_flags_override_the_size():
    model_args, config_args, data_args, training_args = parse(*FLAGS)
    config = build_config(model_args, config_args)
    assert isinstance(config, ELCBertConfig)
    assert (config.layer_order, config.hidden_size, config.num_attention_heads) == ("sf d", 24, 3)
    assert (config.conv_mask_padding, config.layer_norm_eps) == (False, 1e-6)
    # From the size.
    assert config.intermediate_size == 2048
    assert (data_args.max_seq_length, training_args.learning_rate) == (32, 1e-3)


def test_no_flag_means_the_published_small_lvbert():
    model_args, config_args, *_ = parse("--output_dir=out", "--use_cpu")
    assert build_config(model_args, config_args) == LVBertConfig()


@pytest.mark.parametrize("family", list(CONFIGS))
def test_the_tiny_size_is_small_and_valid(family):
    model_args, config_args, *_ = parse(f"--model_family={family}", "--model_size=tiny")
    assert build_config(model_args, config_args).hidden_size <= 128


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_a_file_stands_for_the_flags(tmp_path, suffix):
    values = {
        "model_family": "elcbert", "model_size": "base", "layer_order": "sf d",
        "hidden_size": 24, "num_attention_heads": 3, "conv_mask_padding": False,
        "layer_norm_eps": 1e-6, "max_seq_length": 32, "output_dir": "out",
        "learning_rate": 1e-3, "use_cpu": True,
    }  # fmt: skip
    if suffix == ".json":
        text = json.dumps(values)
    else:
        text = "".join(f"{name}: {json.dumps(value)}\n" for name, value in values.items())
    (tmp_path / f"a{suffix}").write_text(text)
    from_file = parse(str(tmp_path / f"a{suffix}"))
    from_flags = parse(*FLAGS)
    assert from_file[:3] == from_flags[:3]
    assert from_file[3].learning_rate == from_flags[3].learning_rate


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.json", "[1]"), ("a.json", "{"), ("a.yaml", "a: [b"), ("none.json", None)],
)
def test_a_bad_options_file_is_refused(tmp_path, name, text):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=f"options file .*{name}"):
        parse(str(tmp_path / name))


def test_a_name_that_is_no_option_is_refused(tmp_path):
    (tmp_path / "a.json").write_text('{"hidden_sise": 3}')
    for arguments in ([str(tmp_path / "a.json")], ["--hidden_sise=3"]):
        with pytest.raises(ValueError, match="--hidden_sise=3"):
            parse(*arguments)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--objective=clm"], "objective 'clm': must be one of mlm, electra"),
        (
            ["--objective=electra", "--model_family=elcbert"],
            "objective 'electra' is for model_family lvbert, got 'elcbert'",
        ),
        (["--model_family=gpt"], "model_family 'gpt': must be one of lvbert, elcbert"),
        (["--model_size=huge"], "unknown size 'huge'"),
        (["--model_family=elcbert", "--model_size=medium"], "unknown size 'medium'"),
        (["--variant=zero"], "model_family 'lvbert' has no variant"),
        (["--model_family=elcbert", "--embedding_size=8"], "has no embedding_size"),
        (["--layer_order=sx"], "unknown letters"),
        (["--layer_order="], "layer_order"),
        (["--hidden_size=30"], "multiple"),
        (["--conv_kernel_size=4"], "odd"),
        (["--model_family=elcbert", "--variant=cubic"], "cubic"),
    ],
)
def test_options_that_do_not_fit_are_refused(flags, message):
    model_args, config_args, *_ = parse(*flags)
    with pytest.raises(ValueError, match=message):
        build_config(model_args, config_args)


def test_vocabulary_and_padding_follow_the_tokenizer():
    model_args, config_args, *_ = parse("--model_family=elcbert", "--model_size=tiny")
    config = build_config(model_args, config_args, make_tokenizer(50))
    assert (config.vocab_size, config.pad_token_id) == (50, 0)
    model_args, config_args, *_ = parse("--vocab_size=64")
    assert build_config(model_args, config_args, make_tokenizer(50)).vocab_size == 64
    with pytest.raises(ValueError, match="vocab_size 64: at least 70"):
        build_config(model_args, config_args, make_tokenizer(70))


def test_rows_longer_than_the_positions_are_refused_where_there_are_positions():
    check_length(LVBertConfig(), 512)
    with pytest.raises(ValueError, match="max_seq_length 513.*512"):
        check_length(LVBertConfig(), 513)
    check_length(ELCBertConfig(), 2000)
