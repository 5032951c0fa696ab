"""ZenML's words and Berth's, side by side. Pure: no ZenML, no network, no clock."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime, timezone
from typing import Any, Dict, List, Mapping, Optional
from uuid import UUID

from berth.errors import parse_time

#: ZenML knows seven statuses; `failed` and `expired` are ends of the work, not of the request, there.
STATUSES: Mapping[str, str] = {
    "queued": "pending",
    "allocated": "allocated",
    "preempting": "preempting",
    "preempted": "preempted",
    "cancelled": "cancelled",
    "rejected": "rejected",
    "released": "released",
    "failed": "released",
    "expired": "cancelled",
}
#: Statuses of a mirrored request that may still change.
LIVE = ("pending", "allocated", "preempting")
#: Statuses of a step run that preemption turns into `cancelling`.
STOPPABLE_STEPS = ("initializing", "provisioning", "queued", "running")
#: Statuses of a step run after which its units are due.
ENDED_STEPS = ("completed", "failed", "cached", "cancelled", "retrying", "retried", "stopped", "skipped")

STEP_LABEL = "zenml.step_run"
NAME_LENGTH_MAX = 63
COMPONENT_LENGTH_MAX = 200
_POOL_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_KEY = re.compile(r"[a-z][a-z0-9_.-]{0,62}")


def pool_name(name: str) -> str:
    """Berth's name of a pool. ZenML takes any text; what Berth would refuse gets a readable stand-in."""
    return name if _POOL_NAME.fullmatch(name) else _stand_in(name, "p")


def resource_key(key: str) -> str:
    """Berth's name of a resource key, such as `a100-1f0c9d` for `A100`."""
    return key if _KEY.fullmatch(key) else _stand_in(key, "k")


def component_name(component_type: str, name: str) -> str:
    """Type and name: ZenML allows an orchestrator and a step operator of one name."""
    full = f"{component_type}.{name}"
    printable = full.isprintable() and len(full) <= COMPONENT_LENGTH_MAX
    return full if printable else f"{component_type}.{_stand_in(name, 'c')}"


def amounts(given: Optional[Mapping[str, int]]) -> Dict[str, int]:
    return {resource_key(key): amount for key, amount in (given or {}).items()}


def submission(
    *,
    component: str,
    step_run_id: str,
    step_name: str,
    pipeline_run_id: str,
    resources: Mapping[str, int],
    preemptible: bool,
) -> Dict[str, Any]:
    """A retry is a new request in ZenML, so Berth never queues one again; and it ends if nobody polls for it."""
    return {
        "component": component,
        "resources": amounts(resources),
        "preemptible": preemptible,
        "requeue": "never",
        "attended": True,
        "name": step_name,
        "operation": pipeline_run_id,
        "labels": {STEP_LABEL: step_run_id},
    }


def idempotency_key(step_run_id: str) -> str:
    """One request per step run, however often it is sent."""
    return f"zenml-{step_run_id}"


def status_of(request: Mapping[str, Any]) -> str:
    return STATUSES[request["status"]]


def status_reason(request: Mapping[str, Any]) -> Optional[str]:
    """What ZenML shows: Berth's reason, with numbers."""
    status = request["status"]
    if status == "rejected":
        return "; ".join(_rejection(reason) for reason in request.get("reasons") or []) or "no pool admits it"
    if status == "expired":
        return "its holder was not heard of"
    if status == "failed":
        return "the step failed"
    if status in ("preempting", "preempted"):
        stop = request.get("stop") or {}
        attempts = request.get("attempts") or [{}]
        reason = stop.get("reason") or attempts[-1].get("reason")
        return f"preempted for a request with a better claim ({reason})" if reason else "preempted"
    return None


def preempted_for(request: Mapping[str, Any]) -> Optional[str]:
    """The id of the request that got the units, if it is known."""
    stop = request.get("stop") or {}
    attempts = request.get("attempts") or [{}]
    found = stop.get("for_request") or attempts[-1].get("preempted_for")
    return str(found) if found else None


def is_ungoverned(request: Mapping[str, Any]) -> bool:
    """Rejected only because its component has no policy: ZenML runs such a step outside of all pools."""
    reasons = request.get("reasons") or []
    return request["status"] == "rejected" and all(reason["code"] == "no_policy" for reason in reasons)


def outcome_of(step_status: str, request_status: str) -> str:
    """How the end of a step is reported."""
    if step_status in ("completed", "cached", "skipped"):
        return "succeeded"
    return "stopped" if request_status == "preempting" else "failed"


def lifetime_of(thing: Mapping[str, Any]) -> Dict[str, Any]:
    """The columns `id`, `created` and `updated` of a pool or policy, as far as Berth knows them."""
    columns: Dict[str, Any] = {}
    if thing.get("id"):
        columns["id"] = UUID(thing["id"])
    for column in ("created", "updated"):
        if thing.get(f"{column}_at"):
            columns[column] = time_of(thing[f"{column}_at"])
    return columns


def time_of(text: str) -> datetime:
    """As ZenML keeps times: in UTC, without saying so."""
    return parse_time(text).astimezone(timezone.utc).replace(tzinfo=None)


def usage_of(pool: Mapping[str, Any], keys: List[str]) -> Dict[str, int]:
    """Units in use under ZenML's names of the keys."""
    usage = pool.get("usage") or {}
    return {key: int(usage.get(resource_key(key), 0)) for key in keys}


def _rejection(reason: Mapping[str, Any]) -> str:
    where = f" in pool {reason['pool']}" if reason.get("pool") else ""
    if not reason.get("key"):
        return f"{reason['code']}{where}"
    return f"{reason['code']}: {reason['asked']} {reason['key']} asked, {reason['allowed']} allowed{where}"


def _stand_in(name: str, first: str) -> str:
    """Readable, valid and different for different names."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    plain = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("._-")
    if not plain or not plain[0].isalpha():
        plain = f"{first}-{plain}".rstrip("-")
    return f"{plain[: NAME_LENGTH_MAX - 7]}-{digest}"
