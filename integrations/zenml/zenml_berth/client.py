"""The calls that ZenML's resource pools become, on top of Berth's Python client. No ZenML in here."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

import berth

from . import mapping
from .settings import Settings

#: ZenML waits for an answer inside of a transaction.
TIMEOUT_SECONDS = 10.0
RETRY_FOR_SECONDS = 20.0
#: A step update must not wait long; the keeper tries again later.
RELEASE_FOR_SECONDS = 2.0
BULK_ITEMS_MAX = 500

Json = Dict[str, Any]


class BerthPools:
    def __init__(self, settings: Settings, client: Optional[berth.Client] = None) -> None:
        self.settings = settings
        self.client = client or berth.Client(
            settings.url, settings.token, timeout=TIMEOUT_SECONDS, retry_for=RETRY_FOR_SECONDS, env={}
        )
        self._has_bulk_renewal = True

    # --- Pools

    def create_pool(self, name: str, capacity: Mapping[str, int], description: Optional[str] = None) -> Json:
        pool = self.client.pools.create(
            mapping.pool_name(name), mapping.amounts(capacity), description=description or ""
        )
        return dict(pool)

    def get_pool(self, name: str) -> Json:
        return dict(self.client.pools.get(mapping.pool_name(name)))

    def list_pools(self) -> List[Json]:
        return [dict(pool) for pool in self.client.pools.all()]

    def update_pool(
        self, name: str, capacity: Optional[Mapping[str, int]] = None, description: Optional[str] = None
    ) -> Json:
        body: Json = {}
        if capacity is not None:
            body["capacity"] = mapping.amounts(capacity)
        if description:
            body["description"] = description
        return dict(self.client.pools.update(mapping.pool_name(name), body))

    def delete_pool(self, name: str) -> None:
        self.client.pools.delete(mapping.pool_name(name))

    def active_requests(self, name: str) -> Iterator[Json]:
        requests = self.client.requests.all(pool=mapping.pool_name(name), status="allocated,preempting")
        return (dict(request) for request in requests)

    def queued_requests(self, name: str) -> Iterator[Json]:
        return self.client.pages("list_queue", {"pool": mapping.pool_name(name)})

    # --- Policies

    def attach_policy(
        self,
        pool: str,
        component: Tuple[str, str],
        priority: int,
        reserved: Optional[Mapping[str, int]] = None,
        limit: Optional[Mapping[str, int]] = None,
    ) -> Json:
        """`component` is type and name."""
        answer = self.client.policies.attach(
            mapping.pool_name(pool),
            mapping.component_name(*component),
            component_type=component[0],
            priority=priority,
            reserved=mapping.amounts(reserved),
            limit=mapping.amounts(limit),
        )
        return dict(answer)

    def get_policy(self, pool: str, component: Tuple[str, str]) -> Json:
        return dict(self.client.policies.get(mapping.pool_name(pool), mapping.component_name(*component)))

    def list_policies(self, pool: str) -> List[Json]:
        return [dict(policy) for policy in self.client.policies.all(mapping.pool_name(pool))]

    def update_policy(
        self,
        pool: str,
        component: Tuple[str, str],
        priority: Optional[int] = None,
        reserved: Optional[Mapping[str, int]] = None,
        limit: Optional[Mapping[str, int]] = None,
    ) -> Json:
        body: Json = {}
        if priority is not None:
            body["priority"] = priority
        if reserved is not None:
            body["reserved"] = mapping.amounts(reserved)
        if limit is not None:
            body["limit"] = mapping.amounts(limit)
        name = mapping.component_name(*component)
        return dict(self.client.policies.update(mapping.pool_name(pool), name, body))

    def detach_policy(self, pool: str, component: Tuple[str, str]) -> None:
        self.client.policies.detach(mapping.pool_name(pool), mapping.component_name(*component))

    # --- Requests

    def create_request(self, **asked: Any) -> Optional[Json]:
        """None: the step runs ungoverned, because its component has no policy, or Berth is away and may be."""
        key = mapping.idempotency_key(asked["step_run_id"])
        try:
            request: Json = dict(self.client.requests.submit(mapping.submission(**asked), idempotency_key=key))
        except berth.Unavailable:
            if self.settings.when_down == "run":
                return None
            raise
        if mapping.is_ungoverned(request):
            self.client.requests.delete(request["id"])
            return None
        return request

    def get_request(self, request_id: str, has_started: bool = True) -> Json:
        """The launcher polls with this call: its request is alive while it waits (L2).

        A request that was granted and preempted between two polls has nothing to stop: its units are given back, since
        ZenML's launcher would poll for ever.
        """
        request: Json = dict(self.client.requests.get(request_id))
        if request["status"] == "preempting" and not has_started:
            return self.release(request_id, "cancelled")
        if request["status"] == "queued":
            try:
                self.client.requests.renew(request_id)
            except berth.BerthError:
                pass  # Granted or ended in this moment: the next poll sees it.
        return request

    def delete_request(self, request_id: str) -> None:
        """Units of a grant come back at once: ZenML's users delete what is stuck."""
        request = self.client.requests.get(request_id)
        if "token" in request:
            request = self.client.requests.cancel(request_id)
        if "token" in request:
            self.client.requests.release(request_id, request["token"], "stopped", message="deleted in ZenML")
        self.client.requests.delete(request_id, force=True)

    def release(self, request_id: str, step_status: str, retry_for: float = RELEASE_FOR_SECONDS) -> Json:
        """Reports the end of a step; what still waits is cancelled, what has ended stays as it is."""
        request: Json = dict(self.client.requests.get(request_id, retry_for=retry_for, timeout=TIMEOUT_SECONDS))
        if request["status"] == "queued":
            return dict(self.client.requests.cancel(request_id, retry_for=retry_for))
        if "token" not in request:
            return request
        outcome = mapping.outcome_of(step_status, request["status"])
        message = f"the step is {step_status}"
        try:
            answer = self.client.requests.release(
                request_id, request["token"], outcome, message=message, retry_for=retry_for
            )
        except berth.StaleToken:
            return dict(self.client.requests.get(request_id, retry_for=retry_for))
        return dict(answer)

    def renew(self, tokens: Mapping[str, str]) -> Dict[str, Json]:
        """Renews grants, given their tokens by id; answers by id. What was lost is left out."""
        held = list(tokens.items())
        answers: Dict[str, Json] = {}
        for start in range(0, len(held), BULK_ITEMS_MAX):
            answers.update(self._renew_some(dict(held[start : start + BULK_ITEMS_MAX])))
        return answers

    def _renew_some(self, tokens: Mapping[str, str]) -> Dict[str, Json]:
        if self._has_bulk_renewal:
            items = [{"id": request_id, "token": token} for request_id, token in tokens.items()]
            try:
                results = self.client.requests.renew_many(items)
            except berth.BerthError as error:
                if error.status not in (404, 405):
                    raise
                self._has_bulk_renewal = False  # An older server.
            else:
                return {one: answer for one, answer in zip(tokens, results) if "problem" not in answer}
        answers: Dict[str, Json] = {}
        for request_id, token in tokens.items():
            try:
                answers[request_id] = dict(self.client.requests.renew(request_id, token))
            except (berth.StaleToken, berth.NotFound):
                continue
        return answers
