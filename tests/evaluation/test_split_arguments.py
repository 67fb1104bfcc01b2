import datasets
import pytest

from modeling_lvbert.evaluation.split_arguments import SplitArguments, load_splits


def test_files_and_limits_go_by_split():
    arguments = SplitArguments(train_file="a", test_file="b", max_predict_samples=3)
    assert arguments.list_files() == {"train": "a", "test": "b"}
    assert [arguments.get_limit(split) for split in ("train", "test")] == [None, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no data: give dataset_name, or train_file, validation_file, test_file"),
        ({"dataset_name": "squad", "test_file": "a"}, "'squad' and files: only one kind"),
        ({"train_file": "a", "max_train_samples": 0}, "max_train_samples 0: must be at least 1"),
        ({"train_file": "a", "max_predict_samples": -1}, "max_predict_samples -1: must be"),
    ],
)
def test_contradictory_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SplitArguments(**options)


def test_splits_of_a_data_set_are_loaded_and_missing_ones_named(tmp_path):
    rows = datasets.Dataset.from_dict({"text": ["a", "b"]})
    rows.to_parquet(tmp_path / "validation.parquet")
    arguments = SplitArguments(dataset_name=str(tmp_path))
    assert load_splits(arguments, ["validation"])["validation"]["text"] == ["a", "b"]
    with pytest.raises(ValueError, match="no split 'test'; present: .'validation'"):
        load_splits(arguments, ["validation", "test"])
    with pytest.raises(ValueError, match="dataset_name 'no/where' cannot be loaded"):
        load_splits(SplitArguments(dataset_name="no/where"), ["test"])
