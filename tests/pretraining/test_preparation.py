import json

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
    assert max(len(row) for row in prepared.training_data.rows[0]["input_ids"]) == 16
    # A second start takes the tokenizer that is there.
    again = prepare(*flags)
    assert again.training_data.rows[0]["input_ids"] == prepared.training_data.rows[0]["input_ids"]
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
    assert (
        prepared.training_data.rows[0]["input_ids"]
        == prepared.validation_rows["input_ids"]
        == expected
    )


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
        (["--stages", "1:16:1", "--max_seq_length=16"], "only one may be given"),
        (["--stages", "0.9:16:1"], "add up to 0.9"),
        (["--stages", "0.5:16:1", "0.5:600:1"], "max_seq_length 600"),
        (["--stages", "0.5:16:1", "0.5:24:0.25", "--per_device_train_batch_size=2"], "0.5 rows"),
        (["--final_mlm_probability=0"], "mask_fraction 0"),
        (["--streaming"], "max_steps is needed"),
        (["--streaming", "--max_steps=2"], "a tokenizer_name is needed"),
        (["--packing=lines"], "packing 'lines'"),
        (["--replacement_shares", "0.5", "0.5"], "three shares"),
        (["--short_sequence_probability=2"], "short_sequence_probability 2"),
        (["--vocab_size=100"], "vocab_size 100"),
        (["--replacement_shares", "1.5", "-0.5", "0"], "three shares"),
        (["--learning_rate=nan"], "learning_rate nan"),
        (["--learning_rate=-1"], "learning_rate -1.0"),
        (["--learning_rate=0"], "learning_rate 0"),
        (["--weight_decay=nan"], "weight_decay nan"),
        (["--weight_decay=-0.1"], "weight_decay -0.1"),
        (["--adam_beta1=1"], "adam_beta1 1.0: must be at least 0 and below 1"),
        (["--adam_beta2=2"], "adam_beta2 2.0"),
        (["--warmup_steps=inf"], "warmup_steps inf"),
        (["--max_grad_norm=nan"], "max_grad_norm nan"),
        (["--per_device_train_batch_size=0"], "per_device_train_batch_size 0"),
        (["--per_device_train_batch_size=0", "--global_batch_size=8"], "train_batch_size 0"),
        (["--per_device_eval_batch_size=0"], "per_device_eval_batch_size 0"),
        (["--gradient_accumulation_steps=0"], "gradient_accumulation_steps 0"),
        (["--report_to=bogus"], "bogus is not supported"),
        (["--resume_from_checkpoint=nowhere"], "resume_from_checkpoint 'nowhere': must be None"),
        (["--preprocessing_num_workers=0"], "preprocessing_num_workers 0"),
        (["--initializer_range=nan"], "initializer_range nan"),
        (["--layer_norm_eps=inf"], "layer_norm_eps inf"),
        (["--mlm_probability=nan"], "mlm_probability nan"),
        (["--replacement_shares", "nan", "0.5", "0.5"], "replacement_shares"),
        (["--objective=electra", "--generator_weight=-1"], "generator_weight must not be"),
        (["--objective=electra", "--generator_weight=nan"], "generator_weight nan"),
        (["--objective=electra", "--temperature=0"], "temperature must be positive"),
        (["--dataset_name=no/where", "--train_file="], "dataset_name 'no/where' cannot be"),
        (["--train_file={}/blank.csv"], "blank.csv': no row has text in its column 'text'"),
        (["--output_dir={}/blank.csv/x/y"], "output_dir '.*': '.*blank.csv' is a file"),
        (["--output_dir={}/blank.csv"], "output_dir '.*': '.*blank.csv' is a file"),
        (["--tokenizer_name={}/odd"], "tokenizer_name '.*odd' cannot be loaded"),
    ],
)
def test_bad_options_are_refused_before_any_work(corpus_file, tmp_path, flags, message):
    (tmp_path / "blank.csv").write_text('text,number\n"  ",1\n" ",2\n')
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "tokenizer_config.json").write_text("[3]")
    run = tmp_path / "run"
    flags = [flag.format(tmp_path) for flag in flags]
    with pytest.raises(ValueError, match=message):
        prepare(f"--train_file={corpus_file}", f"--output_dir={run}", *flags)
    assert not run.exists()


