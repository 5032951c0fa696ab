"""The calls of ZenML's interface in the order in which ZenML makes them, against a real server and without ZenML."""

from __future__ import annotations

import logging
import sys
import tempfile
import unittest
from datetime import datetime
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping
from uuid import UUID, uuid4

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "clients" / "python" / "tests"), str(ROOT / "integrations" / "zenml")]

import berth_support as support  # noqa: E402
from berth_support import berth  # noqa: E402

from zenml_berth import mapping  # noqa: E402
from zenml_berth.client import BerthPools  # noqa: E402
from zenml_berth.keeper import Entry, Keeper  # noqa: E402
from zenml_berth.settings import Settings, read_settings  # noqa: E402

logging.getLogger("zenml_berth").setLevel(logging.ERROR)

ORCHESTRATOR = ("orchestrator", "kubernetes")
STEP_OPERATOR = ("step_operator", "kubernetes")


class FakeBook:
    """ZenML's tables in memory: requests and the status of their steps."""

    def __init__(self) -> None:
        self.requests: Dict[str, Dict[str, Any]] = {}
        self.steps: Dict[str, str] = {}
        self.silence: Dict[str, float] = {}

    def add(self, request: Mapping[str, Any], step: str = "running") -> None:
        self.mirror(request["id"], request)
        self.steps[request["id"]] = step

    def live(self) -> Iterable[Entry]:
        return [
            Entry(id, row["status"], self.steps.get(id), self.silence.get(id))
            for id, row in self.requests.items()
            if row["status"] in mapping.LIVE
        ]

    def mirror(self, request_id: str, request: Mapping[str, Any]) -> None:
        self.requests[request_id] = {
            "status": mapping.status_of(request),
            "reason": mapping.status_reason(request),
        }

    def forget(self, request_id: str) -> None:
        self.requests[request_id] = {"status": "cancelled", "reason": None}

    def stop_step(self, request_id: str) -> None:
        if self.steps.get(request_id) in mapping.STOPPABLE_STEPS:
            self.steps[request_id] = "cancelling"


