"""What can go wrong: the problem that a server answered with, or the lack of an answer."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Dict, List, Mapping, Optional, Type

__all__ = [
    "BerthError",
    "Cancelled",
    "Conflict",
    "Forbidden",
    "HolderLost",
    "InvalidRequest",
    "NotFound",
    "Preempted",
    "Rejected",
    "StaleToken",
    "Stopped",
    "Unauthenticated",
    "Unavailable",
    "WaitTimeout",
    "WalltimeOver",
]

LIVE_STATUSES = ("queued", "allocated", "preempting")


class BerthError(Exception):
    """A stable code, a sentence, and a next step."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str = "",
        status: int = 0,
        problem: Optional[Mapping[str, Any]] = None,
        retry_after: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        #: HTTP status of the answer; 0 if no server answered.
        self.status = status
        #: The whole problem, if a server sent one.
        self.problem = problem
        #: Seconds after which the server wants to be asked again.
        self.retry_after = retry_after

    def __str__(self) -> str:
        text = f"{self.message} [{self.code}]"
        return f"{text} {self.hint}" if self.hint else text


class InvalidRequest(BerthError):
    """The call is malformed, or makes no sense in this state."""


class Unauthenticated(BerthError):
    """The API token is missing or wrong."""


class Forbidden(BerthError):
    """The API token does not allow this."""


class NotFound(BerthError):
    """Nothing of this kind has this name or id."""


class Conflict(BerthError):
    """The state does not allow this: a name is taken, something is in use."""


class StaleToken(Conflict):
    """The grant token is not the current one: this holder has lost its grant."""


class Unavailable(BerthError):
    """No server answered, or none could."""


class Rejected(BerthError):
    """No pool can ever grant the request; the message says why, per pool."""


class WaitTimeout(BerthError):
    """The request was not granted in time."""


class Stopped(BerthError):
    """The work was asked to stop."""


class Preempted(Stopped):
    """The units went to a request with a better claim."""


class Cancelled(Stopped):
    """The request was cancelled."""


class WalltimeOver(Stopped):
    """The work reached its walltime."""


class HolderLost(Stopped):
    """No server was reached for a whole lease: the units may go to others."""


_BY_CODE: Dict[str, Type[BerthError]] = {
    "stale_token": StaleToken,
    "idempotency_conflict": Conflict,
    "unavailable": Unavailable,
    "timeout": Unavailable,
    "cancelled": Cancelled,
    "preempted": Preempted,
    "walltime_over": WalltimeOver,
    "holder_lost": HolderLost,
    "wait_timeout": WaitTimeout,
}
_BY_STATUS: Dict[int, Type[BerthError]] = {
    400: InvalidRequest,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    422: InvalidRequest,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def error_of(code: str, message: str, *, status: int = 0, **extra: Any) -> BerthError:
    """The exception class follows from the code, else from the HTTP status."""
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status, BerthError)
    return kind(code, message, status=status, **extra)


def error_of_answer(status: int, body: bytes, retry_after: float = 0.0) -> BerthError:
    """From an answer that is not a success. A proxy may have written it."""
    problem = _parse_problem(body)
    if problem is None:
        code = {502: "unavailable", 503: "unavailable", 504: "timeout"}.get(status, "internal_error")
        message = f"The server answered {status} without a reason."
        return error_of(code, message, status=status, retry_after=retry_after)
    return error_of(
        problem["code"],
        problem["detail"],
        status=status,
        hint=str(problem.get("hint") or ""),
        problem=problem,
        retry_after=retry_after,
    )


def _parse_problem(body: bytes) -> Optional[Dict[str, Any]]:
    try:
        parsed = json.loads(body)
    except ValueError:
        return None
    if not isinstance(parsed, dict):
        return None
    is_problem = isinstance(parsed.get("code"), str) and isinstance(parsed.get("detail"), str)
    return parsed if is_problem else None


def has_ended(request: Mapping[str, Any]) -> bool:
    return request["status"] not in LIVE_STATUSES


def error_of_ending(request: Mapping[str, Any]) -> Optional[BerthError]:
    """Why a request that has ended did not bring what was asked for; None if its work ended by itself."""
    which = f"Request #{request['number']}"
    status = request["status"]
    if status == "rejected":
        return _rejection(which, request)
    if status == "cancelled":
        return Cancelled("cancelled", f"{which} was cancelled.")
    if status == "preempted":
        return Preempted("preempted", f"{which} was preempted and is not queued again.")
    if status == "expired":
        return _expiry(which, request)
    if status == "failed" and _last_outcome(request) == "walltime":
        return WalltimeOver("walltime_over", f"{which} reached its walltime of {request['walltime_seconds']} s.")
    return None


def describe_rejection(reasons: List[Mapping[str, Any]]) -> str:
    """Such as `over_reserved in pool "a100": 3 gpu asked, 2 allowed`."""
    parts = []
    for reason in reasons:
        where = f' in pool "{reason["pool"]}"' if reason.get("pool") else ""
        amounts = ""
        if reason.get("key"):
            amounts = f": {reason['asked']} {reason['key']} asked, {reason['allowed']} allowed"
        parts.append(f"{reason['code']}{where}{amounts}")
    return "; ".join(parts) or "no pool admits it"


def _rejection(which: str, request: Mapping[str, Any]) -> BerthError:
    reasons = request.get("reasons") or []
    code = reasons[0]["code"] if reasons else "no_policy"
    return Rejected(
        code,
        f"{which} can never be granted: {describe_rejection(reasons)}.",
        hint="Ask for less, or have the policy changed.",
    )


def _expiry(which: str, request: Mapping[str, Any]) -> BerthError:
    """`expired` means either: not granted in time, or its holder was silent for too long."""
    timeout = request.get("wait_timeout_seconds")
    if timeout is not None and _last_outcome(request) != "lost":
        waited = parse_time(request["ended_at"]) - parse_time(request["queued_at"])
        if waited.total_seconds() >= timeout:
            return WaitTimeout("wait_timeout", f"{which} was not granted within {timeout} s.")
    return HolderLost("holder_lost", f"{which} expired, because its holder was silent for too long.")


def _last_outcome(request: Mapping[str, Any]) -> Optional[str]:
    attempts = request.get("attempts") or []
    return attempts[-1]["outcome"] if attempts else None


def parse_time(text: str) -> datetime:
    """RFC 3339 as the server writes it; Python 3.9 does not read the `Z`."""
    return datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
