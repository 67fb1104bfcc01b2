import logging
import shutil

import pytest

from conversion import publishing_plan
from conversion.publishing_plan import make_plan, warn_of_what_stays

from .published_runs import TOKENS, make_result, write_json


def make_model(folder, order="dsf", family="lvbert"):
    write_json(folder / "config.json", {"model_type": family, "layer_order": order})
    write_json(folder / "tokenizer.json", {})
    (folder / "model.safetensors").write_bytes(b"")
    return folder


@pytest.fixture
def search(tmp_path):
    folder = tmp_path / "search"
    make_model(folder / "best")
    write_json(folder / "search_result.json", make_result("dsf", "lvbert"))
    (folder / "history.jsonl").write_text("{}\n")
    (folder / "figures").mkdir()
    for name in ("letters_by_depth.png", "private.png"):
        (folder / "figures" / name).write_bytes(b"")
    return folder


def test_a_search_publishes_its_best_order_with_its_history(search):
    plan = make_plan(search)
    assert plan.model_dir == search / "best"
    assert plan.is_inherited
    assert set(plan.records) == {"search_result.json", "history.jsonl"}
    assert set(plan.figures) == {"figures/letters_by_depth.png"}
    assert plan.record_dirs == (search / "supernet",)


def test_weights_trained_later_are_published_with_the_search(search, tmp_path):
    trained = make_model(tmp_path / "trained", order="d s f")
    plan = make_plan(search, trained)
    assert plan.model_dir == trained
    assert not plan.is_inherited
    assert "history.jsonl" in plan.records


@pytest.mark.parametrize(("order", "family"), [("sdf", "lvbert"), ("dsf", "elcbert")])
def test_weights_of_another_order_are_refused(search, tmp_path, order, family):
    trained = make_model(tmp_path / "trained", order, family)
    with pytest.raises(ValueError, match="the best of the search"):
        make_plan(search, trained)


def test_the_words_of_an_order_count_for_elc_bert(tmp_path):
    folder = tmp_path / "search"
    make_model(folder / "best", "ds f", "elcbert")
    write_json(folder / "search_result.json", make_result("d sf", "elcbert"))
    with pytest.raises(ValueError, match="the best of the search"):
        make_plan(folder)


def test_any_saved_model_is_published_alone(tmp_path):
    folder = make_model(tmp_path / "model")
    plan = make_plan(folder)
    assert (plan.search_dir, plan.records, plan.is_inherited) == (None, {}, False)
    with pytest.raises(ValueError, match="holds no search_result.json"):
        make_plan(folder, folder)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("config.json", "holds no config.json"),
        ("model.safetensors", "other formats can run code"),
        ("tokenizer.json", "holds no tokenizer.json"),
    ],
)
def test_incomplete_folders_are_refused(tmp_path, name, message):
    folder = make_model(tmp_path / "model")
    (folder / "pytorch_model.bin").write_bytes(b"")
    (folder / name).unlink()
    with pytest.raises(ValueError, match=message):
        make_plan(folder)
    with pytest.raises(ValueError, match="no such folder"):
        make_plan(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "generator/config.json"])
def test_a_link_out_of_the_folder_is_not_followed(tmp_path, name):
    folder = make_model(tmp_path / "model")
    make_model(folder / "generator")
    (folder / name).rename(tmp_path / "outside")
    (folder / name).symlink_to(tmp_path / "outside")
    with pytest.raises(ValueError, match="leads out of its folder"):
        make_plan(folder)


def test_a_link_within_the_folder_is_fine(tmp_path):
    folder = make_model(tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "blob")
    (folder / "model.safetensors").symlink_to("blob")
    assert make_plan(folder).model_dir == folder


def test_a_record_that_is_a_link_outside_is_left_out(search, tmp_path, caplog):
    (search / "history.jsonl").unlink()
    (tmp_path / "secret").write_text("x")
    (search / "history.jsonl").symlink_to(tmp_path / "secret")
    plan = make_plan(search)
    assert set(plan.records) == {"search_result.json"}
    warn_of_what_stays(plan)
    assert "links that lead out of the folder: history.jsonl" in caplog.text


def test_checkpoints_are_found_by_step(tmp_path):
    folder = make_model(tmp_path / "model")
    with pytest.raises(ValueError, match="there is no checkpoint-N"):
        make_plan(folder, checkpoints=True)
    for step in (10, 9):
        make_model(folder / f"checkpoint-{step}")
    (folder / "checkpoint-last").mkdir()
    assert list(make_plan(folder, checkpoints=True).checkpoints) == [9, 10]
    assert make_plan(folder).checkpoints == {}
    (folder / "checkpoint-9" / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="checkpoint-9.* holds no config.json or no safetensors"):
        make_plan(folder, checkpoints=True)


PLANTED = {
    ".env": ("A=1", "names of secrets"),
    "server.pem": ("x", "names of secrets"),
    "sub/token": ("x", "names of secrets"),
    "optimizer.pt": ("x", "pickles"),
    "checkpoint-1/scheduler.pt": ("x", "pickles"),
    "pytorch_model.bin": ("x", "pickles"),
    "notes.txt": (f"x {TOKENS['API key']}", "text that looks like access tokens"),
    "log.json": ('{"a": "/home/ada/x"}', "text with absolute paths"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_was_planted_is_named_and_not_shown(search, caplog, name):
    content, reason = PLANTED[name]
    path = search / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    with caplog.at_level(logging.WARNING):
        warn_of_what_stays(make_plan(search))
    (record,) = caplog.records
    assert reason in record.message
    assert name in record.message
    assert TOKENS["API key"] not in record.message


def test_an_ordinary_folder_gives_no_warning(search, caplog):
    warn_of_what_stays(make_plan(search))
    assert caplog.records == []


def test_both_folders_are_looked_through(search, tmp_path, caplog):
    trained = make_model(tmp_path / "trained")
    (trained / "optimizer.pt").write_bytes(b"")
    (search / ".env").write_text("x")
    warn_of_what_stays(make_plan(search, trained))
    assert "optimizer.pt" in caplog.text and ".env" in caplog.text


def test_damaged_results_are_an_error(search):
    (search / "search_result.json").write_text("{")
    with pytest.raises(ValueError, match=r"search_result.json' cannot be read"):
        make_plan(search)
    (search / "search_result.json").write_text("[]")
    with pytest.raises(ValueError, match="an object is needed"):
        make_plan(search)
    shutil.rmtree(search / "best")
    assert publishing_plan.read_json(search / "nothing.json") == {}
