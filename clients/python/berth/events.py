"""The event stream, which goes on where it was after every interruption."""

from __future__ import annotations

import json
from typing import Callable, Dict, Iterator, Optional, Tuple, cast

from .errors import BerthError
from .transport import Abort, Aborted, Transport, full_jitter
from .wire import Event

#: The server sends something at least every 15 s; a connection silent for this long is dead.
SILENCE_SECONDS_MAX = 45.0


def stream_events(
    transport: Transport,
    *,
    pool: Optional[str] = None,
    request: Optional[str] = None,
    component: Optional[str] = None,
    after: Optional[int] = None,
    abort: Optional[Abort] = None,
    on_interruption: Optional[Callable[[BerthError], None]] = None,
) -> Iterator[Event]:
    """Events until `abort` is set or the iterator is closed.

    `stream.opened` marks every connection, `stream.reset` that history was lost and the state must be read anew.
    Raises only what another try would not mend.
    """
    abort = abort or Abort()
    query = {"pool": pool, "request": request, "component": component}
    failures = 0
    last = None if after is None else str(after)
    while not abort.is_set():
        try:
            for message_id, event in _connect(transport, query, last, abort):
                failures = 0
                last = message_id
                yield event
        except Aborted:
            return
        except BerthError as error:
            if not (error.status in (0, 408) or error.status >= 500):
                raise
            if on_interruption is not None:
                on_interruption(error)
        abort.wait(full_jitter(failures))
        failures += 1


def _connect(
    transport: Transport, query: Dict[str, Optional[str]], last: Optional[str], abort: Abort
) -> Iterator[Tuple[Optional[str], Event]]:
    """Events with the ids of their messages, which also say of which history they are."""
    headers = {"accept": "text/event-stream"}
    if last is not None:
        headers["last-event-id"] = last
    stream = transport.open_stream("/v1/events", query, headers, SILENCE_SECONDS_MAX, abort)
    try:
        data = ""
        while True:
            line = stream.read_line()
            if line is None:
                return
            if line.startswith("id:"):
                last = line[3:].strip()
            elif line.startswith("data:"):
                data += line[5:].strip()
            elif line == "" and data:
                yield last, cast(Event, json.loads(data))
                data = ""
    finally:
        stream.close()