class PluginTest(support.ServerTest):
    def setUp(self) -> None:
        self.settings = Settings(self.server.url, self.server.token, "fail", 60)
        self.pools = BerthPools(self.settings)
        self.pool = f"Pool {uuid4().hex[:6]}"  # ZenML takes names that Berth does not.

    def _make_pool(self, **settings: Any) -> None:
        self.pools.create_pool(self.pool, {"gpu": 2})
        quick = {"lease_seconds": 10, "renewal_seconds": 1, "grace_seconds": 20, **settings}
        self.pools.client.pools.update(mapping.pool_name(self.pool), {"settings": quick})
        self.pools.attach_policy(self.pool, ORCHESTRATOR, 1)
        self.pools.attach_policy(self.pool, STEP_OPERATOR, 100)

    def tearDown(self) -> None:
        name = mapping.pool_name(self.pool)
        for request in self.pools.client.requests.all(status="queued,allocated,preempting"):
            self.pools.delete_request(request["id"])
        try:
            self.pools.client.pools.delete(name, force=True)
        except berth.NotFound:
            pass

    def _ask(self, gpu: int, component: Any = ORCHESTRATOR, **more: Any) -> Dict[str, Any]:
        request = self.pools.create_request(**self._asked(gpu, component, **more))
        assert request is not None
        return request

    def _asked(self, gpu: int, component: Any = ORCHESTRATOR, **more: Any) -> Dict[str, Any]:
        return {
            "component": mapping.component_name(*component),
            "step_run_id": str(uuid4()),
            "step_name": "train",
            "pipeline_run_id": str(uuid4()),
            "resources": {"gpu": gpu, "step_run": 1},
            "preemptible": True,
            **more,
        }

    def test_the_fifteen_calls_in_the_order_of_zenml(self) -> None:
        pools = self.pools
        self.assertEqual(pools.create_pool(self.pool, {"gpu": 2, "A100": 1}, "ours")["capacity"]["gpu"], 2)
        with self.assertRaises(berth.Conflict) as taken:
            pools.create_pool(self.pool, {"gpu": 2})
        self.assertEqual(taken.exception.code, "name_taken")
        self.assertEqual(mapping.usage_of(pools.get_pool(self.pool), ["gpu", "A100"]), {"gpu": 0, "A100": 0})
        self.assertIn(mapping.pool_name(self.pool), [pool["name"] for pool in pools.list_pools()])
        self.assertEqual(pools.update_pool(self.pool, {"gpu": 3, "A100": 0}, "mine")["capacity"], {"gpu": 3})
        pools.attach_policy(self.pool, ORCHESTRATOR, 10, {"gpu": 1}, {"gpu": 2})
        pools.attach_policy(self.pool, STEP_OPERATOR, 20)  # The same name, another type.
        with self.assertRaises(berth.Conflict) as exists:
            pools.attach_policy(self.pool, ORCHESTRATOR, 10)
        self.assertEqual(exists.exception.code, "policy_exists")
        self.assertEqual(pools.get_policy(self.pool, ORCHESTRATOR)["component_type"], "orchestrator")
        self.assertEqual(len(pools.list_policies(self.pool)), 2)
        self.assertEqual(pools.update_policy(self.pool, ORCHESTRATOR, 11, {"gpu": 2}, {"gpu": 3})["priority"], 11)

        granted = self._ask(2)
        self.assertEqual(mapping.status_of(granted), "allocated")
        waiting = self._ask(2, preemptible=False)
        self.assertEqual(mapping.status_of(waiting), "pending")
        rejected = self._ask(3, preemptible=False)
        self.assertEqual(mapping.status_of(rejected), "rejected")
        self.assertIn("over_reserved: 3 gpu asked, 2 allowed", str(mapping.status_reason(rejected)))
        self.assertEqual(mapping.status_of(pools.get_request(waiting["id"], has_started=False)), "pending")
        self.assertEqual([one["id"] for one in pools.active_requests(self.pool)], [granted["id"]])
        self.assertEqual([one["id"] for one in pools.queued_requests(self.pool)], [waiting["id"]])
        self.assertEqual(pools.renew({granted["id"]: granted["token"]})[granted["id"]]["instruction"]["do"], "carry_on")
        self.assertEqual(pools.release(granted["id"], "completed")["status"], "released")
        self.assertEqual(mapping.status_of(pools.get_request(waiting["id"])), "allocated")
        with self.assertRaises(berth.Conflict):
            pools.delete_pool(self.pool)
        pools.delete_request(waiting["id"])  # It holds units: they come back at once.
        with self.assertRaises(berth.NotFound):
            pools.get_request(waiting["id"])
        pools.delete_request(granted["id"])
        for component in (ORCHESTRATOR, STEP_OPERATOR):
            pools.detach_policy(self.pool, component)
        pools.delete_pool(self.pool)

    def test_a_component_without_a_policy_runs_ungoverned(self) -> None:
        self._make_pool()
        self.assertIsNone(self.pools.create_request(**self._asked(1, ("orchestrator", "elsewhere"))))

    def test_a_lost_answer_makes_no_second_request(self) -> None:
        self._make_pool()
        asked = self._asked(1)
        first = self.pools.create_request(**asked)
        again = self.pools.create_request(**asked)
        assert first is not None and again is not None
        self.assertEqual(first["id"], again["id"])

    def test_a_stale_token_is_no_error_of_the_step(self) -> None:
        self._make_pool()
        request = self._ask(1)
        self.assertEqual(self.pools.release(request["id"], "completed")["status"], "released")
        self.assertEqual(self.pools.release(request["id"], "completed")["status"], "released")
        self.assertEqual(self.pools.renew({request["id"]: request["token"]}), {})

    def test_when_berth_is_away(self) -> None:
        gone = Settings("http://127.0.0.1:9", "x", "fail", 60)
        client = berth.Client(gone.url, gone.token, retry_for=0, env={})
        with self.assertRaises(berth.Unavailable):
            BerthPools(gone, client).create_request(**self._asked(1))
        ungoverned = BerthPools(Settings(gone.url, gone.token, "run", 60), client)
        self.assertIsNone(ungoverned.create_request(**self._asked(1)))

    def test_the_keeper_renews_follows_and_reports(self) -> None:
        self._make_pool()
        book = FakeBook()
        keeper = Keeper(self.pools, book)
        low = self._ask(2)
        book.add(low)
        keeper.turn()
        before = self.pools.client.requests.get(low["id"])["lease_expires_at"]
        keeper.turn()
        self.assertGreater(self.pools.client.requests.get(low["id"])["lease_expires_at"], before)
        high = self._ask(2, STEP_OPERATOR)
        self.assertEqual(mapping.status_of(high), "pending")
        keeper.turn()
        self.assertEqual((book.requests[low["id"]]["status"], book.steps[low["id"]]), ("preempting", "cancelling"))
        self.assertIn("priority", book.requests[low["id"]]["reason"])
        book.steps[low["id"]] = "cancelled"
        keeper.turn()
        self.assertEqual(book.requests[low["id"]]["status"], "preempted")
        self.assertEqual(mapping.status_of(self.pools.get_request(high["id"])), "allocated")
        self.assertEqual(mapping.preempted_for(dict(self.pools.client.requests.get(low["id"]))), high["id"])

    def test_granted_and_preempted_between_two_polls(self) -> None:
        self._make_pool()
        low = self._ask(2)
        self._ask(2, STEP_OPERATOR)
        seen = self.pools.get_request(low["id"], has_started=False)
        self.assertEqual(mapping.status_of(seen), "preempted")

    def test_an_end_during_an_outage_is_reported_after_it(self) -> None:
        self._make_pool()
        book = FakeBook()
        keeper = Keeper(BerthPools(self.settings, self.server.client(retry_for=0)), book)
        request = self._ask(1)
        book.add(request)
        self.server.stop(kill=True)
        book.steps[request["id"]] = "completed"
        with self.assertRaises(berth.Unavailable):
            self.pools.release(request["id"], "completed", retry_for=0)
        with self.assertRaises(berth.Unavailable):
            keeper.turn()
        self.server.start()
        keeper.turn()
        self.assertEqual(book.requests[request["id"]]["status"], "released")
        self.assertEqual(self.pools.client.requests.get(request["id"])["status"], "released")

    def test_a_step_whose_record_is_gone_gives_its_units_back(self) -> None:
        self._make_pool()
        book = FakeBook()
        request = self._ask(1)
        book.add(request)
        del book.steps[request["id"]]
        Keeper(self.pools, book).turn()
        self.assertEqual(self.pools.client.requests.get(request["id"])["status"], "failed")

    def test_a_dead_step_loses_its_lease(self) -> None:
        self._make_pool(lease_seconds=10)
        book = FakeBook()
        keeper = Keeper(self.pools, book)
        dead, alive = self._ask(1), self._ask(1)
        book.add(dead)
        book.add(alive)
        keeper.turn()
        book.silence[dead["id"]] = 61.0
        book.silence[alive["id"]] = 1.0

        def lost() -> bool:
            keeper.turn()
            return bool(book.requests[dead["id"]]["status"] == "cancelled")

        support.eventually("the dead step has lost its lease", lost)
        self.assertEqual(book.requests[dead["id"]]["reason"], "its holder was not heard of")
        self.assertEqual(book.steps[dead["id"]], "cancelling")
        self.assertEqual(self.pools.client.requests.get(alive["id"])["status"], "allocated")


