"""The client: one method per route, and the ways to wait for a grant and to work under it."""

from __future__ import annotations

import ssl
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Mapping, Optional, Sequence, Union, cast

from .context import resolve_connection
from .errors import BerthError
from .events import stream_events
from .holding import Grant
from .reason import describe_waiting
from .transport import Abort, Transport, new_key, path_of
from .wire import Event, Json, Policy, Pool, Renewal, Request
from .work import Function, OnWait, granted, step, submission, wait_for_grant, withdraw

#: Method and path of every call.
ROUTES: Dict[str, str] = {
    "submit_request": "POST /v1/resource-requests",
    "submit_requests": "POST /v1/resource-requests/bulk",
    "renew_requests": "POST /v1/resource-requests/bulk-renew",
    "release_requests": "POST /v1/resource-requests/bulk-release",
    "list_requests": "GET /v1/resource-requests",
    "get_request": "GET /v1/resource-requests/{id}",
    "update_request": "PATCH /v1/resource-requests/{id}",
    "renew_request": "POST /v1/resource-requests/{id}/renew",
    "release_request": "POST /v1/resource-requests/{id}/release",
    "checkpoint_request": "POST /v1/resource-requests/{id}/checkpoint",
    "cancel_request": "POST /v1/resource-requests/{id}/cancel",
    "delete_request": "DELETE /v1/resource-requests/{id}",
    "explain_request": "GET /v1/resource-requests/{id}/explanation",
    "list_decisions": "GET /v1/resource-requests/{id}/decisions",
    "list_pools": "GET /v1/pools",
    "create_pool": "POST /v1/pools",
    "get_pool": "GET /v1/pools/{pool}",
    "put_pool": "PUT /v1/pools/{pool}",
    "update_pool": "PATCH /v1/pools/{pool}",
    "delete_pool": "DELETE /v1/pools/{pool}",
    "resume_expiry": "POST /v1/pools/{pool}/resume-expiry",
    "list_queue": "GET /v1/pools/{pool}/queue",
    "get_shares": "GET /v1/pools/{pool}/shares",
    "list_policies": "GET /v1/pools/{pool}/policies",
    "attach_policy": "POST /v1/pools/{pool}/policies",
    "get_policy": "GET /v1/pools/{pool}/policies/{component}",
    "put_policy": "PUT /v1/pools/{pool}/policies/{component}",
    "update_policy": "PATCH /v1/pools/{pool}/policies/{component}",
    "detach_policy": "DELETE /v1/pools/{pool}/policies/{component}",
    "list_groups": "GET /v1/pools/{pool}/groups",
    "create_group": "POST /v1/pools/{pool}/groups",
    "get_group": "GET /v1/pools/{pool}/groups/{group}",
    "put_group": "PUT /v1/pools/{pool}/groups/{group}",
    "update_group": "PATCH /v1/pools/{pool}/groups/{group}",
    "delete_group": "DELETE /v1/pools/{pool}/groups/{group}",
    "list_pool_nodes": "GET /v1/pools/{pool}/nodes",
    "list_nodes": "GET /v1/nodes",
    "create_node": "POST /v1/nodes",
    "get_node": "GET /v1/nodes/{node}",
    "put_node": "PUT /v1/nodes/{node}",
    "drain_node": "POST /v1/nodes/{node}/drain",
    "undrain_node": "POST /v1/nodes/{node}/undrain",
    "remove_node": "DELETE /v1/nodes/{node}",
    "list_tokens": "GET /v1/tokens",
    "create_token": "POST /v1/tokens",
    "get_token": "GET /v1/tokens/{token}",
    "revoke_token": "DELETE /v1/tokens/{token}",
    "whoami": "GET /v1/whoami",
    "list_audit": "GET /v1/audit",
    "get_settings": "GET /v1/settings",
    "change_settings": "PATCH /v1/settings",
    "get_cluster": "GET /v1/cluster",
    "hand_over": "POST /v1/cluster/handover",
    "version": "GET /version",
    "healthz": "GET /healthz",
    "readyz": "GET /readyz",
    "metrics": "GET /metrics",
}

