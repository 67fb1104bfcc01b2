"""What the checks share: the client's interface, contents, and how a refusal is expected."""

import random

from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import EntryNotFoundError

API = HfApi()
CARD = "---\nlicense: apache-2.0\ntags:\n- lv-bert\n---\n# A card\n"
ONLY_A_CARD = (("README.md", CARD.encode()),)


def large_bytes(size, seed=0):
    """Bytes that do not compress, the same for a seed."""
    return random.Random(seed).randbytes(size)


def refused(exception, status, call, *arguments, **options):
    """Checks that a call raises this exception and none below it, with this status."""
    try:
        call(*arguments, **options)
    except exception as error:
        # This one has a class for each way in which a file can be missing.
        assert type(error) is exception or exception is EntryNotFoundError, type(error)
        assert status is None or error.response.status_code == status, error
        return
    raise AssertionError(f"{call} was not refused")


def new_repository(repo, files=ONLY_A_CARD):
    API.create_repo(repo)
    operations = [CommitOperationAdd(path, content) for path, content in files]
    return API.create_commit(repo, operations, commit_message="first").oid
