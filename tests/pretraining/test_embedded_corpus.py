import hashlib
import subprocess
import sys

import pytest

from modeling_lvbert.pretraining.embedded_corpus import (
    SPLITS,
    assign_split,
    collect_docstrings,
    extract_prose,
    iterate_embedded_documents,
    load_embedded_corpus,
)


def test_docstrings_come_in_the_order_of_the_source():
    source = b'"""Module."""\ndef f():\n    """F."""\n    def g(): "G."\nclass C:\n    """C."""\n'
    assert collect_docstrings(source) == ["Module.", "F.", "G.", "C."]
    assert collect_docstrings(b"def broken(:") == []


def test_prose_is_unwrapped_and_code_is_left_out():
    text = """Return the value of the given
    key, or the default value.

        >>> example()

    Args: x
    """
    assert extract_prose(text) == ["Return the value of the given key, or the default value."]


def test_a_document_keeps_its_split_whatever_else_there_is():
    names = [f"module {number}" for number in range(500)]
    splits = [assign_split(name) for name in names]
    assert {split: splits.count(split) > 20 for split in SPLITS} == dict.fromkeys(SPLITS, True)
    assert splits == [assign_split(name) for name in names]


@pytest.fixture(scope="module")
def embedded():
    return load_embedded_corpus()


def test_the_embedded_corpus_is_large_enough_and_has_every_split(embedded):
    words = {name: sum(len(t.split()) for t in part["text"]) for name, part in embedded.items()}
    assert set(words) == set(SPLITS)
    assert sum(words.values()) > 100_000
    assert min(words.values()) > 5_000
    assert words["train"] > sum(words.values()) / 2


def test_no_embedded_paragraph_is_in_two_splits(embedded):
    paragraphs = [
        line for part in embedded.values() for t in part["text"] for line in t.split("\n")
    ]
    assert len(paragraphs) == len(set(paragraphs))


def test_the_embedded_corpus_is_the_same_in_another_process(embedded):
    code = (
        "import hashlib\n"
        "from modeling_lvbert.pretraining.embedded_corpus import iterate_embedded_documents\n"
        "digest = hashlib.sha256()\n"
        "for row in iterate_embedded_documents():\n"
        "    digest.update(repr(sorted(row.items())).encode())\n"
        "print(digest.hexdigest())"
    )
    digest = hashlib.sha256()
    for row in iterate_embedded_documents():
        digest.update(repr(sorted(row.items())).encode())
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == digest.hexdigest()