#: Calls that take an idempotency key.
IDEMPOTENT = frozenset(
    {
        "submit_request",
        "submit_requests",
        "update_request",
        "release_request",
        "checkpoint_request",
        "cancel_request",
        "create_pool",
        "attach_policy",
        "create_group",
        "create_node",
    }
)

Amounts = Mapping[str, int]


class Client:
    """Arguments come first, then BERTH_URL, BERTH_API_TOKEN, BERTH_COMPONENT, then the saved context of the CLI."""

    def __init__(
        self,
        url: Union[str, Sequence[str], None] = None,
        token: Optional[str] = None,
        *,
        component: Optional[str] = None,
        context: Optional[str] = None,
        retry_for: float = 30.0,
        timeout: float = 10.0,
        on_retry: Optional[Callable[[BerthError], None]] = None,
        ssl_context: Optional[ssl.SSLContext] = None,
        env: Optional[Mapping[str, str]] = None,
    ) -> None:
        joined = url if url is None or isinstance(url, str) else ",".join(url)
        connection = resolve_connection(joined, token, component, context, env)
        self.transport = Transport(
            connection.urls,
            connection.token,
            retry_for=retry_for,
            timeout=timeout,
            on_retry=on_retry,
            ssl_context=ssl_context,
        )
        self._component = connection.component
        self.requests = Requests(self)
        self.pools = Pools(self)
        self.policies = Policies(self)
        self.groups = Groups(self)
        self.nodes = Nodes(self)
        self.tokens = Tokens(self)
        self.server = Server(self)

    def call(
        self,
        route: str,
        params: Optional[Mapping[str, str]] = None,
        *,
        body: Any = None,
        query: Optional[Mapping[str, Any]] = None,
        idempotency_key: Optional[str] = None,
        **options: Any,
    ) -> Any:
        """Any route by its name in `ROUTES`. Options: `retry_for`, `timeout`, `if_match`, `abort`."""
        method, template = ROUTES[route].split(" ", 1)
        key = (idempotency_key or new_key()) if route in IDEMPOTENT else None
        return self.transport.send(
            method,
            path_of(template, **(params or {})),
            body=body,
            query=query,
            idempotency_key=key,
            # A token made twice would leave one that nobody knows.
            repeatable=route != "create_token",
            **options,
        ).body

    def whoami(self, **options: Any) -> Json:
        return cast(Json, self.call("whoami", **options))

    def component(self) -> str:
        """Who asks: the connection's component, or the only one of the API token."""
        if self._component is None:
            components = self.whoami().get("components") or []
            if len(components) != 1:
                raise BerthError("usage", "It is not clear who asks.", hint="Pass component, or set BERTH_COMPONENT.")
            self._component = str(components[0])
        return self._component

    def events(
        self,
        *,
        pool: Optional[str] = None,
        request: Optional[str] = None,
        component: Optional[str] = None,
        after: Optional[int] = None,
        abort: Optional[Abort] = None,
        on_interruption: Optional[Callable[[BerthError], None]] = None,
    ) -> Iterator[Event]:
        """What happens, for ever: goes on by itself after interruptions."""
        return stream_events(
            self.transport,
            pool=pool,
            request=request,
            component=component,
            after=after,
            abort=abort,
            on_interruption=on_interruption,
        )

    def submission(self, **asked: Any) -> Json:
        """The body of an attended request from `gpu`, `cpu`, `memory`, `resources` and the fields of the API."""
        asked["component"] = asked.get("component") or self.component()
        return submission(**asked)

    def wait(
        self,
        request: Union[str, Request],
        *,
        timeout: Optional[float] = None,
        on_wait: Optional[OnWait] = None,
        abort: Optional[Abort] = None,
    ) -> Request:
        """Returns the request once it is granted; raises when it never will be."""
        known = self.requests.get(request) if isinstance(request, str) else request
        return wait_for_grant(self, known, timeout=timeout, on_wait=on_wait, abort=abort)

    def hold(self, request: Request) -> Grant:
        """Keeps a granted request alive until it is released."""
        return Grant(self.transport, request)

    def withdraw(self, request_id: str) -> Request:
        """Cancels a request that waits; a grant that comes in the same moment is given back."""
        return withdraw(self, request_id)

    def grant(
        self,
        *,
        timeout: Optional[float] = None,
        on_wait: Optional[OnWait] = None,
        idempotency_key: Optional[str] = None,
        **asked: Any,
    ) -> ContextManager[Grant]:
        """`with client.grant(gpu=2) as grant:` waits, runs the block under the grant, and releases it."""
        return granted(
            self, self.submission(**asked), timeout=timeout, on_wait=on_wait, idempotency_key=idempotency_key
        )

    def step(self, **options: Any) -> Callable[[Function], Function]:
        """`@client.step(gpu=1, checkpoint="auto", retries=2)`: a grant for every call, and again after a preemption."""
        return step(lambda: self, options)

    def pages(self, route: str, params: Optional[Mapping[str, str]] = None, **query: Any) -> Iterator[Any]:
        """All items of a list."""
        cursor: Optional[str] = None
        while True:
            page = self.call(route, params, query={**query, "cursor": cursor})
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return


