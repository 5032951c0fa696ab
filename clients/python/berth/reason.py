"""Why a request waits, in one line."""

from __future__ import annotations

from typing import Any, Mapping

HOLDERS_SHOWN_MAX = 3


def describe_waiting(request: Mapping[str, Any], explanation: Mapping[str, Any]) -> str:
    """Such as `needs gpu 1, free 0 · held by #1 train (you) · first in line`."""
    if explanation.get("delayed_until"):
        return f"tried again at {explanation['delayed_until'][11:19]} UTC"
    pools = sorted(explanation.get("pools") or [], key=lambda pool: pool["position"])
    if not pools:
        return ""
    pool = pools[0]  # The one in whose queue it is foremost.
    place = "first in line" if pool["position"] == 1 else f"place {pool['position']} in line"
    parts = [_blocker(request, pool["blocked_by"]), _holders(request, pool), place]
    return " · ".join(part for part in parts if part)


def _blocker(request: Mapping[str, Any], blocker: Mapping[str, Any]) -> str:
    rule = blocker["rule"]
    if rule == "units":
        return " and ".join(f"needs {one['key']} {one['asked']}, free {one['free']}" for one in blocker["short"])
    if rule == "behind_head":
        asked = [f"{key} {amount}" for key, amount in request["resources"].items() if key != "step_run"]
        return f"needs {', '.join(asked) or 'a turn'}"
    if rule in ("limit", "group_limit", "reserved"):
        who = {"limit": "at its limit", "reserved": "its reserve is in use"}.get(rule)
        who = who or f"{blocker.get('group') or 'its group'} is at its limit"
        return f"{who}, {blocker['key']} {blocker['used']} of {blocker['allowed']}"
    if rule == "holds":
        return "its units are coming free"
    if rule == "holds_elsewhere":
        return f"its units are coming free in pool {blocker['pool']}"
    return ""  # A newer server may know more rules.


def _holders(request: Mapping[str, Any], pool: Mapping[str, Any]) -> str:
    names = []
    for holder in pool["holders"][:HOLDERS_SHOWN_MAX]:
        who = "you" if holder["component"] == request["component"] else (holder["component"] or "others")
        name = f" {holder['name']}" if holder.get("name") else ""
        names.append(who if holder["number"] is None else f"#{holder['number']}{name} ({who})")
    if not names:
        return ""
    more = pool["holder_count"] - len(names)
    stopping = ", stopping" if any(holder["stopping"] for holder in pool["holders"]) else ""
    return f"held by {', '.join(names)}{f' and {more} more' if more > 0 else ''}{stopping}"