def test_an_integration_that_is_not_there_is_refused(corpus_file, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "modeling_lvbert.pretraining.arguments.get_available_reporting_integrations", list
    )
    with pytest.raises(ValueError, match="report_to tensorboard: not installed"):
        prepare(
            f"--train_file={corpus_file}",
            f"--output_dir={tmp_path / 'run'}",
            "--report_to=tensorboard",
        )


def test_options_of_another_objective_are_told(corpus_file, tmp_path, caplog):
    flags = [f"--train_file={corpus_file}", "--vocab_size=300", "--generator_size=0.5"]
    prepare(*flags, f"--output_dir={tmp_path / 'mlm'}")
    assert "generator_size has no effect" in caplog.text
    caplog.clear()
    prepare(*flags, f"--output_dir={tmp_path / 'electra'}", "--objective=electra")
    assert "no effect" not in caplog.text


def test_another_corpus_under_the_same_name_is_another_run(corpus_file, tmp_path):
    flags = [f"--train_file={corpus_file}", f"--output_dir={tmp_path / 'run'}", "--vocab_size=300"]
    prepare(*flags)
    corpus_file.write_text(corpus_file.read_text() + "\nA new document .\n")
    with pytest.raises(ValueError, match="train_documents was 38, now 39"):
        prepare(*flags)


def test_a_run_is_known_by_the_options_that_are_no_defaults(corpus_file, tmp_path):
    flags = [f"--train_file={corpus_file}", f"--output_dir={tmp_path / 'run'}", "--vocab_size=300"]
    prepare(*flags)
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    sizes = {"train_documents", "validation_documents", "corpus_bytes"}
    assert set(record) >= {"train_file", "vocab_size", "seed", *sizes}
    assert not set(record) & {"text_column_name", "dataset_name", "tokenizer_name", "hidden_size"}
    prepare(*flags, "--max_seq_length=128", "--preprocessing_num_workers=1")
    with pytest.raises(ValueError, match="stages was .*, now .'1:64:1'"):
        prepare(*flags, "--max_seq_length=64")


def test_each_stage_has_rows_of_its_length_and_validation_those_of_the_first(
    corpus_file, documents, tmp_path, tokenizer
):
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    flags = [
        f"--train_file={corpus_file}", f"--validation_file={corpus_file}",
        f"--tokenizer_name={tmp_path / 'tokenizer'}", f"--output_dir={tmp_path / 'run'}",
        "--stages", "0.5:16:1", "0.5:24:0.5", "--final_mlm_probability=0.3",
    ]  # fmt: skip
    prepared = prepare(*flags)
    packed = [pack_corpus(documents, tokenizer, length)["input_ids"] for length in (16, 24)]
    assert [rows["input_ids"] for rows in prepared.training_data.rows] == packed
    assert prepared.validation_rows["input_ids"] == packed[0]
    assert prepared.training_data.mask_fractions == (0.15, 0.3)


def test_a_streamed_run_reads_the_same_rows(corpus_file, documents, tmp_path, tokenizer):
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    flags = [
        f"--train_file={corpus_file}", f"--tokenizer_name={tmp_path / 'tokenizer'}",
        f"--output_dir={tmp_path / 'run'}", "--max_seq_length=16", "--streaming", "--max_steps=2",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="a validation_file is needed"):
        prepare(*flags)
    assert not (tmp_path / "run").exists()
    prepared = prepare(*flags, f"--validation_file={corpus_file}")
    expected = pack_corpus(documents, tokenizer, 16)["input_ids"]
    stream = prepared.training_data.rows[0].iterate_from((0, 0, 0))
    seen = [next(stream)[1]["input_ids"] for _ in expected]
    assert sorted(seen) == sorted(expected)
