"""`python -m conversion.push_searched` against the Hub on loopback, with the real client."""

import importlib.util
import json

import datasets
import pytest
import torch
from huggingface_hub import ModelCard

from modeling_lvbert.pretraining.tokenizer_training import train_tokenizer
from tests.conversion.published_runs import make_search
from tests.families import build
from tests.hub.client import Client, finish, wait
from tests.hub.conftest import TOKENS, check_log

pytestmark = pytest.mark.slow
INPUT_IDS = torch.arange(7, 19)[None]
PLANTED = {
    ".env": f"HF_TOKEN={TOKENS['other']}\n",
    "optimizer.pt": "state of the optimizer",
    "training_args.bin": "a pickle",
    "notes.txt": f"the token is {TOKENS['other']}",
    "trainer_state.json": '{"path": "/home/somebody/secret"}',
}


def write_model(family, folder):
    """Saves a model with its tokenizer, with a scale of its own a folder, and what must stay."""
    corpus = datasets.Dataset.from_dict({"text": ["The old sea was full of ships ."] * 9})
    tokenizer = train_tokenizer(corpus, family.lower(), 400, 64)
    sizes = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    model = build(family, "ForMaskedLM", attention="sdpa", **sizes)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model


def keep(model, file):
    with torch.no_grad():
        outputs = model(input_ids=INPUT_IDS)[0]
    record = {"input_ids": INPUT_IDS, "outputs": outputs, "weights": model.state_dict()}
    torch.save(record, file)


@pytest.fixture(scope="module", params=["LVBert", "ELCBert"])
def run(request, tmp_path_factory):
    """A trained folder with an intermediate checkpoint and files that nobody should see."""
    torch.manual_seed(0)
    place = tmp_path_factory.mktemp("run")
    folder = place / "model"
    model = write_model(request.param, folder)
    keep(model, place / "final.pt")
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(0.5)
    model.save_pretrained(folder / "checkpoint-20")
    keep(model, place / "step.pt")
    for name, text in PLANTED.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / "checkpoint-20" / name).write_text(text, encoding="utf-8")
    return request.param.lower(), folder


def push(client, folder, repo, *flags, **options):
    arguments = ["--search_dir", folder, "--repo_id", repo, *flags]
    return client.start("push_searched", *arguments, package=True, **options)


def succeed(client, folder, repo, *flags):
    process = push(client, folder, repo, *flags)
    out, err = wait(process)
    assert process.returncode == 0, out[-2000:] + err[-4000:]
    return out + err


def fail(client, folder, repo, *flags, **options):
    """Returns the one line of a run that ends with an error."""
    process = push(client, folder, repo, *flags, **options)
    out, err = wait(process)
    assert process.returncode == 1, out[-2000:] + err[-4000:]
    assert "Traceback" not in err, err
    return err.strip().splitlines()[-1]


FLAGS = ("--checkpoints", "--tag", "v1")


@pytest.fixture(scope="module")
def pushed(run, running_hub, tmp_path_factory):
    """Pushes with a break after the first content; returns the repository and what was told."""
    family, folder = run
    first = len(running_hub.log)
    repo = f"owner/searched-{family}"
    client = Client(running_hub, tmp_path_factory.mktemp("machine"), "xet", TOKENS["owner"])
    running_hub.break_uploads(after=1)
    message = fail(client, folder, repo, *FLAGS)
    running_hub.mend()
    repository = running_hub.repositories.by_name["models", repo]
    left = set(repository.commit_at("main").files)
    told = succeed(client, folder, repo, *FLAGS)
    check_log(running_hub, first)
    return client, repository, {"message": message, "left": left, "told": told}


def test_a_push_that_broke_off_changed_nothing_and_goes_on(pushed):
    _, repository, texts = pushed
    assert "the same command" in texts["message"] or "403" in texts["message"]
    assert texts["left"] == {".gitattributes"}
    assert set(repository.branches) == {"main", "step-20"}


def test_what_was_planted_is_named_and_in_no_commit(pushed, hub):
    _, repository, texts = pushed
    assert all(name in texts["told"] for name in PLANTED)
    check_contents(hub, repository)


def test_the_same_command_again_makes_no_commit(pushed, run):
    client, repository, _ = pushed
    count = len(repository.commits)
    succeed(client, run[1], repository.name, *FLAGS)
    assert len(repository.commits) == count


def test_branch_tag_commit_and_checkpoint_open_on_another_machine(pushed, run, new_client):
    _, repository, _ = pushed
    place, auto = run[1].parent, "AutoModelForMaskedLM"
    final = {"repo": repository.name, "auto": auto, "expected": str(place / "final.pt")}
    step = {**final, "expected": str(place / "step.pt"), "revision": "step-20"}
    sha = repository.commit_at("main").oid
    entries = [final, {**final, "revision": "v1"}, {**final, "revision": sha}, step]
    finish(new_client(None).start("load", json.dumps(entries)))


def check_contents(hub, repository):
    """No commit holds what was planted, by name or by content, nor anything unexpected."""
    for commit in repository.commits.values():
        assert not set(commit.files) & set(PLANTED)
        for name, file in commit.files.items():
            assert name.endswith(
                (".py", ".json", ".jsonl", ".safetensors", ".md", ".png", ".txt", ".gitattributes")
            )
            content = hub.repositories.objects.path(file.sha256).read_bytes()
            assert not [text for text in PLANTED.values() if text.encode() in content]
            assert b"hf_" not in content or name == "README.md"


def test_who_may_not_write_is_told_in_one_line(run, hub, new_client):
    family, folder = run
    repo = f"owner/refused-{family}"
    for user in (None, "reader", "other"):
        message = fail(new_client(user), folder, repo)
        assert not [token for token in TOKENS.values() if token in message]
    assert ("models", repo) not in hub.repositories.by_name


def test_a_private_branch_and_a_pull_request(run, hub, new_client):
    family, folder = run
    if family == "elcbert":
        pytest.skip("one family is enough")
    repo, client = f"team/branch-{family}", new_client("owner", "lfs")
    succeed(client, folder, repo, "--private", "--revision", "trial/one")
    repository = hub.repositories.by_name["models", repo]
    assert repository.private
    assert set(repository.commit_at("main").files) == {".gitattributes"}
    assert "model.safetensors" in repository.commit_at("trial/one").files
    told = succeed(client, folder, repo, "--create_pr")
    assert "/discussions/1" in told
    assert set(repository.commit_at("main").files) == {".gitattributes"}
    assert "model.safetensors" in repository.commit_at("refs/pr/1").files
    check_contents(hub, repository)


def test_a_search_is_pushed_with_its_records_and_opens_in_sentence_transformers(
    hub, new_client, tmp_path
):
    model = make_search(tmp_path / "search")
    repo = "owner/search"
    succeed(new_client("owner"), tmp_path / "search", repo, "--sentence_transformers")
    repository = hub.repositories.by_name["models", repo]
    files = repository.commit_at("main").files
    assert {"search_result.json", "history.jsonl", "README.md"} <= set(files)
    check_contents(hub, repository)
    card = ModelCard(hub.repositories.objects.path(files["README.md"].sha256).read_text("utf-8"))
    assert model.config.layer_order in card.text
    assert card.data.license == "apache-2.0"
    if importlib.util.find_spec("sentence_transformers") is None:
        pytest.skip("sentence-transformers is not installed")
    new_client(None).run("embed", repo)