class _Part:
    def __init__(self, client: Client) -> None:
        self._client = client

    def _change(
        self,
        route: str,
        params: Optional[Mapping[str, str]] = None,
        body: Any = None,
        *,
        dry_run: Optional[bool] = None,
        force: Optional[bool] = None,
        **options: Any,
    ) -> Any:
        """`dry_run=True` answers with a plan instead of the thing (P10)."""
        query = {"dry_run": dry_run, "force": force}
        return self._client.call(route, params, body=body, query=query, **options)


class Requests(_Part):
    def submit(self, body: Mapping[str, Any], **options: Any) -> Request:
        """The fields of the API; `client.submission(gpu=1)` makes them."""
        return cast(Request, self._client.call("submit_request", body=body, **options))

    def submit_many(self, items: Sequence[Mapping[str, Any]], **options: Any) -> List[Json]:
        answer = self._client.call("submit_requests", body={"items": list(items)}, **options)
        return cast(List[Json], answer["results"])

    def get(self, id: str, *, wait: Optional[float] = None, until: Optional[str] = None, **options: Any) -> Request:
        if wait is not None:
            options.setdefault("timeout", wait + 10)
        query = {"wait": wait, "until": until}
        return cast(Request, self._client.call("get_request", {"id": id}, query=query, **options))

    def list(self, **query: Any) -> Json:
        """One page: `status`, `pool`, `component`, `operation`, `label` ("key=value"), `id`, `limit`, `cursor`."""
        return cast(Json, self._client.call("list_requests", query=query))

    def all(self, **query: Any) -> Iterator[Request]:
        return self._client.pages("list_requests", **query)

    def update(self, id: str, body: Mapping[str, Any], **options: Any) -> Request:
        """Changes what can be changed; labels and note always (Q9)."""
        return cast(Request, self._client.call("update_request", {"id": id}, body=dict(body), **options))

    def renew(self, id: str, token: Optional[str] = None, **state: Any) -> Renewal:
        """Without a token: the client of a waiting request is alive."""
        body = {**({"token": token} if token else {}), **state}
        return cast(Renewal, self._client.call("renew_request", {"id": id}, body=body))

    def renew_many(self, items: Sequence[Mapping[str, Any]], **options: Any) -> List[Json]:
        """Each item has `id` and `token`; each answer is a renewal, or a `problem`."""
        answer = self._client.call("renew_requests", body={"items": list(items)}, **options)
        return cast(List[Json], answer["results"])

    def release(
        self,
        id: str,
        token: str,
        outcome: str,
        *,
        exit_code: Optional[int] = None,
        message: Optional[str] = None,
        **options: Any,
    ) -> Request:
        body: Json = {"token": token, "outcome": outcome}
        if exit_code is not None:
            body["exit_code"] = exit_code
        if message is not None:
            body["message"] = message
        return cast(Request, self._client.call("release_request", {"id": id}, body=body, **options))

    def release_many(self, items: Sequence[Mapping[str, Any]], **options: Any) -> List[Json]:
        answer = self._client.call("release_requests", body={"items": list(items)}, **options)
        return cast(List[Json], answer["results"])

    def checkpoint(self, id: str, token: str, report: str, *, seconds: Optional[float] = None) -> Request:
        """`done`, `progress`, or `defer` with seconds."""
        body: Json = {"token": token, "report": report}
        if seconds is not None:
            body["seconds"] = seconds
        return cast(Request, self._client.call("checkpoint_request", {"id": id}, body=body))

    def cancel(self, id: str, *, dry_run: Optional[bool] = None, **options: Any) -> Request:
        answer = self._client.call("cancel_request", {"id": id}, query={"dry_run": dry_run}, **options)
        return cast(Request, answer)

    def delete(self, id: str, *, force: Optional[bool] = None) -> None:
        self._client.call("delete_request", {"id": id}, query={"force": force})

    def explain(self, id: str, **options: Any) -> Json:
        return cast(Json, self._client.call("explain_request", {"id": id}, **options))

    def why(self, id: str) -> str:
        """Why it waits, in one line; empty if it does not wait."""
        request = self.get(id)
        return describe_waiting(request, self.explain(id)) if request["status"] == "queued" else ""

    def decisions(self, id: str) -> List[Json]:
        return cast(List[Json], self._client.call("list_decisions", {"id": id})["items"])


