import pytest
from transformers import AutoTokenizer, TrainingArguments

from modeling_lvbert.pretraining.arguments import (
    ConfigArguments,
    DataArguments,
    ModelArguments,
    parse_arguments,
)
from modeling_lvbert.pretraining.packing import pack_corpus
from modeling_lvbert.pretraining.preparation import prepare_run

KINDS = (ModelArguments, ConfigArguments, DataArguments, TrainingArguments)


@pytest.fixture
def corpus_file(documents, tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("\n\n".join(documents["text"]) + "\n")
    return path


def prepare(*flags):
    return prepare_run(*parse_arguments(KINDS, [*flags, "--use_cpu"], None))


@pytest.mark.parametrize("family", ["lvbert", "elcbert"])
def test_a_run_gets_tokenizer_configuration_and_rows(corpus_file, tmp_path, family):
    flags = [
        f"--model_family={family}", "--model_size=tiny", f"--train_file={corpus_file}",
        f"--output_dir={tmp_path / 'run'}", "--vocab_size=300", "--max_seq_length=16",
    ]  # fmt: skip
    prepared = prepare(*flags)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "run")
    assert prepared.config.vocab_size == len(tokenizer) <= 300
    assert prepared.config.pad_token_id == tokenizer.pad_token_id
    assert prepared.validation_rows["input_ids"]
    assert max(len(row) for row in prepared.train_rows["input_ids"]) == 16
    # A second start takes the tokenizer that is there.
    again = prepare(*flags)
    assert again.train_rows["input_ids"] == prepared.train_rows["input_ids"]
    files = {path.name for path in (tmp_path / "run").iterdir()}
    assert files == {"run.json", "tokenizer.json", "tokenizer_config.json"}


def test_a_given_tokenizer_is_used(corpus_file, documents, tmp_path, tokenizer):
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    prepared = prepare(
        f"--train_file={corpus_file}", f"--validation_file={corpus_file}",
        f"--tokenizer_name={tmp_path / 'tokenizer'}", f"--output_dir={tmp_path / 'run'}",
        "--max_seq_length=16",
    )  # fmt: skip
    expected = pack_corpus(documents, tokenizer, 16)["input_ids"]
    assert prepared.train_rows["input_ids"] == prepared.validation_rows["input_ids"] == expected


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--max_seq_length=600"], "max_seq_length 600"),
        (["--layer_order=xyz"], "layer_order"),
        (["--train_file=nowhere.txt"], "no such file"),
        (["--tokenizer_name=nowhere"], "tokenizer_name 'nowhere' cannot be loaded"),
        (["--masking_unit=line"], "masking_unit 'line'"),
        (["--mlm_probability=2"], "mask_fraction 2"),
        (["--objective=clm"], "objective 'clm'"),
        (["--objective=electra", "--generator_size=2"], "generator_size 2"),
        (["--packing=lines"], "packing 'lines'"),
        (["--replacement_shares", "0.5", "0.5"], "three shares"),
        (["--short_sequence_probability=2"], "short_sequence_probability 2"),
        (["--vocab_size=100"], "vocab_size 100"),
    ],
)
def test_bad_options_are_refused_before_any_work(corpus_file, tmp_path, flags, message):
    run = tmp_path / "run"
    with pytest.raises(ValueError, match=message):
        prepare(f"--train_file={corpus_file}", f"--output_dir={run}", *flags)
    assert not run.exists()


def test_another_corpus_under_the_same_name_is_another_run(corpus_file, tmp_path):
    flags = [f"--train_file={corpus_file}", f"--output_dir={tmp_path / 'run'}", "--vocab_size=300"]
    prepare(*flags)
    corpus_file.write_text(corpus_file.read_text() + "\nA new document .\n")
    with pytest.raises(ValueError, match="train_documents was 38, now 39"):
        prepare(*flags)
