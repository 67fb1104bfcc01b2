"""From a push to a stranger's machine, over HTTP, every step in a process of its own."""

import json

import pytest

from tests.hub.client import MODES, Client, finish
from tests.hub.conftest import TOKENS, check_log

pytestmark = pytest.mark.slow
MASKED = "AutoModelForMaskedLM"


@pytest.fixture(scope="module")
def published(running_hub, tmp_path_factory):
    """Pushes everything once a mode; returns the outputs' folder and what the script told."""
    done = {}

    def push(mode):
        if mode not in done:
            first = len(running_hub.log)
            folder = tmp_path_factory.mktemp("published")
            client = Client(running_hub, folder / "machine", mode, TOKENS["owner"])
            done[mode] = folder, client.run("push", mode, folder, package=True)
            check_log(running_hub, first)
        return done[mode]

    return push


def entry(folder, name, record=None, auto=MASKED, **options):
    """What `load` is to open, the record being that of the push."""
    expected = str(folder / f"{record or name}.pt")
    return {"repo": f"owner/{name}", "auto": auto, "expected": expected, **options}


def load(client, entries, **options):
    return client.run("load", json.dumps(entries), **options)


@pytest.mark.parametrize("mode", MODES)
def test_pushed_models_open_at_branch_commit_and_tag_and_then_without_the_network(
    mode, published, new_client, hub
):
    folder, told = published(mode)
    discriminator, generator = f"discriminator-{mode}", f"generator-{mode}"
    entries = [
        entry(folder, discriminator, auto="AutoModelForPreTraining"),
        entry(folder, generator),
        # A run's folder holds both: the generator has a folder in it.
        entry(folder, f"electra-{mode}", discriminator, "AutoModelForPreTraining"),
        entry(folder, f"electra-{mode}", generator, subfolder="generator"),
    ]
    for pushed in told.values():
        name, first = pushed["name"], pushed["first"]
        entries += [
            entry(folder, name),
            entry(folder, name, revision="main", device_map="cpu"),
            entry(folder, name, f"{name}-v1", revision="v1"),
            entry(folder, name, f"{name}-v1", revision=first),
        ]
    client = new_client(None, mode)
    models = load(client, entries)
    # The code is that of the same commit.
    assert told["ELCBert"]["first"] in models[-1]["module"]
    asked = len(hub.log)
    assert load(client, entries, HF_HUB_OFFLINE="1") == models
    assert len(hub.log) == asked


@pytest.mark.parametrize("mode", MODES)
def test_the_same_push_again_makes_no_commit(mode, published):
    _, told = published(mode)
    assert all(pushed["first"] == pushed["again"] for pushed in told.values())


def test_private_models_and_code_need_a_right_and_consent(published, new_client, hub):
    folder, told = published("xet")
    names = [pushed["name"] for pushed in told.values()]
    private = [entry(folder, f"{name}-private", name) for name in names]
    refused = {"refused": "ValueError", "trust_remote_code": False}
    entries = [{**entry(folder, name), **refused} for name in names]
    for token in (False, TOKENS["other"]):
        entries += [{**one, "refused": "OSError", "token": token} for one in private]
    client, first = new_client(None), len(hub.log)
    messages = load(client, entries)
    assert all("trust_remote_code=True" in told["message"] for told in messages[:2])
    assert all("is not a local folder" in told["message"] for told in messages[2:])
    assert not hub.requests(r"\.(py|safetensors)$", since=first)
    load(client, [{**one, "token": TOKENS["reader"]} for one in private])


def test_tokenizers_and_pipelines_run_from_a_pushed_model(published, new_client):
    _, told = published("xet")
    new_client(None).run("pipelines", *(f"owner/{pushed['name']}" for pushed in told.values()))


def test_two_processes_load_at_once_into_an_empty_cache(published, new_client):
    folder, told = published("xet")
    entries = json.dumps([entry(folder, pushed["name"]) for pushed in told.values()])
    client = new_client(None)
    both = [client.start("load", entries) for _ in range(2)]
    first, second = (finish(process) for process in both)
    assert first == second


def test_a_model_tuned_from_a_pushed_one_carries_its_code(published, new_client, hub, tmp_path):
    _, told = published("xet")
    sources = [f"owner/{pushed['name']}" for pushed in told.values()]
    new_client("other").run("tune", tmp_path, *sources)
    names = [source.removeprefix("owner/") for source in sources]
    auto, first = "AutoModelForSequenceClassification", len(hub.log)
    models = load(
        new_client(None),
        [{**entry(tmp_path, name, auto=auto), "repo": f"other/tuned-{name}"} for name in names],
    )
    # Not a file comes from the repository that it was made from: that one may be gone, or private.
    assert not [entry for source in sources for entry in hub.requests(source, since=first)]
    for model in models:
        assert not [reference for reference in model["auto_map"].values() if "--" in reference]
