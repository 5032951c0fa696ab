"""One call to one of the servers: retried after failures of the network, never after an answer that is final.

Invariants
  1. All tries of a call carry the same idempotency key and the same body, so that it takes effect once.
  2. Every server of the list gets its turn before the client gives up.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import ssl
import threading
import time
import uuid
from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Set
from urllib.parse import quote, urlencode, urlsplit

from .errors import BerthError, Unavailable, error_of, error_of_answer

RETRY_FOR_SECONDS = 30.0
TIMEOUT_SECONDS = 10.0
RETRY_SECONDS_MIN = 0.1
RETRY_SECONDS_MAX = 5.0
RETRY_AFTER_SECONDS_MAX = 60.0
#: Answers after which the same call may succeed; 0 is no answer at all.
PASSING_STATUSES = frozenset({0, 408, 425, 429, 502, 503, 504, 507})
#: By this the server knows how many clients have fallen silent at once (L3).
CLIENT_ID = str(uuid.uuid4())


class Aborted(Exception):
    """The caller no longer wants the answer."""


class Abort:
    """Ends waits and calls under way from another thread."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._connections: Set[http.client.HTTPConnection] = set()

    def set(self) -> None:
        with self._lock:
            self._event.set()
            connections = list(self._connections)
        for connection in connections:
            _hang_up(connection)

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleeps; True if aborted."""
        return self._event.wait(max(0.0, seconds))

    def check(self) -> None:
        if self._event.is_set():
            raise Aborted()

    def add(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            self._connections.add(connection)
        self.check()

    def remove(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            self._connections.discard(connection)


@dataclass(frozen=True)
class Answer:
    body: Any
    status: int
    headers: Mapping[str, str]
    #: By the monotonic clock, when the try that was answered began.
    sent_at: float


#: A position begins with the number of its history.
HISTORY_LENGTH = 5


class Seen:
    """What the answers so far reflected: the last event, and the server's word for it.

    A client that has seen an event reads no older state at another server (C8), and servers learn from it what their database
    has lost (C14). Nothing where a server is alone.
    """

    def __init__(self) -> None:
        self._seq = 0
        self._position = ""
        self._lock = threading.Lock()

    def headers(self, method: str) -> Dict[str, str]:
        headers: Dict[str, str] = {}
        with self._lock:
            if self._seq > 0 and method == "GET":
                headers["berth-min-seq"] = str(self._seq)
            if self._position:
                headers["berth-known"] = self._position
        return headers

    def see(self, headers: Mapping[str, str]) -> None:
        position = headers.get("berth-position", "")
        text = headers.get("berth-seq", "0")
        seq = int(text) if text.isdigit() else 0
        with self._lock:
            # In another history the same numbers mean something else.
            is_other = position[:HISTORY_LENGTH] != self._position[:HISTORY_LENGTH]
            if seq > self._seq or (is_other and position):
                self._seq, self._position = seq, position


class Transport:
    def __init__(
        self,
        urls: Sequence[str],
        token: Optional[str] = None,
        *,
        retry_for: float = RETRY_FOR_SECONDS,
        timeout: float = TIMEOUT_SECONDS,
        on_retry: Optional[Callable[[BerthError], None]] = None,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> None:
        if not urls:
            raise ValueError("A client needs the URL of a server.")
        for url in urls:
            if urlsplit(url).scheme not in ("http", "https"):
                raise ValueError(f'"{url}" is not an http or https address.')
        self.urls = [url.rstrip("/") for url in urls]
        self._token = token
        self._retry_for = retry_for
        self._timeout = timeout
        self._on_retry = on_retry
        self._ssl_context = ssl_context
        #: The server that answered last is asked first.
        self._preferred = 0
        self._seen = Seen()

    def send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Optional[Mapping[str, Any]] = None,
        idempotency_key: Optional[str] = None,
        if_match: Optional[str] = None,
        retry_for: Optional[float] = None,
        timeout: Optional[float] = None,
        repeatable: bool = True,
        abort: Optional[Abort] = None,
    ) -> Answer:
        """`repeatable=False`: the call is repeated only if it was turned away (429)."""
        target = path + query_text(query)
        headers = self._headers()
        data = None
        if body is not None:
            data = json.dumps(body, separators=(",", ":")).encode()
            headers["content-type"] = "application/json"
        if idempotency_key is not None:
            headers["idempotency-key"] = idempotency_key
        if if_match is not None:
            headers["if-match"] = if_match
        limit = self._timeout if timeout is None else timeout
        end = time.monotonic() + (self._retry_for if retry_for is None else retry_for)
        abort = abort or Abort()
        tries = 0
        while True:
            abort.check()
            server = (self._preferred + tries) % len(self.urls)
            sent_at = time.monotonic()
            try:
                # At every try anew: the one before may have taught us something.
                known = self._seen.headers(method)
                answer = self._try_once(
                    self.urls[server], method, target, data, {**headers, **known}, limit, abort
                )
                self._seen.see(answer[2])
                self._preferred = server
                return Answer(answer[0], answer[1], answer[2], sent_at)
            except BerthError as error:
                may_repeat = error.status == 429 if not repeatable else error.status in PASSING_STATUSES
                if not may_repeat:
                    raise
                tries += 1
                pause = 0.0
                if tries % len(self.urls) == 0:
                    pause = max(error.retry_after, full_jitter(tries // len(self.urls) - 1))
                    if time.monotonic() + pause > end:
                        raise
                if self._on_retry is not None:
                    self._on_retry(error)
                abort.wait(pause)

    def open_stream(
        self, path: str, query: Mapping[str, Any], headers: Mapping[str, str], silence: float, abort: Abort
    ) -> "Stream":
        """An answer that does not end by itself. Tried once on every server."""
        failure: BerthError = Unavailable("unavailable", "No server was asked.")
        for tries in range(len(self.urls)):
            url = self.urls[(self._preferred + tries) % len(self.urls)]
            abort.check()
            connection = self._connect(url, silence)
            try:
                abort.add(connection)
                sent = {**self._headers(), **self._seen.headers("GET"), **headers}
                connection.request("GET", _base_path(url) + path + query_text(query), headers=sent)
                response = connection.getresponse()
                self._seen.see(_headers_of(response))
                if response.status >= 300:
                    raise error_of_answer(response.status, response.read())
                return Stream(connection, response, abort)
            except BerthError as error:
                failure = error
            except (OSError, http.client.HTTPException) as error:
                abort.check()
                failure = _no_answer(url, error)
            abort.remove(connection)
            connection.close()
        raise failure

    def _try_once(
        self,
        url: str,
        method: str,
        target: str,
        data: Optional[bytes],
        headers: Mapping[str, str],
        timeout: float,
        abort: Abort,
    ) -> Any:
        connection = self._connect(url, timeout)
        try:
            abort.add(connection)
            connection.request(method, _base_path(url) + target, body=data, headers=dict(headers))
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            abort.check()
            raise _no_answer(url, error) from error
        finally:
            abort.remove(connection)
            connection.close()
        if response.status >= 300:
            raise error_of_answer(response.status, content, _retry_after(response))
        received = _headers_of(response)
        return _decode(content, received.get("content-type", "")), response.status, received

    def _connect(self, url: str, timeout: float) -> http.client.HTTPConnection:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme == "https":
            context = self._ssl_context or ssl.create_default_context()
            return http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=context)
        return http.client.HTTPConnection(host, parts.port, timeout=timeout)

    def _headers(self) -> Dict[str, str]:
        headers = {"accept": "application/json", "user-agent": "berth-client-python", "berth-client": CLIENT_ID}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        return headers


class Stream:
    """The lines of an answer that does not end by itself."""

    def __init__(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse, abort: Abort
    ) -> None:
        self._connection = connection
        self._response = response
        self._abort = abort

    def read_line(self) -> Optional[str]:
        """None at the end."""
        try:
            line = self._response.readline()
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            self._abort.check()
            raise Unavailable("unavailable", "The event stream was interrupted.") from error
        self._abort.check()
        return line.decode("utf-8", "replace").rstrip("\r\n") if line else None

    def close(self) -> None:
        self._abort.remove(self._connection)
        _hang_up(self._connection)
        self._connection.close()


def path_of(template: str, **params: str) -> str:
    return template.format(**{name: quote(str(value), safe="") for name, value in params.items()})


def query_text(query: Optional[Mapping[str, Any]]) -> str:
    given = {name: _query_value(value) for name, value in (query or {}).items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


def new_key() -> str:
    return str(uuid.uuid4())


def full_jitter(tries: int) -> float:
    """Anything up to a delay that doubles with every try, so that clients do not come back in step."""
    return random.random() * min(RETRY_SECONDS_MAX, RETRY_SECONDS_MIN * 2.0 ** min(tries, 30))


def _query_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, (list, tuple)) else str(value)


def _base_path(url: str) -> str:
    return urlsplit(url).path.rstrip("/")


def _decode(content: bytes, content_type: str) -> Any:
    if not content:
        return None
    return json.loads(content) if "json" in content_type else content.decode("utf-8", "replace")


def _headers_of(response: http.client.HTTPResponse) -> Dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def _retry_after(response: http.client.HTTPResponse) -> float:
    try:
        seconds = float(response.getheader("retry-after") or 0)
    except ValueError:
        return 0.0
    return min(max(0.0, seconds), RETRY_AFTER_SECONDS_MAX)


def _no_answer(url: str, error: Exception) -> BerthError:
    if isinstance(error, (socket.timeout, TimeoutError)):
        return error_of("timeout", f"{url} did not answer in time.")
    why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return error_of(
        "unavailable", f"{url} cannot be reached ({why}).", hint="Check the address, and whether the server runs."
    )


def _hang_up(connection: http.client.HTTPConnection) -> None:
    """Wakes a thread that reads from it."""
    try:
        if connection.sock is not None:
            connection.sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
