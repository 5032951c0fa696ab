"""Berth for Python: ask for scarce compute, work under a grant, save when others need it.

    import berth

    with berth.grant(gpu=2, component="research") as grant:
        train(grant)

    @berth.step(gpu=1, checkpoint="auto", retries=2)
    def train(data):
        grant = berth.current()
        ...

Inside a job that `berth run` has started there is no server to talk to: `berth.job` asks the wrapper.
"""

from __future__ import annotations

from typing import Any, Callable, ContextManager, Optional

from . import errors, job
from .client import Client
from .errors import *
from .holding import Grant
from .transport import Abort
from .work import Function, current_grant
from .work import step as _step

__version__ = "0.1.0"

__all__ = ["Abort", "Client", "Grant", "connect", "current", "grant", "job", "step"]
__all__ += errors.__all__

_default: Optional[Client] = None


def connect(*args: Any, **options: Any) -> Client:
    """A client as the arguments, the environment or the saved context say; `grant` and `step` use it from now on."""
    global _default
    _default = Client(*args, **options)
    return _default


def grant(**asked: Any) -> ContextManager[Grant]:
    """`with berth.grant(gpu=2) as grant:` waits, runs the block under the grant, and releases it."""
    return _client().grant(**asked)


def step(**options: Any) -> Callable[[Function], Function]:
    """`@berth.step(gpu=1, checkpoint="auto", retries=2)`. The server is looked for at the first call."""
    return _step(_client, options)


def current() -> Any:
    """The grant of the block or step that runs here; else `berth.job`, which works inside and outside of a job."""
    return current_grant() or job


def _client() -> Client:
    return _default or connect()
