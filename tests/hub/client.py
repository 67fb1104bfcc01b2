"""Users of the test Hub: fresh processes, since their settings are read when they import."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.hub.server import Hub

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(__file__).parent / "scripts"
MODES = ("lfs", "xet")
# A busy machine takes a minute to import PyTorch and transformers.
TIMEOUT = 600
RESULT = "RESULT "
# Answers one line of JSON a line of JSON: which check to call, with which arguments.
SERVE_CHECKS = """
import importlib, json, sys, traceback
sys.path.insert(0, sys.argv[1])
answers, sys.stdout = sys.stdout, sys.stderr
for line in sys.stdin:
    module, name, arguments = json.loads(line)
    try:
        getattr(importlib.import_module(module), name)(**arguments)
        told = None
    except BaseException:
        told = traceback.format_exc()
    answers.write(json.dumps(told) + "\\n")
    answers.flush()
"""
# A script sees what a user's machine has: not this checkout, however it was installed.
WITHOUT_PACKAGE = f"""
import importlib.util, sys
sys.meta_path[:] = [f for f in sys.meta_path if "__editable__" not in repr(f)]
sys.path[:] = [p for p in sys.path if p != {str(ROOT)!r}]
assert importlib.util.find_spec("modeling_lvbert") is None, "the package is on the path"
"""
WITH_PACKAGE = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"


@dataclass
class Client:
    """A user on a machine of their own.

    Attributes:
        hub: The Hub that is talked to.
        folder: The machine's disk: caches, and the scripts' working folder.
        mode: "lfs" or "xet": how large files travel.
        token: Whom the Hub takes the user for, None for nobody.
    """

    hub: Hub
    folder: Path
    mode: str
    token: str | None

    def environment(self, **more: str) -> dict[str, str]:
        foreign = ("HF_", "PYTHON", "HUGGING", "TRANSFORMERS_")
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(foreign) and not name.lower().endswith("_proxy")
        }
        settings = {
            "HF_ENDPOINT": self.hub.origin,
            "HF_HOME": str(self.folder / "home"),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "NO_PROXY": "127.0.0.1,localhost",
        }
        if self.token is not None:
            settings["HF_TOKEN"] = self.token
        if self.mode == "lfs":
            settings["HF_HUB_DISABLE_XET"] = "1"
        return kept | settings | more

    def start(
        self, script: str, *arguments: object, package: bool = False, **environment: str
    ) -> subprocess.Popen[str]:
        """Starts a script of the folder `scripts`; it sees the package only where asked for."""
        self.folder.mkdir(parents=True, exist_ok=True)
        names = [int(path.stem[6:]) for path in self.folder.glob("script*.py")]
        file = self.folder / f"script{max(names, default=0) + 1}.py"
        code = (SCRIPTS / f"{script}.py").read_text(encoding="utf-8")
        file.write_text((WITH_PACKAGE if package else WITHOUT_PACKAGE) + code, encoding="utf-8")
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", str(file), *map(str, arguments)],
            cwd=self.folder,
            env=self.environment(**environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str, *arguments: object, **options: Any) -> Any:
        """Runs a script and returns what it told on a line that begins with RESULT, as JSON.

        Raises:
            AssertionError: The script failed.
        """
        return finish(self.start(script, *arguments, **options))


def finish(process: subprocess.Popen[str]) -> Any:
    """Waits for a script; see `Client.run`."""
    out, err = wait(process)
    assert process.returncode == 0, out[-2000:] + err[-4000:]
    told = [line for line in out.splitlines() if line.startswith(RESULT)]
    return json.loads(told[-1].removeprefix(RESULT)) if told else None


def wait(process: subprocess.Popen[str]) -> tuple[str, str]:
    try:
        return process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"no end after {TIMEOUT} s: {out[-2000:]}{err[-2000:]}") from None


class Checker:
    """One process that runs checks one after the other."""

    def __init__(self, client: Client):
        self.client = client

    def __enter__(self) -> "Checker":
        self.client.folder.mkdir(parents=True, exist_ok=True)
        self.errors = (self.client.folder / "stderr").open("w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", SERVE_CHECKS, str(ROOT)],
            cwd=self.client.folder,
            env=self.client.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.communicate()
        self.errors.close()

    def call(self, module: str, name: str, **arguments: object) -> None:
        """Runs a check, a function of a module.

        Raises:
            AssertionError: The check failed, with its traceback.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([module, name, arguments]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            raise AssertionError(f"the client died: {self.errors.read()[-3000:]}")
        told = json.loads(line)
        assert told is None, told