class MappingTest(unittest.TestCase):
    def test_names_that_berth_refuses_get_stand_ins(self) -> None:
        self.assertEqual(mapping.pool_name("a100-pool"), "a100-pool")
        names = ["A100 pool", "a100 pool", "Ünïcode", "x" * 255, "---"]
        stand_ins = {mapping.pool_name(name) for name in names}
        self.assertEqual(len(stand_ins), len(names))
        for name in stand_ins:
            self.assertRegex(name, r"^[a-z0-9][a-z0-9._-]{0,62}$")
        for key in ("A100", "nvidia.com/gpu", "2x"):
            self.assertRegex(mapping.resource_key(key), r"^[a-z][a-z0-9_.-]{0,62}$")
        self.assertEqual(mapping.component_name("orchestrator", "default"), "orchestrator.default")

    def test_every_status_of_berth_is_one_of_zenml(self) -> None:
        zenml = {"pending", "allocated", "preempting", "preempted", "cancelled", "rejected", "released"}
        self.assertLessEqual(set(mapping.STATUSES.values()), zenml)

    def test_rows_have_the_ids_and_times_of_berth(self) -> None:
        pool = {
            "id": "7f7a2f0e-6a0b-5c8e-9d55-0d7a5a0b9c11",
            "created_at": "2026-01-02T03:04:05.678Z",
            "updated_at": None,
        }
        created = datetime(2026, 1, 2, 3, 4, 5, 678_000)
        self.assertEqual(mapping.lifetime_of(pool), {"id": UUID(pool["id"]), "created": created})
        self.assertEqual(mapping.lifetime_of({"name": "of an older server"}), {})

    def test_how_the_end_of_a_step_is_reported(self) -> None:
        cases = {
            ("completed", "allocated"): "succeeded",
            ("completed", "preempting"): "succeeded",
            ("cancelled", "preempting"): "stopped",
            ("retrying", "preempting"): "stopped",
            ("failed", "allocated"): "failed",
        }
        for (step, request), want in cases.items():
            self.assertEqual(mapping.outcome_of(step, request), want)

    def test_settings(self) -> None:
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("secret\n")
            file.flush()
            env = {"ZENML_BERTH_URL": "http://b:1", "ZENML_BERTH_TOKEN_FILE": file.name}
            self.assertEqual(read_settings(env), Settings("http://b:1", "secret", "fail", 300))
        bad: List[Dict[str, str]] = [
            {},
            {"ZENML_BERTH_URL": "http://b:1"},
            {"ZENML_BERTH_URL": "http://b:1", "ZENML_BERTH_TOKEN": "t", "ZENML_BERTH_WHEN_DOWN": "hope"},
        ]
        for env in bad:
            with self.assertRaises(ValueError):
                read_settings(env)

    def test_only_the_store_needs_zenml(self) -> None:
        package = Path(mapping.__file__).parent
        for path in package.glob("*.py"):
            needs = any(line.startswith(("from zenml.", "import zenml\n")) for line in path.read_text().splitlines())
            self.assertEqual(needs, path.name == "store.py", path.name)


if __name__ == "__main__":
    unittest.main()
