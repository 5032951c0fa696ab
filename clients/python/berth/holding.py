"""A grant in the hands of a program: what it may use, when it must stop, and how it reports a checkpoint.

Invariants
  1. Silence is measured from the moment at which the last confirmed renewal was sent, by the monotonic clock, so that
     a holder stops no later than the server counts it as lost (L2).
  2. The server keeps the timers of the stopping sequence (11): nothing here ends work on its own account.
  3. An answer that the grant token is old is final.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Dict, List, Mapping, Optional, cast

from .errors import (
    BerthError,
    Cancelled,
    HolderLost,
    NotFound,
    Preempted,
    StaleToken,
    Stopped,
    WalltimeOver,
    parse_time,
)
from .transport import Abort, Aborted, Transport, full_jitter, new_key, path_of
from .wire import Renewal, Request

log = logging.getLogger("berth")

LEASE_SECONDS_DEFAULT = 300.0
RENEWAL_SECONDS_DEFAULT = 20.0
#: Work that is over sooner needs neither renewals nor a long poll.
QUIET_START_SECONDS = 0.1
RETRY_SECONDS = 1.0
POLL_SECONDS = 25
#: After a deadline of the stopping sequence the server has decided what comes next.
AFTER_DEADLINE_SECONDS = 0.02
#: The server has freed the units by itself after one and a half of the longest usual lease.
RELEASE_FOR_SECONDS = 450.0
MESSAGE_CHARS_MAX = 1_000

REQUEST = "/v1/resource-requests/{id}"


class Grant:
    """Kept alive in the background until it is released."""

    def __init__(self, transport: Transport, request: Request, granted_at: Optional[float] = None) -> None:
        self.request = request
        self.id = request["id"]
        self.number = request["number"]
        #: None: outside all pools.
        self.pool = request.get("pool")
        #: Grows with every grant: name what you write after it, and an old holder cannot overwrite it.
        self.token = request["token"]
        self.attempt = request["attempt"]
        #: A checkpoint of an earlier attempt is complete.
        self.resume = request["resume"]
        self.resources: Mapping[str, int] = request["resources"]
        self.placement: List[Dict[str, Any]] = request.get("placement", [])
        self._transport = transport
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._closed = Abort()
        self._wake = threading.Event()
        self._confirmed_at = time.monotonic() if granted_at is None else granted_at
        self._lease = _first_lease(request)
        self._renewal = min(RENEWAL_SECONDS_DEFAULT, self._lease / 3)
        self._instruction: Mapping[str, Any] = {"do": "carry_on"}
        self._deadline_at: Optional[float] = None
        self._stop: Optional[BerthError] = None
        self._callback: Optional[Callable[["Grant"], None]] = None
        self._is_called = False
        self._has_seen = False
        self._has_saved = False
        self._is_finished = False
        self._progress: Any = None
        self._released: Optional[Request] = None
        for run in (self._keep, self._watch):
            threading.Thread(target=run, name=f"berth-{run.__name__}-{self.number}", daemon=True).start()

    # --- What the server wants

    def should_stop(self) -> bool:
        """True once a checkpoint is wanted or the work must stop. Save, report it, and return."""
        with self._lock:
            wanted = self._stop is not None or self._instruction["do"] != "carry_on"
            self._has_seen = self._has_seen or wanted
            return wanted

    def check(self) -> None:
        """Raises `Preempted`, `Cancelled`, `WalltimeOver`, `HolderLost` or `StaleToken` if the work must stop now."""
        with self._lock:
            if self._stop is not None:
                self._has_seen = True
                raise self._stop

    def wait_for_stop(self, timeout: Optional[float] = None) -> bool:
        """Sleeps until a checkpoint is wanted or the work must stop; False after the time."""
        with self._changed:
            self._changed.wait_for(lambda: self._stop is not None or self._instruction["do"] != "carry_on", timeout)
        return self.should_stop()

    @property
    def reason(self) -> Optional[str]:
        """Why it must stop, in a word: `reclaim`, `priority`, `cancellation`, `walltime`, …"""
        return cast(Optional[str], self._instruction.get("reason"))

    @property
    def deadline(self) -> Optional[datetime]:
        """Until when it may save or end, by the clock of this machine."""
        at = self._deadline_at
        return None if at is None else datetime.now(timezone.utc) + timedelta(seconds=at - time.monotonic())

    # --- What the work reports

    def checkpoint_done(self) -> None:
        """The state is saved. Also between preemptions: less is lost with the next one."""
        with self._lock:
            self._has_saved = True
        self._report("done")

    def progress(self) -> None:
        """Still saving: may earn half the time again (11)."""
        self._report("progress")

    def defer(self, seconds: float) -> float:
        """Asks for more time; returns how many seconds were granted."""
        before = self._instruction.get("deadline")
        stop = self._report("defer", seconds=seconds).get("stop")
        if before is None or stop is None:
            return 0.0
        return max(0.0, (parse_time(stop["deadline"]) - parse_time(before)).total_seconds())

    def finished(self) -> None:
        """The work is complete although it was asked to stop: what it returns counts."""
        self._is_finished = True

    def describe(self, progress: Any) -> None:
        """A number or a short text that the server shows from the next renewal on."""
        self._progress = progress

    def on_checkpoint(self, callback: Callable[["Grant"], None]) -> None:
        """Called in a thread of its own when a checkpoint is wanted; when it returns, the checkpoint is complete."""
        with self._lock:
            self._callback = callback
        self._call_back()

    def release(
        self,
        outcome: str,
        *,
        message: Optional[str] = None,
        exit_code: Optional[int] = None,
        retry_for: float = RELEASE_FOR_SECONDS,
    ) -> Request:
        """Reports the end: `succeeded`, `failed` or `stopped`. The answer says whether there is another attempt."""
        if self._released is None:
            body: Dict[str, Any] = {"token": self.token, "outcome": outcome}
            if message is not None:
                body["message"] = message[:MESSAGE_CHARS_MAX]
            if exit_code is not None:
                body["exit_code"] = exit_code
            try:
                self._released = self._post("release", body, key=new_key(), retry_for=retry_for)
            finally:
                self.close()
        return self._released

    def close(self) -> None:
        """Stops renewing without a report."""
        self._closed.set()
        self._wake.set()

    @property
    def outcome_of_return(self) -> str:
        """What it means that the work has ended by itself (11.4).

        Work that reported a checkpoint, or looked and saw that it must stop, has stopped as it was asked to, unless it
        said that it is finished. Work that never looked has simply finished.
        """
        with self._lock:
            must_stop = self._stop is not None or self._instruction["do"] != "carry_on"
            has_stopped = must_stop and (self._has_seen or self._has_saved) and not self._is_finished
            return "stopped" if has_stopped else "succeeded"

    @property
    def stop_error(self) -> Optional[BerthError]:
        """Why the work must stop now; None while it need not."""
        return self._stop

    # --- Keeping it alive

    def _keep(self) -> None:
        if self._closed.wait(QUIET_START_SECONDS):
            return
        while not self._closed.is_set():
            self._wake.clear()
            pause = self._renewal * (0.8 + 0.4 * random.random())
            try:
                self._renew()
            except Aborted:
                return
            except (StaleToken, NotFound) as error:
                if not self._closed.is_set():
                    self._lose(error)
                return
            except BerthError as error:
                log.debug("Grant #%s was not renewed: %s", self.number, error)
                pause = min(pause, RETRY_SECONDS * (0.5 + random.random()))
            left = self._confirmed_at + self._lease - time.monotonic()
            if left <= 0 and self._stop is None:
                self._lose(HolderLost("holder_lost", "No server has answered for a whole lease."))
            if left > 0:
                pause = min(pause, left)
            if self._deadline_at is not None and self._deadline_at > time.monotonic():
                pause = min(pause, self._deadline_at - time.monotonic() + AFTER_DEADLINE_SECONDS)
            self._wake.wait(pause)

    def _renew(self) -> None:
        body: Dict[str, Any] = {"token": self.token, "phase": "running"}
        if self._progress is not None:
            body["progress"] = self._progress
        # One try per server: the next turn tries again, and the silence is measured meanwhile.
        timeout = max(0.5, min(10.0, self._lease / 3))
        answer = self._transport.send(
            "POST", path_of(REQUEST + "/renew", id=self.id), body=body, retry_for=0, timeout=timeout, abort=self._closed
        )
        renewal = cast(Renewal, answer.body)
        with self._lock:
            self._confirmed_at = answer.sent_at
            self._lease = renewal["lease_seconds"]
            self._renewal = min(renewal["renew_after_seconds"], self._lease / 3)
            if isinstance(self._stop, HolderLost):
                self._stop = None  # The server has answered again, and the grant is still ours.
        self._follow(renewal)

    def _follow(self, renewal: Renewal) -> None:
        instruction = renewal["instruction"]
        with self._changed:
            self._instruction = instruction
            self._deadline_at = None
            if instruction.get("deadline") is not None:
                # Both times are the server's: their difference holds whatever our own clock says.
                server_now = parse_time(renewal["lease_expires_at"]) - timedelta(seconds=renewal["lease_seconds"])
                left = (parse_time(instruction["deadline"]) - server_now).total_seconds()
                self._deadline_at = time.monotonic() + max(0.0, left)
            if instruction["do"] == "stop" and self._stop is None:
                self._stop = _reason_to_stop(str(instruction.get("reason", "")))
            self._changed.notify_all()
        if instruction["do"] == "checkpoint":
            self._call_back()

    def _lose(self, error: BerthError) -> None:
        with self._changed:
            self._stop = error
            self._changed.notify_all()

    def _watch(self) -> None:
        """Notices at once that something has happened, by long polls."""
        if self._closed.wait(QUIET_START_SECONDS):
            return
        seen = None
        idle = 0
        while not self._closed.is_set():
            until = "preempting" if self._instruction["do"] == "carry_on" else "change"
            try:
                request = self._transport.send(
                    "GET",
                    path_of(REQUEST, id=self.id),
                    query={"wait": POLL_SECONDS, "until": until},
                    timeout=POLL_SECONDS + 10,
                    abort=self._closed,
                ).body
                news = (request["status"], request["attempt"], str(request.get("stop")))
                if news != seen:
                    seen, idle = news, 0
                    self._wake.set()
            except Aborted:
                return
            except BerthError:
                self._wake.set()  # A renewal shows what is wrong.
            # What it waits for may have happened already, and then answers come at once.
            self._closed.wait(full_jitter(idle))
            idle += 1

    def _call_back(self) -> None:
        with self._lock:
            callback = self._callback
            if callback is None or self._is_called or self._instruction["do"] != "checkpoint":
                return
            self._is_called = True

        def save() -> None:
            try:
                callback(self)
                if not self._has_saved:
                    self.checkpoint_done()
            except Exception:  # A checkpoint that fails never completes: the server's deadline ends the work (11.2).
                log.exception("The checkpoint of grant #%s failed", self.number)

        threading.Thread(target=save, name=f"berth-checkpoint-{self.number}", daemon=True).start()

    def _report(self, report: str, **extra: Any) -> Request:
        body = {"token": self.token, "report": report, **extra}
        answer = self._post("checkpoint", body, key=new_key())
        self._wake.set()
        return answer

    def _post(self, action: str, body: Mapping[str, Any], **options: Any) -> Request:
        key = options.pop("key")
        path = path_of(f"{REQUEST}/{action}", id=self.id)
        return cast(Request, self._transport.send("POST", path, body=body, idempotency_key=key, **options).body)


def _reason_to_stop(reason: str) -> Stopped:
    if reason == "cancellation":
        return Cancelled("cancelled", "The request was cancelled.")
    if reason == "walltime":
        return WalltimeOver("walltime_over", "The work has reached its walltime.")
    return Preempted("preempted", f"The work was preempted ({reason}).")


def _first_lease(request: Request) -> float:
    """The time between a grant and the end of its first lease tells how long a lease is."""
    expires, started = request.get("lease_expires_at"), request.get("started_at")
    if not expires or not started:
        return LEASE_SECONDS_DEFAULT
    seconds = (parse_time(expires) - parse_time(started)).total_seconds()
    return seconds if seconds > 0 else LEASE_SECONDS_DEFAULT
