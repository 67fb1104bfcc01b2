"""What a client can rely on when it asks for repositories, run in its process by `test_server.py`.

Each check gets the name of a repository that is not there yet, the tokens by user, `mode`, which is
how large files travel, and `folder`, an empty one.
"""

import hashlib
from pathlib import Path

from huggingface_hub import HfApi, constants, hf_hub_download
from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, RepositoryNotFoundError

from tests.hub.check_tools import API, CARD, large_bytes, new_repository, refused


def who_one_is(repo, tokens, mode, folder):
    assert (mode == "lfs") == constants.HF_HUB_DISABLE_XET
    assert API.whoami()["name"] == "owner"
    assert HfApi(token=tokens["other"]).whoami()["name"] == "other"
    refused(HfHubHTTPError, 401, HfApi(token="hf_wrong").whoami)


def repositories_are_created_once(repo, tokens, mode, folder):
    url = API.create_repo(repo)
    assert (url.repo_id, str(url)) == (repo, f"{constants.ENDPOINT}/{repo}")
    assert API.create_repo(repo, exist_ok=True).repo_id == repo
    refused(HfHubHTTPError, 409, API.create_repo, repo)
    refused(HfHubHTTPError, 403, HfApi(token=tokens["reader"]).create_repo, repo + "2")
    refused(HfHubHTTPError, 403, HfApi(token=tokens["other"]).create_repo, repo + "2")
    in_team = "team/" + repo.split("/")[1]
    assert API.create_repo(in_team).repo_id == in_team


def contents_are_listed(repo, tokens, mode, folder):
    content = large_bytes(1000)
    new_repository(repo, (("a.txt", b"a"), ("sub/b.bin", content), ("sub/c/d.txt", b"d")))
    files = {".gitattributes", "a.txt", "sub/b.bin", "sub/c/d.txt"}
    assert set(API.list_repo_files(repo)) == files
    assert {e.path for e in API.list_repo_tree(repo)} == {".gitattributes", "a.txt", "sub"}
    assert {e.path for e in API.list_repo_tree(repo, "sub")} == {"sub/b.bin", "sub/c"}
    assert {e.path for e in API.list_repo_tree(repo, recursive=True)} == files | {"sub", "sub/c"}
    (info,) = API.get_paths_info(repo, ["sub/b.bin", "none"])
    assert (info.size, info.lfs.sha256) == (1000, hashlib.sha256(content).hexdigest())
    assert API.file_exists(repo, "a.txt") and not API.file_exists(repo, "b.txt")
    assert API.repo_exists(repo) and not API.repo_exists(repo + "x")
    assert API.revision_exists(repo, "main") and not API.revision_exists(repo, "none")
    refused(EntryNotFoundError, 404, lambda: list(API.list_repo_tree(repo, "none")))


def information_about_a_model(repo, tokens, mode, folder):
    content = large_bytes(1000)
    sha = new_repository(repo, (("README.md", CARD.encode()), ("model.safetensors", content)))
    info = API.model_info(repo, files_metadata=True)
    assert (info.id, info.sha, info.private, info.author) == (repo, sha, False, "owner")
    assert info.card_data.license == "apache-2.0" and info.tags == ["lv-bert"]
    (weights,) = [s for s in info.siblings if s.rfilename == "model.safetensors"]
    assert (weights.size, weights.lfs.sha256) == (1000, hashlib.sha256(content).hexdigest())


def branches_with_slashes(repo, tokens, mode, folder):
    first = new_repository(repo)
    API.create_branch(repo, branch="feature/x")
    refused(HfHubHTTPError, 409, API.create_branch, repo, branch="feature/x")
    API.upload_file(
        repo_id=repo, path_or_fileobj=b"branch", path_in_repo="a.txt", revision="feature/x"
    )
    path = hf_hub_download(repo, "a.txt", revision="feature/x", cache_dir=folder)
    assert Path(path).read_bytes() == b"branch"
    assert not API.file_exists(repo, "a.txt")
    assert API.model_info(repo).sha == first != API.model_info(repo, revision="feature/x").sha
    API.delete_branch(repo, branch="feature/x")
    assert [branch.name for branch in API.list_repo_refs(repo).branches] == ["main"]