class Pools(_Part):
    def list(self, **query: Any) -> Json:
        return cast(Json, self._client.call("list_pools", query=query))

    def all(self) -> Iterator[Pool]:
        return self._client.pages("list_pools")

    def get(self, pool: str) -> Pool:
        return cast(Pool, self._client.call("get_pool", {"pool": pool}))

    def create(
        self, name: str, capacity: Optional[Amounts] = None, *, dry_run: Optional[bool] = None, **fields: Any
    ) -> Pool:
        """Without a capacity the pool is the sum of its nodes."""
        body = {"name": name, **({} if capacity is None else {"capacity": dict(capacity)}), **fields}
        return cast(Pool, self._change("create_pool", body=body, dry_run=dry_run))

    def put(self, pool: str, body: Mapping[str, Any], **options: Any) -> Pool:
        return cast(Pool, self._change("put_pool", {"pool": pool}, body, **options))

    def update(self, pool: str, body: Mapping[str, Any], **options: Any) -> Pool:
        return cast(Pool, self._change("update_pool", {"pool": pool}, body, **options))

    def delete(self, pool: str, **options: Any) -> Any:
        return self._change("delete_pool", {"pool": pool}, **options)

    def resume_expiry(self, pool: str) -> None:
        """Lifts the pause after many holders fell silent at once (L3)."""
        self._client.call("resume_expiry", {"pool": pool})

    def nodes(self, pool: str, **query: Any) -> Json:
        return cast(Json, self._client.call("list_pool_nodes", {"pool": pool}, query=query))

    def queue(self, pool: str, **query: Any) -> Json:
        return cast(Json, self._client.call("list_queue", {"pool": pool}, query=query))

    def shares(self, pool: str) -> Json:
        return cast(Json, self._client.call("get_shares", {"pool": pool}))


class Policies(_Part):
    def list(self, pool: str, **query: Any) -> Json:
        return cast(Json, self._client.call("list_policies", {"pool": pool}, query=query))

    def all(self, pool: str) -> Iterator[Policy]:
        return self._client.pages("list_policies", {"pool": pool})

    def get(self, pool: str, component: str) -> Policy:
        return cast(Policy, self._client.call("get_policy", {"pool": pool, "component": component}))

    def attach(
        self, pool: str, component: str, *, dry_run: Optional[bool] = None, force: Optional[bool] = None, **fields: Any
    ) -> Policy:
        body = {"component": component, **fields}
        return cast(Policy, self._change("attach_policy", {"pool": pool}, body, dry_run=dry_run, force=force))

    def put(self, pool: str, component: str, body: Mapping[str, Any], **options: Any) -> Policy:
        return cast(Policy, self._change("put_policy", {"pool": pool, "component": component}, body, **options))

    def update(self, pool: str, component: str, body: Mapping[str, Any], **options: Any) -> Policy:
        return cast(Policy, self._change("update_policy", {"pool": pool, "component": component}, body, **options))

    def detach(self, pool: str, component: str, **options: Any) -> Any:
        return self._change("detach_policy", {"pool": pool, "component": component}, **options)


