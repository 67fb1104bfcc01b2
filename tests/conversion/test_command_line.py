import json
import logging
import sys
from dataclasses import dataclass

import pytest

from conversion import command_line, convert_elcbert


@dataclass
class Arguments:
    name: str
    count: int = 1


def parse(*argv):
    return command_line.parse_arguments(Arguments, "conversion.some", "Does things.", argv)


def test_flags_and_their_defaults():
    assert parse("--name", "a") == Arguments("a", 1)


@pytest.mark.parametrize(
    ("file_name", "text"),
    [("a.json", '{"name": "b", "count": 3}'), ("a.yaml", "name: b\ncount: 3\n")],
)
def test_one_file_takes_the_place_of_flags(tmp_path, file_name, text):
    path = tmp_path / file_name
    path.write_text(text)
    assert parse(str(path)) == Arguments("b", 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"name": "b", "cuont": 3}', "unknown arguments .'cuont'.*known: .'count', 'name'"),
        ('{"count": 3}', "missing arguments .'name'"),
        ("[1, 2]", "expected names and values, got list"),
        ('{"name": ', r"a\.json: Expecting value"),
    ],
    ids=["unknown", "missing", "list", "cut off"],
)
def test_a_file_that_does_not_fit_is_an_error(tmp_path, text, message):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        parse(str(path))


def test_broken_yaml_is_an_error_on_one_line(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("name: [1,\n")
    with pytest.raises(ValueError, match="a.yaml: while parsing") as caught:
        parse(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("argv", [[], ["--nam", "a"], ["--name", "a", "--count", "many"]])
def test_wrong_flags_exit_with_2(argv, capsys):
    with pytest.raises(SystemExit) as caught:
        parse(*argv)
    assert caught.value.code == 2
    assert "usage: python -m conversion.some" in capsys.readouterr().err


@pytest.mark.parametrize("error", [ValueError("no such order"), OSError("no space left")])
def test_a_users_error_is_a_message_and_exit_code_1(error, capsys, monkeypatch):
    def fail(argv):
        raise error

    monkeypatch.setattr(sys, "argv", ["converter"])
    assert command_line.run(fail) == 1
    assert capsys.readouterr().err == f"error: {error}\n"


def test_results_and_warnings_go_to_different_streams(capsys, monkeypatch):
    def work(argv):
        logging.getLogger("conversion.some").info("done with %s", argv)
        logging.getLogger("conversion.some").warning("odd")

    monkeypatch.setattr(sys, "argv", ["converter", "x"])
    assert command_line.run(work) == 0
    assert tuple(capsys.readouterr()) == ("done with ['x']\n", "warning: odd\n")


def test_only_the_first_process_of_a_launcher_works(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    assert command_line.run(lambda argv: pytest.fail("the second process worked too")) == 0


@pytest.mark.parametrize("value", [3, None, ["a"]])
def test_a_settings_file_with_a_value_of_another_type_is_an_error(tmp_path, value):
    path = tmp_path / "settings.json"
    settings = {"checkpoint": value, "config": "b", "output_dir": "o", "variant": "zero"}
    path.write_text(json.dumps(settings))
    with pytest.raises(ValueError, match="checkpoint must be str, got"):
        command_line.parse_arguments(convert_elcbert.Arguments, "m", "d", [str(path)])
