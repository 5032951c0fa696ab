"""Which server to call, and as whom: arguments, then the environment, then the saved context, as the CLI does."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

from .errors import BerthError


@dataclass(frozen=True)
class Connection:
    #: Servers that share one store: any of them may answer.
    urls: Tuple[str, ...]
    token: Optional[str]
    component: Optional[str]


def resolve_connection(
    url: Optional[str] = None,
    token: Optional[str] = None,
    component: Optional[str] = None,
    context: Optional[str] = None,
    env: Optional[Mapping[str, str]] = None,
) -> Connection:
    env = os.environ if env is None else env
    file = read_contexts(env)
    contexts = file.get("contexts") or {}
    asked = context or env.get("BERTH_CONTEXT")
    name = asked or file.get("current")
    saved: Dict[str, Any] = contexts.get(name) or {}
    if asked and not saved:
        raise BerthError("not_found", f'There is no context "{asked}".', hint="`berth context list` shows them.")
    chosen = url or env.get("BERTH_URL") or saved.get("url")
    if not chosen:
        raise BerthError(
            "usage",
            "No server is known.",
            hint="Start one with `berth up`, save one with `berth login URL`, or set BERTH_URL and BERTH_API_TOKEN.",
        )
    # A saved token is for the saved server only.
    saved_token = saved.get("token") if chosen == saved.get("url") else None
    return Connection(
        urls=tuple(one.strip() for one in chosen.split(",") if one.strip()),
        token=token or env.get("BERTH_API_TOKEN") or saved_token,
        component=component or env.get("BERTH_COMPONENT") or saved.get("component"),
    )


def context_file_path(env: Mapping[str, str]) -> Path:
    config = env.get("XDG_CONFIG_HOME")
    home = Path(env.get("HOME") or Path.home())
    return (Path(config) if config else home / ".config") / "berth" / "contexts.json"


def read_contexts(env: Mapping[str, str]) -> Dict[str, Any]:
    path = context_file_path(env)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BerthError("file_unreadable", f"The contexts in {path} cannot be read: {error.strerror}.") from error
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise BerthError("invalid_syntax", f"The contexts in {path} are not JSON.") from error
    return parsed if isinstance(parsed, dict) else {}