def tags_stay_where_they_are(repo, tokens, mode, folder):
    first = new_repository(repo, (("a.txt", b"one"),))
    API.create_tag(repo, tag="v1", tag_message="first")
    refused(HfHubHTTPError, 409, API.create_tag, repo, tag="v1")
    API.upload_file(repo_id=repo, path_or_fileobj=b"two", path_in_repo="a.txt")
    for revision, content in (("v1", b"one"), ("main", b"two"), (first, b"one"), (None, b"two")):
        path = hf_hub_download(repo, "a.txt", revision=revision, cache_dir=folder)
        assert Path(path).read_bytes() == content
    (tag,) = API.list_repo_refs(repo).tags
    assert (tag.name, tag.target_commit) == ("v1", first)
    API.delete_tag(repo, tag="v1")
    assert not API.revision_exists(repo, "v1")


def private_repositories(repo, tokens, mode, folder):
    API.create_repo(repo, private=True)
    API.upload_file(repo_id=repo, path_or_fileobj=b"a", path_in_repo="a.txt")
    assert API.model_info(repo).private
    assert HfApi(token=tokens["reader"]).file_exists(repo, "a.txt")
    refused(RepositoryNotFoundError, 401, HfApi(token=False).model_info, repo)
    refused(RepositoryNotFoundError, 404, HfApi(token=tokens["other"]).model_info, repo)
    refused(HfHubHTTPError, 401, HfApi(token="hf_wrong").model_info, repo)
    options = {"token": False, "cache_dir": folder}
    refused(RepositoryNotFoundError, 401, hf_hub_download, repo, "a.txt", **options)
    options = {"repo_id": repo, "path_or_fileobj": b"b", "path_in_repo": "b.txt"}
    refused(HfHubHTTPError, 403, HfApi(token=tokens["reader"]).upload_file, **options)


def writing_needs_the_right(repo, tokens, mode, folder):
    new_repository(repo)
    for name, size in (("a.txt", 1), ("a.bin", 5000)):
        options = {"repo_id": repo, "path_or_fileobj": large_bytes(size), "path_in_repo": name}
        refused(RepositoryNotFoundError, 401, HfApi(token=False).upload_file, **options)
        for user in ("reader", "other"):
            refused(HfHubHTTPError, 403, HfApi(token=tokens[user]).upload_file, **options)
    assert set(API.list_repo_files(repo)) == {".gitattributes", "README.md"}


def settings_and_deletion(repo, tokens, mode, folder):
    new_repository(repo)
    API.update_repo_settings(repo, private=True)
    assert API.model_info(repo).private
    refused(HfHubHTTPError, 403, HfApi(token=tokens["reader"]).delete_repo, repo)
    API.delete_repo(repo)
    assert not API.repo_exists(repo)
    refused(RepositoryNotFoundError, 404, API.delete_repo, repo)
    API.delete_repo(repo, missing_ok=True)


def data_sets(repo, tokens, mode, folder):
    API.create_repo(repo, repo_type="dataset")
    content = large_bytes(4000)
    options = {"repo_id": repo, "repo_type": "dataset"}
    API.upload_file(path_or_fileobj=content, path_in_repo="sub/a.bin", **options)
    assert API.dataset_info(repo).id == repo
    path = hf_hub_download(filename="sub/a.bin", cache_dir=folder, **options)
    assert Path(path).read_bytes() == content
    assert not API.repo_exists(repo)


def long_listings_come_in_pages(repo, tokens, mode, folder):
    paths = [f"folder/file{number:02}.txt" for number in range(25)]
    new_repository(repo, [(path, path.encode()) for path in paths])
    assert set(API.list_repo_files(repo)) == {".gitattributes", *paths}
