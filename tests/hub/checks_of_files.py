"""What a client can rely on when files go up and down, run in its process by `test_server.py`.

Each check gets the name of a repository that is not there yet, the tokens by user, `mode`, which is
how large files travel, and `folder`, an empty one.
"""

import array
import base64
import io
import math
from pathlib import Path

from huggingface_hub import (
    CommitOperationAdd,
    CommitOperationCopy,
    CommitOperationDelete,
    HfApi,
    ModelCard,
    hf_hub_download,
    snapshot_download,
)
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from tests.hub.check_tools import API, CARD, large_bytes, new_repository, refused


def folders_are_uploaded_whole(repo, tokens, mode, folder):
    content = large_bytes(11_000_000)
    source = Path(folder, "source")
    (source / "sub" / "deep").mkdir(parents=True)
    (source / "model.safetensors").write_bytes(content)
    (source / "sub" / "deep" / "text.txt").write_text("deep")
    (source / "empty.txt").write_text("")
    API.create_repo(repo)
    API.upload_folder(repo_id=repo, folder_path=source)
    (info,) = API.get_paths_info(repo, ["model.safetensors"])
    assert (info.xet_hash is not None) == (mode == "xet")
    got = Path(snapshot_download(repo, cache_dir=Path(folder, "cache")))
    assert (got / "model.safetensors").read_bytes() == content
    assert (got / "sub" / "deep" / "text.txt").read_text() == "deep"
    assert (got / "empty.txt").read_bytes() == b""


def the_same_upload_again_is_no_commit(repo, tokens, mode, folder):
    source = Path(folder, "source")
    source.mkdir()
    (source / "model.safetensors").write_bytes(large_bytes(100_000))
    (source / "text.txt").write_text("text")
    API.create_repo(repo)
    first = API.upload_folder(repo_id=repo, folder_path=source)
    second = API.upload_folder(repo_id=repo, folder_path=source)
    assert first.oid == second.oid == API.model_info(repo).sha
    assert len(API.list_repo_commits(repo)) == 2
    (source / "text.txt").write_text("other")
    assert API.upload_folder(repo_id=repo, folder_path=source).oid != first.oid


def bytes_and_streams_are_uploaded(repo, tokens, mode, folder):
    content = large_bytes(50_000)
    API.create_repo(repo)
    API.upload_file(repo_id=repo, path_or_fileobj=content, path_in_repo="a.bin")
    API.upload_file(repo_id=repo, path_or_fileobj=io.BytesIO(content[::-1]), path_in_repo="b.bin")
    API.upload_file(repo_id=repo, path_or_fileobj=b"text", path_in_repo="c.txt")
    got = {
        name: Path(hf_hub_download(repo, name, cache_dir=folder)).read_bytes()
        for name in ("a.bin", "b.bin", "c.txt")
    }
    assert got == {"a.bin": content, "b.bin": content[::-1], "c.txt": b"text"}


def one_commit_adds_deletes_and_copies(repo, tokens, mode, folder):
    content = large_bytes(30_000)
    old = (("old.txt", b"old"), ("gone/a.txt", b"a"), ("gone/b.txt", b"b"), ("a.bin", content))
    new_repository(repo, old)
    operations = [
        CommitOperationAdd("new.txt", b"new"),
        CommitOperationAdd("new.bin", large_bytes(20_000, seed=1)),
        CommitOperationDelete("old.txt"),
        CommitOperationDelete("gone/"),
        CommitOperationCopy("a.bin", "copy.bin"),
    ]
    API.create_commit(repo, operations, commit_message="all at once", commit_description="why")
    names = {".gitattributes", "a.bin", "copy.bin", "new.bin", "new.txt"}
    assert set(API.list_repo_files(repo)) == names
    assert Path(hf_hub_download(repo, "copy.bin", cache_dir=folder)).read_bytes() == content
    last = API.list_repo_commits(repo)[0]
    assert (last.title, last.message, last.authors) == ("all at once", "why", ["owner"])


def commits_name_their_parent(repo, tokens, mode, folder):
    first = new_repository(repo)
    add = [CommitOperationAdd("a.txt", b"a")]
    second = API.create_commit(repo, add, commit_message="second", parent_commit=first[:7]).oid
    add = [CommitOperationAdd("b.txt", b"b")]
    options = {"commit_message": "late", "parent_commit": first}
    refused(HfHubHTTPError, 412, API.create_commit, repo, add, **options)
    assert API.model_info(repo).sha == second
    assert not API.file_exists(repo, "b.txt")


