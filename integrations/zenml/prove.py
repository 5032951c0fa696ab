"""Stories of ZenML on Berth; started by prove.sh, which says what it needs."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any, Callable, List, Optional

import berth
import berth_support
from berth_support import WAIT_SECONDS_MAX, Server, in_thread


def main() -> int:
    server = Server()
    try:
        os.environ["ZENML_BERTH_URL"] = server.url
        os.environ["ZENML_BERTH_TOKEN"] = server.token
        return tell(server)
    finally:
        server.close()


def tell(server: Any) -> int:
    import zenml
    from zenml.client import Client
    from zenml.exceptions import EntityExistsError, IllegalOperationError
    from zenml.models import ResourcePoolSubjectPolicyRequest, ResourceRequestFilter

    import prove_pipelines as pipelines
    from zenml_berth.mapping import time_of
    from zenml_berth.store import BerthResourcePools

    print(f"zenml {zenml.__version__} on Berth at {server.url}", flush=True)
    client = Client()
    store: Any = client.zen_store
    plugin = BerthResourcePools(store)
    outsider = server.client(component="urgent")

    # --- Pools and policies, through ZenML's client

    pool = client.create_resource_pool(name="Lab GPUs", capacity={"gpu": 2, "step_run": 4}, description="ours")
    berth_name = plugin.pools.list_pools()[0]["name"]
    expect_error(EntityExistsError, lambda: client.create_resource_pool(name="Lab GPUs", capacity={"gpu": 1}))
    outsider.pools.update(berth_name, {"settings": {"renewal_seconds": 1, "lease_seconds": 30, "grace_seconds": 600}})
    policy = store.create_resource_pool_subject_policy(
        ResourcePoolSubjectPolicyRequest(
            pool_id=pool.id,
            component_id=client.active_stack.orchestrator.id,
            priority=1,
            reserved={"gpu": 1, "step_run": 2},
            limit={"gpu": 2},
        )
    )
    outsider.policies.attach(berth_name, "urgent", priority=100)
    updated = client.update_resource_pool(pool.id, capacity={"step_run": 8})
    check("a pool is created, updated and listed", updated.capacity == {"gpu": 2, "step_run": 8})
    check("ZenML lists it", [one.name for one in client.list_resource_pools()] == ["Lab GPUs"])
    made = plugin.pools.list_pools()[0]
    check("with Berth's id and times", (str(pool.id), pool.created) == (made["id"], time_of(made["created_at"])))
    check("and its policy", store.get_resource_pool_subject_policy(policy.id).reserved == {"gpu": 1, "step_run": 2})

    # --- Pipelines

    marks = Path(os.environ["PROVE_MARKS"])

    def run(made: Any) -> Any:
        try:
            made()
        except Exception as error:  # A failed pipeline raises; its record says more.
            print(f"      {made.name}: {str(error).splitlines()[0][:160]}", flush=True)
        return last_run(client, made.name)

    def requests(run_model: Any) -> List[Any]:
        page = store.list_resource_requests(ResourceRequestFilter(pipeline_run_id=run_model.id, size=50), hydrate=True)
        return sorted(page.items, key=lambda one: one.created)

    def statuses(run_model: Any) -> List[str]:
        return [one.status.value for one in requests(run_model)]

    done = run(pipelines.granted)
    check("two steps are granted and released", (done.status.value, statuses(done)) == ("completed", ["released"] * 2))
    check("with their pool", {one.pool.name for one in requests(done)} == {"Lab GPUs"})

    rejected = run(pipelines.rejected)
    reason = requests(rejected)[0].status_reason or ""
    check("a step over its reserve is rejected", statuses(rejected) == ["rejected"])
    check(f"with Berth's reason ({reason})", "over_reserved: 2 gpu asked, 1 allowed" in reason)

    crashed = run(pipelines.crashed)
    check("a crash gives the units back", (crashed.status.value, statuses(crashed)) == ("failed", ["released"]))

    # --- Queued: an outsider holds the pool until the step waits

    held = outsider.requests.submit(outsider.submission(gpu=2, preemptible=True, name="outsider"))
    token = held["token"]
    keep = Holding(outsider, held["id"], token)
    waiting = in_thread(lambda: run(pipelines.queued))
    eventually("the step waits", lambda: outsider.pools.get(berth_name)["queued"] == 1)
    shown = store.get_resource_pool(pool.id)
    check("a full pool makes the step wait", shown.queue_length == 1 and len(shown.metadata.queued_requests) == 1)
    keep.release()
    check("and it runs when units come free", waiting().status.value == "completed")

    # --- Preempted, and retried

    def preempt(made: Any) -> Any:
        name = made.name
        for mark in marks.iterdir():
            mark.unlink()
        running = in_thread(lambda: run(made))
        eventually("the step runs", lambda: (marks / "started").exists())
        claim = outsider.requests.submit(outsider.submission(gpu=2, name="claim"))
        eventually("its step is to be cancelled", lambda: step_status(client, name) == "cancelling")
        check(
            f"{name}: the units stay in use until ZenML lets go",
            outsider.requests.get(claim["id"])["status"] == "queued",
        )
        (marks / "go").touch()
        granted_claim = outsider.wait(claim, timeout=WAIT_SECONDS_MAX)
        outsider.requests.release(granted_claim["id"], granted_claim["token"], "succeeded")
        return running()

    preempted = preempt(pipelines.preempted)
    check("a preempted step without retries ends", statuses(preempted) == ["preempted"])
    check(
        f"with the reason ({requests(preempted)[0].status_reason})",
        "priority" in (requests(preempted)[0].status_reason or ""),
    )
    retried = preempt(pipelines.retried)
    check(
        "with a retry it runs again",
        (retried.status.value, statuses(retried)) == ("completed", ["preempted", "released"]),
    )

    # --- Static pipelines ask nothing

    before = len(list(outsider.requests.all()))
    static = run(pipelines.static)
    check("a static pipeline asks nothing", (static.status.value, statuses(static)) == ("completed", []))
    check("of Berth", len(list(outsider.requests.all())) == before)

    # --- Berth is away: the step update does not fail, and the end is reported later

    lost = in_thread(lambda: run(pipelines.outage))
    eventually("the step runs", lambda: (marks / "outage").exists())
    server.stop(kill=True)
    (marks / "gone").touch()
    check("a step that ends while Berth is away completes", lost().status.value == "completed")
    server.start()
    eventually("the keeper reports its end", lambda: statuses(lost()) == ["released"])
    check("and its units come back", outsider.pools.get(berth_name)["usage"].get("gpu", 0) == 0)

    # --- The end

    store.delete_resource_request(requests(done)[0].id)
    check("requests can be deleted", len(requests(done)) == 1)
    keep = Holding(outsider, *hold(outsider))
    expect_error(IllegalOperationError, lambda: client.delete_resource_pool(pool.id))
    keep.release()
    store.delete_resource_pool_subject_policy(policy.id)
    outsider.policies.detach(berth_name, "urgent")
    client.delete_resource_pool(pool.id)
    check("pool and policy are deleted", list(client.list_resource_pools()) == [] and plugin.pools.list_pools() == [])
    print(f"{check.count} checks, {check.failed} failed")  # type: ignore[attr-defined]
    return 1 if check.failed else 0  # type: ignore[attr-defined]


def last_run(client: Any, name: str) -> Any:
    return client.get_pipeline(name, hydrate=False).last_run


def step_status(client: Any, name: str) -> Optional[str]:
    steps = list(client.list_run_steps(pipeline_run_id=last_run(client, name).id))
    return steps[0].status.value if steps else None


def hold(client: berth.Client) -> Any:
    request = client.requests.submit(client.submission(gpu=1, name="holder"))
    return request["id"], request["token"]


class Holding:
    """A grant in other hands, renewed until it is released."""

    def __init__(self, client: berth.Client, request_id: str, token: str) -> None:
        self._client, self._id, self._token = client, request_id, token
        self._over = threading.Event()
        threading.Thread(target=self._renew, daemon=True).start()

    def _renew(self) -> None:
        while not self._over.wait(1):
            try:
                self._client.requests.renew(self._id, self._token)
            except berth.BerthError:
                return

    def release(self) -> None:
        self._over.set()
        self._client.requests.release(self._id, self._token, "succeeded")


def check(what: str, holds: bool) -> None:
    check.count += 1  # type: ignore[attr-defined]
    check.failed += 0 if holds else 1  # type: ignore[attr-defined]
    print(f"{'ok  ' if holds else 'FAIL'}  {what}", flush=True)


check.count = check.failed = 0  # type: ignore[attr-defined]


def expect_error(kind: Any, act: Callable[[], Any]) -> None:
    try:
        act()
    except kind as error:
        check(f"{kind.__name__}: {error}", True)
    else:
        check(f"{kind.__name__} is raised", False)


def eventually(what: str, look: Callable[[], Any]) -> None:
    """ZenML raises where something does not exist yet."""

    def found() -> Any:
        try:
            return look()
        except Exception:
            return None

    berth_support.eventually(what, found)


if __name__ == "__main__":
    sys.exit(main())
