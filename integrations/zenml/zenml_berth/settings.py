"""Where Berth is, and what to do while it is away."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional


@dataclass(frozen=True)
class Settings:
    #: One or more URLs, separated by commas.
    url: str
    token: str
    #: `fail`: a step that cannot ask fails. `run`: it runs ungoverned.
    when_down: str
    #: How long a step that sends heartbeats may be silent before it loses its lease.
    silence_seconds: float


def read_settings(env: Optional[Mapping[str, str]] = None) -> Settings:
    env = os.environ if env is None else env
    url = env.get("ZENML_BERTH_URL", "")
    if not url:
        raise ValueError("ZENML_BERTH_URL is not set: the address of the Berth server.")
    when_down = env.get("ZENML_BERTH_WHEN_DOWN", "fail")
    if when_down not in ("fail", "run"):
        raise ValueError(f'ZENML_BERTH_WHEN_DOWN is "{when_down}"; it is `fail` or `run`.')
    return Settings(
        url=url,
        token=_token(env),
        when_down=when_down,
        silence_seconds=float(env.get("ZENML_BERTH_SILENCE_SECONDS", "300")),
    )


def _token(env: Mapping[str, str]) -> str:
    path = env.get("ZENML_BERTH_TOKEN_FILE")
    if path:
        return Path(path).read_text(encoding="utf-8").strip()
    token = env.get("ZENML_BERTH_TOKEN", "")
    if not token:
        raise ValueError("Set ZENML_BERTH_TOKEN_FILE: a file with an API token of role admin.")
    return token