def pull_requests(repo, tokens, mode, folder):
    first = new_repository(repo)
    source = Path(folder, "source")
    source.mkdir()
    (source / "a.bin").write_bytes(large_bytes(2000))
    other = HfApi(token=tokens["other"])
    by_folder = other.upload_folder(repo_id=repo, folder_path=source, create_pr=True)
    add = [CommitOperationAdd("b.txt", b"b")]
    by_commit = API.create_commit(repo, add, commit_message="b", create_pr=True)
    for info, name in ((by_folder, "a.bin"), (by_commit, "b.txt")):
        assert API.file_exists(repo, name, revision=info.pr_revision)
        assert not API.file_exists(repo, name)
    assert (by_folder.pr_num, by_commit.pr_num) == (1, 2)
    assert API.model_info(repo).sha == first


def many_kinds_of_content(repo, tokens, mode, folder):
    """Compressible, repeated, floating-point and near-equal content, by one upload."""
    floats = array.array("f", (math.sin(number / 100) for number in range(200_000))).tobytes()
    noise = large_bytes(1_000_000)
    contents = {
        "zeros.bin": bytes(1_000_000),
        "floats.bin": floats,
        "noise.bin": noise,
        "near.bin": noise[:500_000] + b"!" + noise[500_000:],
        "text.bin": base64.b64encode(large_bytes(500_000, seed=2)),
    }
    source = Path(folder, "source")
    source.mkdir()
    for name, content in contents.items():
        (source / name).write_bytes(content)
    API.create_repo(repo)
    API.upload_folder(repo_id=repo, folder_path=source)
    got = Path(snapshot_download(repo, cache_dir=Path(folder, "cache")))
    assert all((got / name).read_bytes() == content for name, content in contents.items())


def cards_are_validated(repo, tokens, mode, folder):
    API.create_repo(repo)
    API.upload_file(repo_id=repo, path_or_fileobj=CARD.encode(), path_in_repo="README.md")
    assert ModelCard.load(repo).data.tags == ["lv-bert"]
    for wrong in ("tags: lv-bert", "- a", "a: [", "tags:\n- 1"):
        options = {"repo_id": repo, "path_in_repo": "README.md"}
        text = f"---\n{wrong}\n---\n# Card\n".encode()
        refused(ValueError, None, API.upload_file, path_or_fileobj=text, **options)


def downloads_are_cached(repo, tokens, mode, folder):
    content = large_bytes(300_000)
    sha = new_repository(repo, (("a.bin", content), ("b.txt", b"b")))
    path = Path(hf_hub_download(repo, "a.bin", cache_dir=folder))
    assert path.read_bytes() == content
    in_cache = Path(folder, "models--" + repo.replace("/", "--"), "snapshots", sha, "a.bin")
    assert path == in_cache
    again = hf_hub_download(repo, "a.bin", cache_dir=folder, local_files_only=True)
    assert Path(again) == path
    options = {"cache_dir": folder, "local_files_only": True}
    refused(LocalEntryNotFoundError, None, hf_hub_download, repo, "b.txt", **options)


def what_is_missing_is_named(repo, tokens, mode, folder):
    sha = new_repository(repo)
    refused(EntryNotFoundError, 404, hf_hub_download, repo, "none", cache_dir=folder)
    cached = Path(folder, "models--" + repo.replace("/", "--"), ".no_exist", sha, "none")
    assert cached.exists()
    options = {"revision": "none", "cache_dir": folder}
    refused(RevisionNotFoundError, 404, hf_hub_download, repo, "README.md", **options)
    refused(RepositoryNotFoundError, 404, hf_hub_download, repo + "x", "a", cache_dir=folder)
    options = {"token": False, "cache_dir": folder}
    refused(RepositoryNotFoundError, 401, hf_hub_download, repo + "x", "a", **options)


def snapshots_of_a_part(repo, tokens, mode, folder):
    content = large_bytes(2000)
    new_repository(repo, (("a.txt", b"a"), ("b.bin", content), ("sub/c.txt", b"c")))
    part = Path(snapshot_download(repo, allow_patterns="*.txt", cache_dir=folder))
    assert {p.name for p in part.rglob("*") if p.is_file()} == {"a.txt", "c.txt"}
    place = Path(folder, "here")
    snapshot_download(repo, local_dir=place)
    assert (place / "b.bin").read_bytes() == content
