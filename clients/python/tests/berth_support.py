"""A real server for the tests and proofs of the Python packages, started as people start it.

BERTH_COMMAND is the command line to use, as a JSON list; without it, `berth` of this repository.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "clients" / "python"
sys.path.insert(0, str(PACKAGE))

import berth  # noqa: E402

WAIT_SECONDS_MAX = 90.0
#: Quick, so that tests do not wait for what takes minutes elsewhere.
QUICK = {"grace_seconds": 20, "renewal_seconds": 1, "lease_seconds": 60}


def berth_command() -> List[str]:
    given = os.environ.get("BERTH_COMMAND")
    return json.loads(given) if given else ["node", str(ROOT / "berth")]


class Server:
    """`berth serve` in a directory of its own."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="berth-python-"))
        self.home = self.directory / "home"
        self.home.mkdir()
        self._listen = "127.0.0.1:0"
        self.url = ""
        self.start()
        self.token = (self.directory / "data" / "admin-token").read_text().strip()

    def start(self) -> None:
        words = ["serve", "--data-dir", str(self.directory / "data"), "--listen", self._listen]
        with open(self.directory / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                [*berth_command(), *words],
                stdout=subprocess.PIPE,
                stderr=log,
                env=self.environment(BERTH_URL="", BERTH_API_TOKEN=""),
                text=True,
            )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "listening" in line:
                self.url = line.split()[-1]
                self._listen = self.url.split("//")[1]
                threading.Thread(target=self.process.stdout.read, daemon=True).start()
                return
        raise AssertionError("The server did not start:\n" + (self.directory / "server.log").read_text())

    def stop(self, kill: bool = False) -> None:
        if self.process.poll() is None:
            self.process.kill() if kill else self.process.terminate()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def environment(self, **more: str) -> Dict[str, str]:
        env = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.home),
            "USER": "alice",
            "PYTHONPATH": str(PACKAGE),
            "BERTH_URL": self.url,
            "BERTH_API_TOKEN": getattr(self, "token", ""),
            "BERTH_COMPONENT": "research",
            **more,
        }
        return {name: value for name, value in env.items() if value}

    def client(self, **options: Any) -> "berth.Client":
        options.setdefault("component", "research")
        options.setdefault("token", self.token)
        return berth.Client(self.url, env={"HOME": str(self.home)}, **options)

    def make_pool(self, name: str = "lab", gpu: int = 2, settings: Optional[Dict[str, Any]] = None) -> None:
        """`research` may be preempted by `urgent`."""
        client = self.client()
        client.pools.create(name, {"gpu": gpu}, settings={**QUICK, **(settings or {})})
        client.policies.attach(name, "research", priority=1)
        client.policies.attach(name, "urgent", priority=100)

    def run(self, *words: str, **env: str) -> "subprocess.Popen[str]":
        """A `berth` command in the background."""
        return subprocess.Popen(
            [*berth_command(), *words],
            env=self.environment(**env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


class ServerTest(unittest.TestCase):
    """One server for all tests of a class."""

    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.close()


class LabTest(ServerTest):
    """The same with a pool, and a client that may use it."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.server.make_pool()

    def setUp(self) -> None:
        self.client = self.server.client()


def eventually(what: str, look: Callable[[], Any]) -> Any:
    """Waits for a condition."""
    end = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"Waited in vain until {what}.")


def in_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    """Starts it; the answer joins and returns its result or raises its exception."""
    box: Dict[str, Any] = {}

    def run() -> None:
        try:
            box["result"] = work()
        except BaseException as error:  # noqa: B902
            box["error"] = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def join() -> Any:
        thread.join(WAIT_SECONDS_MAX)
        assert not thread.is_alive(), "It does not end."
        if "error" in box:
            raise box["error"]
        return box.get("result")

    return join
