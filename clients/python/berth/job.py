"""Inside a job that Berth has started: notices that it should stop, and reports what it saved.

The job never talks to a server. The question is a file, BERTH_PREEMPT_FILE; the answer goes to the socket
BERTH_SOCKET, or as a file of the report's name into BERTH_CHECKPOINT_DIR. Outside of a job nothing is ever wanted,
and reports go nowhere, so that a script runs unchanged on a laptop.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from datetime import datetime
from pathlib import Path
from typing import Any, Dict, Optional

from .errors import BerthError, parse_time

#: The exit code by which a program says: stopped as asked, not finished.
EXIT_STOPPED = 75
ANSWER_SECONDS_MAX = 60.0

_has_sigterm = False


def is_inside() -> bool:
    """Whether Berth has started this program."""
    return bool(os.environ.get("BERTH_PREEMPT_FILE"))


def should_stop() -> bool:
    """True once a checkpoint is wanted (or, after `catch_sigterm`, once SIGTERM has come)."""
    path = os.environ.get("BERTH_PREEMPT_FILE")
    return _has_sigterm or (bool(path) and os.path.exists(str(path)))


def notice() -> Dict[str, Any]:
    """`deadline` and `reason` of the question; empty if nothing was asked."""
    path = os.environ.get("BERTH_PREEMPT_FILE")
    if not path:
        return {}
    try:
        parsed = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def checkpoint_done() -> bool:
    """The state is saved: the job may be stopped, and its next attempt resumes. False outside of a job."""
    return _report("done") is not None


def progress() -> bool:
    """Still saving: may earn half the time again."""
    return _report("progress") is not None


def defer(seconds: float) -> Optional[str]:
    """Asks for more time; returns what was granted in words, if the answer came by the socket."""
    return _report("defer", seconds)


def finished() -> bool:
    """The work is complete although it was asked to stop: exit code 0 counts as success."""
    return _report("finished") is not None


def catch_sigterm() -> None:
    """From now on SIGTERM does not end this program: `should_stop()` becomes true. Call it in the main thread."""

    def remember(*_: Any) -> None:
        global _has_sigterm
        _has_sigterm = True

    signal.signal(signal.SIGTERM, remember)


def __getattr__(name: str) -> Any:
    # Read when asked for: a launcher may set the environment after the import.
    if name == "resume":
        return os.environ.get("BERTH_RESUME") == "1"
    if name == "attempt":
        return int(os.environ.get("BERTH_ATTEMPT") or 1)
    if name == "checkpoint_dir":
        directory = os.environ.get("BERTH_CHECKPOINT_DIR")
        return Path(directory) if directory else None
    if name == "deadline":
        return _deadline()
    if name == "reason":
        return notice().get("reason")
    raise AttributeError(f"module 'berth.job' has no attribute {name!r}")


resume: bool
attempt: int
checkpoint_dir: Optional[Path]
deadline: Optional[datetime]
reason: Optional[str]


def _deadline() -> Optional[datetime]:
    text = notice().get("deadline")
    return parse_time(text) if isinstance(text, str) else None


def _report(report: str, seconds: Optional[float] = None) -> Optional[str]:
    """What the wrapper answered; None if there is none to report to."""
    path = os.environ.get("BERTH_SOCKET")
    if path and hasattr(socket, "AF_UNIX"):
        try:
            return _send(path, report, seconds)
        except OSError:
            pass  # The directory is the other way.
    directory = os.environ.get("BERTH_CHECKPOINT_DIR")
    if not directory:
        return None
    target = Path(directory) / report
    draft = target.with_name(f"{report}.{os.getpid()}.new")
    draft.write_text("" if seconds is None else str(seconds), encoding="utf-8")
    draft.replace(target)
    return ""


def _send(path: str, report: str, seconds: Optional[float]) -> str:
    message: Dict[str, Any] = {"report": report}
    if seconds is not None:
        message["seconds"] = seconds
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_SECONDS_MAX)
        connection.connect(path)
        connection.sendall(json.dumps(message).encode() + b"\n")
        line = connection.makefile("rb").readline()
    if not line:
        raise ConnectionResetError("The wrapper of this job closed the connection.")
    answer = json.loads(line)
    if not answer.get("accepted"):
        raise BerthError("invalid_request", answer.get("message") or "The report was refused.")
    return str(answer.get("message") or "")
