"""Work under a grant: submit, wait, run, renew, release, and again after a preemption."""

from __future__ import annotations

import contextvars
import functools
import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, Mapping, Optional, TypeVar, Union, cast

from .errors import BerthError, StaleToken, Stopped, WaitTimeout, error_of_ending, has_ended
from .holding import RELEASE_FOR_SECONDS, REQUEST, Grant
from .reason import describe_waiting
from .transport import Abort, path_of
from .wire import Renewal, Request

if TYPE_CHECKING:
    from .client import Client

log = logging.getLogger("berth")

POLL_SECONDS_MAX = 25.0
WITHDRAW_FOR_SECONDS = 5.0
FOR_EVER = float("inf")

Function = TypeVar("Function", bound=Callable[..., Any])
OnWait = Callable[[str], None]

_current: "contextvars.ContextVar[Optional[Grant]]" = contextvars.ContextVar("berth_grant", default=None)


def current_grant() -> Optional[Grant]:
    """The grant of the block or step that runs here."""
    return _current.get()


def submission(
    *,
    component: str,
    gpu: Optional[int] = None,
    cpu: Optional[Union[int, float, str]] = None,
    memory: Optional[str] = None,
    resources: Optional[Mapping[str, int]] = None,
    retries: Union[int, Mapping[str, Any], None] = None,
    **fields: Any,
) -> Dict[str, Any]:
    """The body of a request. The server turns CPUs and memory into units (R3)."""
    body: Dict[str, Any] = {"component": component, "attended": True}
    settings: Dict[str, Any] = {"gpu_count": gpu, "cpu_count": cpu, "memory": memory}
    settings = {name: value for name, value in settings.items() if value is not None}
    if settings:
        if resources:
            settings["pool_resources"] = dict(resources)
        body["settings"] = settings
    else:
        body["resources"] = dict(resources or {"step_run": 1})
    if retries is not None:
        body["retries"] = {"max": retries} if isinstance(retries, int) else dict(retries)
    body.update({name: value for name, value in fields.items() if value is not None})
    return body


def wait_for_grant(
    client: "Client",
    request: Request,
    *,
    timeout: Optional[float] = None,
    on_wait: Optional[OnWait] = None,
    abort: Optional[Abort] = None,
) -> Request:
    """Returns the request once it is granted; raises when it never will be, or when the time is up.

    The time is counted here only: the request goes on waiting. See also `wait_timeout_seconds`.
    """
    end = FOR_EVER if timeout is None else time.monotonic() + timeout
    path = path_of(REQUEST, id=request["id"])
    shown = None
    # An outage of the server ends nobody's waiting, only the caller's own limit does.
    while request["status"] == "queued":
        left = end - time.monotonic()
        if left <= 0:
            raise WaitTimeout("wait_timeout", f"Request #{request['number']} was not granted within {timeout} s.")
        # Without a token: lets the server know that its client still waits (L2).
        renewal = cast(
            Renewal, client.transport.send("POST", path + "/renew", body={}, retry_for=left, abort=abort).body
        )
        if on_wait is not None:
            line = _why(client, request)
            if line and line != shown:
                shown = line
                on_wait(line)
        wait = min(POLL_SECONDS_MAX, renewal["renew_after_seconds"], renewal["lease_seconds"] / 3, max(0.0, left))
        query = {"wait": round(wait, 3), "until": "settled"}
        answer = client.transport.send("GET", path, query=query, timeout=wait + 10, retry_for=left, abort=abort)
        request = cast(Request, answer.body)
    if "token" in request:
        return request
    error = error_of_ending(request)
    raise error or BerthError("forbidden", f"Request #{request['number']} is {request['status']}, not ours to hold.")


def withdraw(client: "Client", request_id: str) -> Request:
    """Cancels a request that does not run here. If it was granted in the same moment, the grant is given back."""
    request = client.requests.cancel(request_id, retry_for=WITHDRAW_FOR_SECONDS)
    if "token" not in request:
        return request
    return client.requests.release(request_id, request["token"], "stopped", retry_for=WITHDRAW_FOR_SECONDS)


