import shutil

import pytest
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    BertTokenizer,
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    ElectraModel,
    PreTrainedTokenizerFast,
)

from modeling_lvbert.evaluation.model_loading import (
    ModelArguments,
    check_fast_tokenizer,
    load_config,
    load_model,
)
from tests.evaluation.small_models import make_tokenizer
from tests.evaluation.small_tasks import TOKENS, tune, write


def replace(folder, name, change):
    (folder / name).write_bytes(change((folder / name).read_bytes()))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("model.safetensors", lambda data: data[: len(data) // 2], "cannot be loaded"),
        ("model.safetensors", lambda data: b"", "cannot be loaded"),
        ("model.safetensors", None, "cannot be loaded"),
        ("config.json", lambda data: data[:60], "cannot be loaded"),
        ("config.json", lambda data: b"[1]", "cannot be loaded"),
        ("config.json", None, "cannot be loaded"),
        (
            "config.json",
            lambda data: data.replace(b'"hidden_size": 16', b'"hidden_size": "x"'),
            "cannot be loaded",
        ),
        (
            "config.json",
            lambda data: data.replace(b'"hidden_size": 16', b'"hidden_size": 32'),
            ": the saved weights of the encoder do not fit its configuration: .* of another size",
        ),
        ("tokenizer_config.json", lambda data: b"[3]", "cannot be loaded"),
        ("tokenizer.json", lambda data: data[:90], "cannot be loaded"),
    ],
)
def test_a_damaged_model_is_one_error_and_nothing_is_written(
    model_dir, train_file, tmp_path, name, change, message
):
    folder = tmp_path / "damaged"
    shutil.copytree(model_dir, folder)
    if change is None:
        (folder / name).unlink()
    else:
        replace(folder, name, change)
    with pytest.raises(ValueError, match=f"^model_name_or_path '.*damaged' ?{message}"):
        tune(folder, tmp_path / "tuned", training={"do_train": True}, train_file=train_file)
    assert not (tmp_path / "tuned").exists()


@pytest.mark.parametrize(
    ("model", "option"),
    [
        ({"config_name": "/nowhere"}, "config_name '/nowhere'"),
        ({"tokenizer_name": "no/where"}, "tokenizer_name 'no/where'"),
    ],
)
def test_a_missing_folder_is_named_with_its_option(model_dir, train_file, tmp_path, model, option):
    with pytest.raises(ValueError, match=f"^{option} cannot be loaded: "):
        tune(
            model_dir,
            tmp_path / "tuned",
            training={"do_train": True},
            model=model,
            train_file=train_file,
        )
    with pytest.raises(ValueError, match="^model_name_or_path 'no/where' cannot be loaded: "):
        tune("no/where", tmp_path / "tuned", training={"do_train": True}, train_file=train_file)


def test_a_tokenizer_of_another_vocabulary_is_refused(model_dir, train_file, tmp_path):
    vocabulary = {token: number for number, token in enumerate([*TOKENS, "one", "two"])}
    BertTokenizer(vocab=vocabulary, model_max_length=32).save_pretrained(tmp_path / "larger")
    with pytest.raises(ValueError, match="ids up to 14, but the model's vocab_size is 13"):
        tune(
            model_dir,
            tmp_path / "tuned",
            training={"do_train": True},
            model={"tokenizer_name": str(tmp_path / "larger")},
            train_file=train_file,
        )
    assert not (tmp_path / "tuned").exists()