class Groups(_Part):
    def list(self, pool: str, **query: Any) -> Json:
        return cast(Json, self._client.call("list_groups", {"pool": pool}, query=query))

    def get(self, pool: str, group: str) -> Json:
        return cast(Json, self._client.call("get_group", {"pool": pool, "group": group}))

    def create(self, pool: str, body: Mapping[str, Any], **options: Any) -> Json:
        return cast(Json, self._change("create_group", {"pool": pool}, body, **options))

    def put(self, pool: str, group: str, body: Mapping[str, Any], **options: Any) -> Json:
        return cast(Json, self._change("put_group", {"pool": pool, "group": group}, body, **options))

    def update(self, pool: str, group: str, body: Mapping[str, Any], **options: Any) -> Json:
        return cast(Json, self._change("update_group", {"pool": pool, "group": group}, body, **options))

    def delete(self, pool: str, group: str, **options: Any) -> Any:
        return self._change("delete_group", {"pool": pool, "group": group}, **options)


class Nodes(_Part):
    def list(self, **query: Any) -> Json:
        return cast(Json, self._client.call("list_nodes", query=query))

    def all(self, pool: Optional[str] = None) -> Iterator[Json]:
        return self._client.pages("list_nodes", pool=pool)

    def get(self, node: str) -> Json:
        return cast(Json, self._client.call("get_node", {"node": node}))

    def create(self, body: Mapping[str, Any], **options: Any) -> Json:
        return cast(Json, self._change("create_node", body=body, **options))

    def put(self, node: str, body: Mapping[str, Any], **options: Any) -> Json:
        return cast(Json, self._change("put_node", {"node": node}, body, **options))

    def drain(self, node: str, *, deadline_seconds: Optional[float] = None, **options: Any) -> Json:
        body = {} if deadline_seconds is None else {"deadline_seconds": deadline_seconds}
        return cast(Json, self._change("drain_node", {"node": node}, body, **options))

    def undrain(self, node: str, **options: Any) -> Json:
        return cast(Json, self._change("undrain_node", {"node": node}, **options))

    def remove(self, node: str, **options: Any) -> Any:
        return self._change("remove_node", {"node": node}, **options)


class Tokens(_Part):
    def list(self, **query: Any) -> Json:
        return cast(Json, self._client.call("list_tokens", query=query))

    def get(self, token: str) -> Json:
        return cast(Json, self._client.call("get_token", {"token": token}))

    def create(self, name: str, role: str, **fields: Any) -> Json:
        """The answer is the only one that shows the secret."""
        return cast(Json, self._client.call("create_token", body={"name": name, "role": role, **fields}))

    def revoke(self, token: str) -> None:
        self._client.call("revoke_token", {"token": token})


class Server(_Part):
    def settings(self) -> Json:
        return cast(Json, self._client.call("get_settings"))

    def change_settings(self, **settings: Any) -> Json:
        return cast(Json, self._client.call("change_settings", body=settings))

    def audit(self, **query: Any) -> Json:
        return cast(Json, self._client.call("list_audit", query=query))

    def cluster(self) -> Json:
        return cast(Json, self._client.call("get_cluster"))

    def hand_over(self) -> None:
        """Lets another server lead."""
        self._client.call("hand_over")

    def version(self) -> Json:
        return cast(Json, self._client.call("version"))

    def health(self) -> Json:
        return cast(Json, self._client.call("healthz"))

    def ready(self) -> Json:
        return cast(Json, self._client.call("readyz"))

    def metrics(self) -> str:
        return cast(str, self._client.call("metrics"))