@contextmanager
def granted(client: "Client", body: Mapping[str, Any], **options: Any) -> Iterator[Grant]:
    """One grant for one block. The block cannot run again by itself, so its request is not queued again."""
    request = client.requests.submit({"requeue": "never", **body}, idempotency_key=options.pop("idempotency_key", None))
    grant = _next_grant(client, request, **options)
    token = _current.set(grant)
    try:
        yield grant
    except BaseException as error:
        _end(client, grant, error)
        raise
    else:
        stop = grant.stop_error  # As the block knew it: a renewal after its end would only be refused.
        ended = _end(client, grant, None)
        if grant.outcome_of_return == "stopped":
            raise stop or error_of_ending(ended) or Stopped("preempted", "The work was asked to stop.")
    finally:
        _current.reset(token)
        grant.close()


def step(client: Callable[[], "Client"], options: Mapping[str, Any]) -> Callable[[Function], Function]:
    """A decorator: the function runs under a grant of its own every time it is called, and again after a preemption."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            settings = {"name": function.__name__, **options}
            return run_step(client(), settings, functools.partial(function, *args, **kwargs))

        return cast(Function, run)

    return decorate


def run_step(client: "Client", settings: Mapping[str, Any], work: Callable[[], Any]) -> Any:
    wait = {name: settings[name] for name in ("timeout", "on_wait") if name in settings}
    asked = {name: value for name, value in settings.items() if name not in wait}
    request = client.requests.submit(client.submission(**asked))
    while True:
        grant = _next_grant(client, request, **wait)
        token = _current.set(grant)
        try:
            result = work()
        except BaseException as error:
            request = _end(client, grant, error)
            if not isinstance(error, Exception) or has_ended(request):
                raise (error_of_ending(request) or error) from error
        else:
            request = _end(client, grant, None)
            if grant.outcome_of_return == "succeeded":
                return result
            if has_ended(request):
                raise error_of_ending(request) or grant.stop_error or Stopped("preempted", "The work has stopped.")
        finally:
            _current.reset(token)
            grant.close()


def _next_grant(client: "Client", request: Request, **options: Any) -> Grant:
    """A request that nobody waits for any more is cancelled, rather than left to expire."""
    try:
        return Grant(client.transport, wait_for_grant(client, request, **options))
    except BaseException as error:
        if isinstance(error, WaitTimeout) or not isinstance(error, Exception):
            _quietly(lambda: withdraw(client, request["id"]))
        raise


def _end(client: "Client", grant: Grant, error: Optional[BaseException]) -> Request:
    """Reports how the work ended; without an answer, why it ended matters more."""
    if error is None:
        outcome = grant.outcome_of_return
        return grant.release(outcome)
    if isinstance(error, StaleToken):
        raise error
    is_interrupted = not isinstance(error, Exception)  # Ctrl-C, or the program exits.
    lost_touch = grant.stop_error is not None and grant.stop_error.code == "holder_lost"
    if is_interrupted:
        _quietly(lambda: client.requests.cancel(grant.id, retry_for=WITHDRAW_FOR_SECONDS))
    # Only what the server has asked to stop can be reported as stopped.
    was_asked = is_interrupted or (grant.should_stop() and not lost_touch)
    retry_for = WITHDRAW_FOR_SECONDS if lost_touch or is_interrupted else RELEASE_FOR_SECONDS
    try:
        return grant.release("stopped" if was_asked else "failed", message=str(error), retry_for=retry_for)
    except BerthError:
        raise error from None


def _why(client: "Client", request: Request) -> str:
    """The reason is a courtesy, and never worth an error."""
    try:
        return describe_waiting(request, client.requests.explain(request["id"], retry_for=0, timeout=5))
    except (BerthError, KeyError, TypeError):
        return ""


def _quietly(act: Callable[[], Any]) -> None:
    try:
        act()
    except BerthError as error:
        log.debug("Not done: %s", error)
