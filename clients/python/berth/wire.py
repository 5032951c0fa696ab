"""The objects of the API that programs meet most, as typed dictionaries. Servers may send more fields than these."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, TypedDict

Json = Dict[str, Any]


class Reason(TypedDict):
    pool: Optional[str]
    code: str
    key: Optional[str]
    asked: int
    allowed: int


class Stop(TypedDict):
    cause: str
    phase: str
    reason: Optional[str]
    for_request: Optional[str]
    told_at: str
    deadline: str


class Attempt(TypedDict):
    attempt: int
    pool: Optional[str]
    started_at: str
    ended_at: str
    outcome: str
    preempted_for: Optional[str]
    reason: Optional[str]


class Request(TypedDict, total=False):
    id: str
    number: int
    name: str
    component: str
    status: str
    resources: Dict[str, int]
    preemptible: bool
    preemption_class: int
    sensitive: bool
    checkpoint: str
    checkpoint_seconds: Optional[float]
    walltime_seconds: Optional[float]
    operation: Optional[str]
    gang: bool
    nodes: int
    constraints: Dict[str, str]
    retries: Json
    requeue: str
    wait_timeout_seconds: Optional[float]
    attended: bool
    labels: Dict[str, str]
    note: str
    submitted_by: str
    submitted_at: str
    queued_at: str
    started_at: Optional[str]
    ended_at: Optional[str]
    attempt: int
    preempted_count: int
    resume: bool
    pool: Optional[str]
    opportunistic: bool
    placement: List[Json]
    hold: Optional[Json]
    stop: Optional[Stop]
    reasons: Optional[List[Reason]]
    attempts: List[Attempt]
    token: str
    lease_expires_at: str


class Renewal(TypedDict, total=False):
    status: str
    instruction: Json
    lease_expires_at: str
    lease_seconds: float
    renew_after_seconds: float


class Pool(TypedDict, total=False):
    name: str
    description: str
    labels: Dict[str, str]
    discipline: str
    capacity: Dict[str, int]
    usage: Dict[str, int]
    node_backed: bool
    closing: bool
    settings: Json
    queued: int
    running: int
    id: str
    created_at: Optional[str]
    updated_at: Optional[str]
    warnings: List[str]


class Policy(TypedDict, total=False):
    pool: str
    component: str
    component_type: str
    priority: int
    reserved: Dict[str, int]
    limit: Dict[str, int]
    weight: float
    kind: str
    max_class: int
    group: Optional[str]
    closing: bool
    id: str
    created_at: Optional[str]
    updated_at: Optional[str]
    warnings: List[str]


class Event(TypedDict, total=False):
    event: str
    seq: int
    at: str
    request_id: str
    number: int
    name: str
    component: str
    pool: Optional[str]
