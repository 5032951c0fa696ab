"""Keeps the leases of running steps, and gives back what has ended. One thread per process. No ZenML in here.

Invariants
  1. Only a step that is alive is renewed: who is silent for too long loses its lease, and its units.
  2. The book is the outbox. An end that Berth has not heard of is a live request of an ended step; every turn reports
     those again, so that a step update never fails because of Berth, and nothing is lost by a restart.
  3. A turn that fails is followed by another one.
"""

from __future__ import annotations

import logging
import random
import threading
from dataclasses import dataclass
from typing import Any, Dict, Iterable, Mapping, Optional, Protocol, Set

import berth

from . import mapping
from .client import BerthPools

log = logging.getLogger("zenml_berth")

#: Also how late a preemption is noticed at most.
TURN_SECONDS_MAX = 5.0
TURN_SECONDS_MIN = 1.0


@dataclass(frozen=True)
class Entry:
    """A live request as ZenML's database knows it."""

    request_id: str
    #: Of the mirrored request: pending, allocated, preempting.
    status: str
    #: None: the step run no longer exists.
    step_status: Optional[str]
    #: Seconds since the last sign of life; None if the step sends none.
    silent_seconds: Optional[float] = None


class Book(Protocol):
    """ZenML's database, as much of it as the keeper needs."""

    def live(self) -> Iterable[Entry]: ...

    def mirror(self, request_id: str, request: Mapping[str, Any]) -> None:
        """Writes down what Berth says of a request."""

    def forget(self, request_id: str) -> None:
        """Berth knows no such request any more."""

    def stop_step(self, request_id: str) -> None:
        """The step of this request is to be cancelled."""


class Keeper:
    def __init__(self, pools: BerthPools, book: Book) -> None:
        self._pools = pools
        self._book = book
        self._stopped = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._pause = TURN_SECONDS_MAX
        #: Grant tokens by request, read once per grant.
        self._tokens: Dict[str, str] = {}
        self._silent: Set[str] = set()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="zenml-berth-keeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._pause * (0.8 + 0.2 * random.random())):
            try:
                self.turn()
            except berth.BerthError as error:
                log.warning("Berth does not answer the lease keeper: %s", error)
            except Exception:
                log.exception("A turn of the lease keeper failed; the next one tries again")

    def turn(self) -> None:
        """Reports ends, renews what is alive, and notices preemptions."""
        entries = {entry.request_id: entry for entry in self._book.live()}
        ended = [one for one in entries.values() if one.step_status is None or one.step_status in mapping.ENDED_STEPS]
        for entry in ended:
            self._report_end(entry)
        running = {one.request_id: one for one in entries.values() if one not in ended and one.status != "pending"}
        if running:
            self._renew(running)

    def _report_end(self, entry: Entry) -> None:
        try:
            request = self._pools.release(entry.request_id, entry.step_status or "failed")
        except berth.NotFound:
            self._book.forget(entry.request_id)
        else:
            self._book.mirror(entry.request_id, request)

    def _renew(self, running: Mapping[str, Entry]) -> None:
        self._tokens = {one: token for one, token in self._tokens.items() if one in running}
        self._silent &= set(running)
        for request_id, entry in running.items():
            is_silent = self._is_silent(entry)
            if is_silent and request_id not in self._silent:
                log.warning("The step of request %s is silent; its lease is not renewed", request_id)
            (self._silent.add if is_silent else self._silent.discard)(request_id)
            if is_silent or request_id not in self._tokens:
                token = self._look(request_id)
                self._tokens.pop(request_id, None)
                if token is not None and not is_silent:
                    self._tokens[request_id] = token
        answers = self._pools.renew(self._tokens)
        for request_id in list(self._tokens):
            answer = answers.get(request_id)
            if answer is None or answer["instruction"]["do"] != "carry_on":
                self._look(request_id)
        pauses = [answer["renew_after_seconds"] for answer in answers.values()]
        self._pause = max(TURN_SECONDS_MIN, min([TURN_SECONDS_MAX, *pauses]))

    def _look(self, request_id: str) -> Optional[str]:
        """Writes down where a request stands; its token if it holds units.

        The step of a request that must stop, or has lost its units, is stopped.
        """
        try:
            request = self._pools.client.requests.get(request_id)
        except berth.NotFound:
            self._book.forget(request_id)
            self._book.stop_step(request_id)
            return None
        self._book.mirror(request_id, request)
        # Cancellation and walltime leave the status as it is, and end the step all the same.
        if "token" not in request or request.get("stop"):
            self._book.stop_step(request_id)
        return request.get("token")

    def _is_silent(self, entry: Entry) -> bool:
        silent = entry.silent_seconds
        return silent is not None and silent > self._pools.settings.silence_seconds