def test_pairs_need_room_for_two_texts(model_dir, tmp_path):
    rows = [{"sentence1": "the sea", "sentence2": "the boat", "label": n % 2} for n in range(8)]
    pairs = write(tmp_path, "pairs.jsonl", rows)
    with pytest.raises(ValueError, match="max_seq_length 4: at least 5 is needed, 3 of them"):
        tune(
            model_dir,
            tmp_path / "tuned",
            training={"do_train": True},
            train_file=pairs,
            max_seq_length=4,
        )


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (1, 2, "16 missing .electra.encoder.layer.1."),
        (2, 1, "16 not in the model .electra.encoder.layer.1."),
    ],
)
def test_an_encoder_that_did_not_load_is_refused(
    model_dir, train_file, tmp_path, before, after, message
):
    for architecture, shown in (
        (ElectraForMaskedLM, message),
        # A bare encoder's weights have no prefix.
        (ElectraModel, message.replace("electra.", "") if before > after else message),
    ):
        folder = tmp_path / architecture.__name__
        shutil.copytree(model_dir, folder)
        config = ElectraConfig.from_pretrained(model_dir, num_hidden_layers=before)
        architecture(config).save_pretrained(folder)
        ElectraConfig.from_pretrained(folder, num_hidden_layers=after).save_pretrained(folder)
        with pytest.raises(ValueError, match=f"do not fit its configuration: {shown}"):
            tune(folder, tmp_path / "tuned", training={"do_train": True}, train_file=train_file)
    assert not (tmp_path / "tuned").exists()


def test_an_encoder_of_another_width_is_refused_where_heads_may_differ(
    model_dir, train_file, tmp_path
):
    folder = tmp_path / "wider"
    shutil.copytree(model_dir, folder)
    replace(folder, "config.json", lambda text: text.replace(b'_size": 16', b'_size": 32'))
    with pytest.raises(ValueError, match="of another size .electra.embeddings"):
        tune(
            folder,
            tmp_path / "tuned",
            training={"do_train": True},
            model={"ignore_mismatched_sizes": True},
            train_file=train_file,
        )


def test_a_head_of_another_size_is_started_anew_on_demand_only(model_dir, train_file, tmp_path):
    training = {"do_train": True, "max_steps": 1}
    tune(model_dir, tmp_path / "two", training=training, train_file=train_file)
    rows = [{"sentence": "the sea", "label": f"class {number % 3}"} for number in range(9)]
    three = write(tmp_path, "three.jsonl", rows)
    with pytest.raises(ValueError, match="another size .* .classifier.out_proj.bias, classifier"):
        tune(tmp_path / "two", tmp_path / "three", training=training, train_file=three)
    tune(
        tmp_path / "two",
        tmp_path / "three",
        training=training,
        model={"ignore_mismatched_sizes": True},
        train_file=three,
    )
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "three")
    assert model.num_labels == 3


@pytest.mark.parametrize("architecture", [ElectraForPreTraining, ElectraModel])
def test_heads_of_pre_training_may_differ(model_dir, train_file, tmp_path, architecture):
    folder = tmp_path / "other"
    shutil.copytree(model_dir, folder)
    architecture(ElectraConfig.from_pretrained(model_dir)).save_pretrained(folder)
    tune(
        folder,
        tmp_path / "tuned",
        training={"do_train": True, "max_steps": 1},
        train_file=train_file,
    )
    assert (tmp_path / "tuned" / "model.safetensors").is_file()


def test_a_model_that_must_be_whole_is_refused_with_a_new_head(model_dir, tmp_path):
    arguments = ModelArguments(model_dir)
    load_model(AutoModelForMaskedLM, arguments, load_config(arguments), head_may_be_new=False)
    ElectraModel(ElectraConfig.from_pretrained(model_dir)).save_pretrained(tmp_path)
    arguments = ModelArguments(str(tmp_path))
    config = load_config(arguments)
    load_model(AutoModelForMaskedLM, arguments, config)
    with pytest.raises(ValueError, match="ElectraForMaskedLM has no saved weights for gener"):
        load_model(AutoModelForMaskedLM, arguments, config, head_may_be_new=False)


def test_tokenizers_that_cannot_tell_places_or_pad_are_refused():
    tokenizer = make_tokenizer("lvbert")
    check_fast_tokenizer(tokenizer)
    backend = tokenizer.backend_tokenizer
    with pytest.raises(ValueError, match="has no pad_token"):
        check_fast_tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend))

    class Slow:
        is_fast = False

    with pytest.raises(ValueError, match="a slow Slow, which does not tell .*a fast one"):
        check_fast_tokenizer(Slow())
