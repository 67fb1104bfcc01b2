import pytest

from conversion import secret_scan

from .published_runs import TOKENS


@pytest.mark.parametrize("kind", TOKENS)
def test_tokens_are_found_wherever_they_stand(kind):
    token = TOKENS[kind]
    for text in (token, f'{{"key": "{token}"}}', f"export X={token}\n", f"({token})"):
        assert secret_scan.find_tokens(text) == [kind], text


@pytest.mark.parametrize(
    "text", ["hf_", "sk-learn", "risk-based", "AKIA", "half_a_word_of_letters", "eyJ", "hf_hub"]
)
def test_ordinary_words_are_no_tokens(text):
    assert secret_scan.find_tokens(text) == []


@pytest.mark.parametrize(
    "path",
    [
        "/home/ada/runs",
        "/data/corpus.txt",
        "/mnt/c/x y/z.txt",
        "C:\\\\Users\\\\ada",
        "C:\\Users\\ada",
        "D:/runs/a",
        "file:///srv/x",
        "\\\\server\\share",
    ],
)
def test_absolute_paths_are_found(path):
    for text in (path, f'"name": "{path}"', f"in {path}, line 3", f"--dir={path}"):
        assert secret_scan.find_paths(text), text


@pytest.mark.parametrize(
    "text",
    [
        "https://huggingface.co/a/b/c",
        "see runs/search/best or ./a/b and ../a/b",
        "either/or, and/or",
        "n / m, 3/4, </a></b>",
        "a line\\n and a tab\\t",
        "USER/NAME",
        "arXiv 2106.11740",
        "`/`",
    ],
)
def test_addresses_and_relative_paths_are_none(text):
    assert secret_scan.find_paths(text) == []


def test_a_finding_names_file_and_line_and_keeps_the_secret(tmp_path):
    token = TOKENS["Hugging Face token"]
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / "history.jsonl").write_text(f'{{}}\n{{"a": "{token}"}}\n')
    (tmp_path / "config.json").write_text('{\n\n "_name_or_path": "/home/ada/x"}')
    with pytest.raises(ValueError, match="config.json, line 3: absolute path") as error:
        secret_scan.check_folder(tmp_path)
    assert "search/history.jsonl, line 2: Hugging Face token" in str(error.value)
    assert token not in str(error.value)


def test_words_of_a_vocabulary_are_no_paths_but_for_those_of_this_machine(tmp_path):
    own = tmp_path / "runs" / "mine"
    text = '{"vocab": {"/usr/local": 1}}'
    assert secret_scan.scan_text(text, "generator/tokenizer.json") == []
    assert secret_scan.scan_text(text, "history.json")
    leaking = text.replace("/usr/local", str(own))
    folders = secret_scan.list_own_folders(own)
    assert secret_scan.scan_text(leaking, "tokenizer.json", folders)


def test_binary_files_are_searched_too(tmp_path):
    (tmp_path / "a.png").write_bytes(b"\x89PNG\xff\x00" + TOKENS["API key"].encode() + b"\x00")
    (tmp_path / "model.onnx").write_bytes(b"\xff\x00" + str(tmp_path / "x").encode())
    assert len(secret_scan.scan_folder(tmp_path, secret_scan.list_own_folders(tmp_path))) == 2


def test_links_are_listed_and_not_followed(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(tmp_path / "outside")
    assert [name for _, name in secret_scan.list_files(tmp_path / "folder")] == ["link"]
