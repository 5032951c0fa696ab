"""The client against a real server: every group of calls, errors, several URLs, retries, idempotency, events."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import unittest
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

from berth.client import IDEMPOTENT, ROUTES
from berth.context import resolve_connection
from berth.transport import Abort, Aborted, Transport, full_jitter

from .berth_support import LabTest, Server, berth, eventually, in_thread


class ClientTest(LabTest):
    def test_every_route_of_the_client_exists_on_the_server(self) -> None:
        answer = self.client.transport.send("GET", "/openapi.json").body
        known = {
            f"{method.upper()} {path}": operation
            for path, methods in answer["paths"].items()
            for method, operation in methods.items()
        }
        for name, route in ROUTES.items():
            self.assertIn(route, known, name)
            headers = {parameter["name"].lower() for parameter in known[route].get("parameters", [])}
            self.assertEqual(name in IDEMPOTENT, "idempotency-key" in headers, name)

    def test_submit_wait_renew_release(self) -> None:
        request = self.client.requests.submit(self.client.submission(gpu=1, name="one", labels={"a": "b"}))
        self.assertEqual(request["status"], "allocated")
        self.assertEqual(request["resources"], {"gpu": 1, "step_run": 1})
        self.assertEqual(self.client.wait(request)["token"], request["token"])
        renewal = self.client.requests.renew(request["id"], request["token"], progress="half")
        self.assertEqual(renewal["instruction"]["do"], "carry_on")
        ended = self.client.requests.release(request["id"], request["token"], "succeeded", exit_code=0)
        self.assertEqual(ended["status"], "released")
        self.assertEqual(self.client.requests.get(str(request["number"]))["id"], request["id"])
        listed = list(self.client.requests.all(label="a=b", limit=1))
        self.assertEqual([item["id"] for item in listed], [request["id"]])
        self.assertEqual(self.client.requests.decisions(request["id"]), [])
        self.client.requests.delete(request["id"])
        with self.assertRaises(berth.NotFound):
            self.client.requests.get(request["id"])

    def test_bulk_calls(self) -> None:
        items = [self.client.submission(gpu=1, name=f"bulk-{n}") for n in range(2)]
        results = self.client.requests.submit_many([*items, {"component": "research", "resources": {"gpu": -1}}])
        self.assertIn("problem", results[2])
        held = [{"id": one["id"], "token": one["token"]} for one in results[:2]]
        renewals = self.client.requests.renew_many([*held, {"id": held[0]["id"], "token": held[1]["token"]}])
        self.assertEqual([one["instruction"]["do"] for one in renewals[:2]], ["carry_on"] * 2)
        self.assertEqual(renewals[2]["problem"]["code"], "stale_token")
        releases = [{**one, "outcome": "succeeded"} for one in held]
        self.assertEqual([one["status"] for one in self.client.requests.release_many(releases)], ["released"] * 2)

    def test_waiting_is_explained_and_can_be_withdrawn(self) -> None:
        with self.client.grant(gpu=2, name="holder"):
            waiting = self.client.requests.submit(self.client.submission(gpu=1, name="waiter"))
            self.assertEqual(waiting["status"], "queued")
            why = self.client.requests.why(waiting["id"])
            self.assertIn("needs gpu 1, free 0", why)
            self.assertIn("holder (you)", why)
            self.assertEqual(self.client.requests.explain(waiting["id"])["status"], "queued")
            self.assertEqual(self.client.requests.update(waiting["id"], {"note": "later"})["note"], "later")
            with self.assertRaises(berth.WaitTimeout):
                self.client.wait(waiting, timeout=0.05)
            heard: list = []
            abort = Abort()
            join = in_thread(lambda: self.client.wait(waiting, on_wait=heard.append, abort=abort))
            eventually("the reason was told", lambda: heard)
            abort.set()
            with self.assertRaises(Aborted):
                join()
            self.assertEqual(self.client.withdraw(waiting["id"])["status"], "cancelled")

    def test_pools_policies_groups_nodes(self) -> None:
        client = self.client
        plan = client.pools.create("p2", {"gpu": 4}, dry_run=True)
        self.assertTrue(plan["dry_run"])  # type: ignore[typeddict-item]
        self.assertEqual(client.pools.create("p2", {"gpu": 4}, description="x")["capacity"], {"gpu": 4})
        with self.assertRaises(berth.Conflict) as caught:
            client.pools.create("p2", {"gpu": 4})
        self.assertEqual(caught.exception.code, "name_taken")
        self.assertEqual(client.pools.update("p2", {"capacity": {"gpu": 5}})["capacity"], {"gpu": 5})
        self.assertEqual(client.pools.put("p2", {"description": "y"})["description"], "y")
        self.assertIn("p2", [pool["name"] for pool in client.pools.all()])
        self.assertEqual(client.policies.attach("p2", "vision", priority=3, reserved={"gpu": 1})["priority"], 3)
        self.assertEqual(client.policies.update("p2", "vision", {"priority": 4})["priority"], 4)
        self.assertEqual(client.policies.put("p2", "vision", {"priority": 5})["priority"], 5)
        self.assertEqual(client.policies.get("p2", "vision")["reserved"], {"gpu": 1})
        self.assertEqual([policy["component"] for policy in client.policies.all("p2")], ["vision"])
        self.assertEqual(client.groups.create("p2", {"name": "team"})["name"], "team")
        self.assertEqual(client.groups.update("p2", "team", {"weight": 2})["weight"], 2)
        self.assertEqual(client.groups.put("p2", "team", {"weight": 3})["weight"], 3)
        self.assertEqual(client.groups.get("p2", "team")["weight"], 3)
        self.assertEqual(len(client.groups.list("p2")["items"]), 1)
        client.groups.delete("p2", "team")
        self.assertEqual(client.pools.queue("p2")["items"], [])
        self.assertEqual(client.pools.shares("p2")["pool"], "p2")
        self.assertEqual(client.policies.list("p2")["items"][0]["component"], "vision")
        client.pools.resume_expiry("p2")
        client.policies.detach("p2", "vision")
        client.pools.delete("p2")
        self.assertTrue(client.pools.create("machines")["node_backed"])
        client.nodes.create({"name": "n1", "pool": "machines", "capacity": {"gpu": 2}})
        self.assertEqual(client.nodes.get("n1")["state"], "ready")
        self.assertEqual(client.nodes.drain("n1", deadline_seconds=60)["state"], "drained")
        self.assertEqual(client.nodes.undrain("n1")["state"], "ready")
        self.assertEqual(client.nodes.put("n1", {"labels": {"a": "b"}})["labels"], {"a": "b"})
        self.assertEqual([node["name"] for node in client.nodes.all("machines")], ["n1"])
        self.assertEqual([node["name"] for node in client.pools.nodes("machines")["items"]], ["n1"])
        client.nodes.remove("n1")
        client.pools.delete("machines")

    def test_tokens_settings_and_the_server_itself(self) -> None:
        client = self.client
        made = client.tokens.create("robot", "user", components=["research"])
        robot = self.server.client(token=made["secret"], component=None)
        self.assertEqual(robot.whoami()["name"], "robot")
        self.assertEqual(robot.component(), "research")
        with self.assertRaises(berth.Forbidden):
            robot.pools.create("mine", {"gpu": 1})
        self.assertEqual(client.tokens.get("robot")["role"], "user")
        self.assertIn("robot", [one["name"] for one in client.tokens.list()["items"]])
        client.tokens.revoke("robot")
        with self.assertRaises(berth.Unauthenticated):
            robot.whoami()
        self.assertEqual(client.server.version()["api"], "v1")
        self.assertEqual(client.server.health()["status"], "ok")
        self.assertEqual(client.server.ready()["status"], "ok")
        self.assertIn("berth_requests", client.server.metrics())
        self.assertIn("unmanaged", client.server.settings())
        self.assertEqual(client.server.change_settings(unmanaged="reject")["unmanaged"], "reject")
        self.assertTrue(client.server.audit(limit=5)["items"])
        self.assertEqual(client.server.cluster()["role"], "leader")
        with self.assertRaises(berth.InvalidRequest):
            client.server.hand_over()  # There is nobody else.

    def test_problems_become_exceptions_with_code_hint_and_status(self) -> None:
        with self.assertRaises(berth.InvalidRequest) as caught:
            self.client.requests.submit({"component": "research", "resources": {"gpu": 1}, "nonsense": True})
        self.assertEqual(caught.exception.status, 400)
        self.assertIn("[", str(caught.exception))
        with self.assertRaises(berth.Rejected) as rejected:
            with self.client.grant(gpu=5):
                self.fail("never granted")
        self.assertEqual(rejected.exception.code, "over_capacity")
        self.assertIn("5 gpu asked, 2 allowed", str(rejected.exception))
        with self.assertRaises(berth.Rejected) as no_policy:
            with self.client.grant(gpu=1, component="nobody"):
                self.fail("never granted")
        self.assertEqual(no_policy.exception.code, "no_policy")

    def test_the_same_key_has_one_effect(self) -> None:
        body = self.client.submission(gpu=1, name="once")
        first = self.client.requests.submit(body, idempotency_key="k-1")
        again = self.client.requests.submit(body, idempotency_key="k-1")
        self.assertEqual(first["id"], again["id"])
        with self.assertRaises(berth.Conflict):
            self.client.requests.submit({**body, "name": "other"}, idempotency_key="k-1")
        self.client.requests.release(first["id"], first["token"], "succeeded")

    def test_a_lost_answer_has_one_effect(self) -> None:
        with LosingProxy(self.server.url, lose={"POST /v1/resource-requests": 1}) as proxy:
            told: list = []
            client = berth.Client(
                proxy.url, self.server.token, component="research", on_retry=told.append, env={"HOME": "/nonexistent"}
            )
            request = client.requests.submit(client.submission(gpu=1, name="lost-answer"))
            self.assertEqual(len(told), 1)
            self.assertIsInstance(told[0], berth.Unavailable)
        same = [one for one in self.client.requests.all() if one["name"] == "lost-answer"]
        self.assertEqual([one["id"] for one in same], [request["id"]])
        self.client.requests.release(request["id"], request["token"], "succeeded")

    def test_the_next_url_is_tried(self) -> None:
        client = berth.Client(["http://127.0.0.1:9", self.server.url], self.server.token, env={"HOME": "/nonexistent"})
        self.assertEqual(client.whoami()["role"], "admin")
        dead = berth.Client("http://127.0.0.1:9", "x", retry_for=0, env={"HOME": "/nonexistent"})
        with self.assertRaises(berth.Unavailable) as caught:
            dead.whoami()
        self.assertEqual(caught.exception.status, 0)

    def test_events_go_on_after_a_restart_of_the_server(self) -> None:
        abort = Abort()
        seen: list = []

        def listen() -> None:
            for event in self.client.events(pool="lab", abort=abort):
                seen.append(event)

        join = in_thread(listen)
        eventually("the stream is open", lambda: any(one["event"] == "stream.opened" for one in seen))
        with self.client.grant(gpu=1, name="first"):
            pass
        eventually("the first end was heard", lambda: any(one["event"] == "request.released" for one in seen))
        self.server.stop()
        self.server.start()
        with self.client.grant(gpu=1, name="second"):
            pass
        eventually(
            "the second end was heard",
            lambda: any(one["event"] == "request.released" and one["name"] == "second" for one in seen),
        )
        sequence = [one["seq"] for one in seen if one["event"].startswith("request.")]
        self.assertEqual(sequence, sorted(sequence))
        abort.set()
        join()

    def test_the_connection_is_that_of_the_command_line(self) -> None:
        home = self.server.directory / "person"
        (home / ".config" / "berth").mkdir(parents=True)
        path = home / ".config" / "berth" / "contexts.json"
        lab = {"url": "http://lab:1,http://lab:2", "token": "t", "component": "vision"}
        path.write_text(json.dumps({"current": "lab", "contexts": {"lab": lab, "other": {"url": "http://o:1"}}}))
        env = {"HOME": str(home)}
        saved = resolve_connection(env=env)
        self.assertEqual((saved.urls, saved.token, saved.component), (("http://lab:1", "http://lab:2"), "t", "vision"))
        self.assertEqual(resolve_connection(env={**env, "BERTH_CONTEXT": "other"}).urls, ("http://o:1",))
        elsewhere = resolve_connection(env={**env, "BERTH_URL": "http://x:1"})
        self.assertIsNone(elsewhere.token, "a saved token is for the saved server only")
        given = resolve_connection("http://y:1", "u", "speech", env={**env, "BERTH_API_TOKEN": "v"})
        self.assertEqual((given.token, given.component), ("u", "speech"))
        with self.assertRaises(berth.BerthError):
            resolve_connection(context="missing", env=env)
        with self.assertRaises(berth.BerthError):
            resolve_connection(env={"HOME": "/nonexistent"})
        path.write_text("{")
        with self.assertRaises(berth.BerthError):
            resolve_connection(env=env)

    def test_pauses_grow_and_are_spread(self) -> None:
        for tries, most in ((0, 0.1), (3, 0.8), (50, 5.0)):
            pauses = [full_jitter(tries) for _ in range(200)]
            self.assertTrue(all(0 <= pause <= most for pause in pauses))
            self.assertGreater(len(set(pauses)), 100)


class LosingProxy:
    """Passes calls on, and closes the connection instead of answering the first ones of a kind."""

    def __init__(self, url: str, lose: dict) -> None:
        import urllib.request

        proxy = self
        self._lose = dict(lose)

        class Handler(http.server.BaseHTTPRequestHandler):
            def _pass(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                data = self.rfile.read(length) if length else None
                headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
                call = urllib.request.Request(url + self.path, data, headers, method=self.command)
                try:
                    answer = urllib.request.urlopen(call)
                except urllib.error.HTTPError as error:
                    answer = error
                body = answer.read()
                kind = f"{self.command} {self.path.split('?')[0]}"
                if proxy._lose.get(kind, 0) > 0:
                    proxy._lose[kind] -= 1
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                self.send_header("content-type", answer.headers.get("content-type", ""))
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _pass

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "LosingProxy":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class SeenTest(unittest.TestCase):
    """What a client has seen at one server it asks for at the next (C8, C14)."""

    def setUp(self) -> None:
        self.received: List[Tuple[str, Optional[str], Optional[str]]] = []
        self.answers: List[Dict[str, str]] = []
        received, answers = self.received, self.answers

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                known = self.headers.get("berth-known")
                received.append((self.command, self.headers.get("berth-min-seq"), known))
                self.send_response(200)
                for name, value in {**answers.pop(0), "content-type": "application/json"}.items():
                    self.send_header(name, value)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def tearDown(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def test_the_largest_that_was_seen_is_sent_and_a_new_history_begins_afresh(self) -> None:
        transport = Transport([f"http://127.0.0.1:{self.server.server_port}"])
        self.answers += [
            {"berth-seq": "7", "berth-position": "00001.7.x"},
            {"berth-seq": "5", "berth-position": "00001.5.x"},
            {"berth-seq": "3", "berth-position": "00002.3.y"},
            {},
            {},
        ]
        for method in ("GET", "GET", "POST", "GET", "POST"):
            transport.send(method, "/v1/pools")
        self.assertEqual(
            self.received,
            [
                ("GET", None, None),
                ("GET", "7", "00001.7.x"),
                ("POST", None, "00001.7.x"),
                ("GET", "3", "00002.3.y"),
                ("POST", None, "00002.3.y"),
            ],
        )


class ResumedStreamTest(unittest.TestCase):
    """A stream goes on with the id of its last message, which says of which history it is, and with what was seen (C14)."""

    def test_the_next_connection_carries_the_id_and_the_position(self) -> None:
        received: List[Tuple[Optional[str], Optional[str]]] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                received.append((self.headers.get("last-event-id"), self.headers.get("berth-known")))
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("berth-seq", "7")
                self.send_header("berth-position", "12345.1.7.x")
                self.end_headers()
                self.wfile.write(b'event: pool.created\nid: 1234500000000007\ndata: {"event":"pool.created","seq":7}\n\n')

            def log_message(self, *_: object) -> None:
                pass

        with _serving(Handler) as url:
            events = berth.Client(url).events()
            self.assertEqual([next(events)["seq"], next(events)["seq"]], [7, 7])
            events.close()
        self.assertEqual(received[:2], [(None, None), ("1234500000000007", "12345.1.7.x")])


@contextlib.contextmanager
def _serving(handler: Any) -> Iterator[str]:
    server = http.server.HTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class SourceTest(unittest.TestCase):
    def test_the_package_is_typed_and_needs_the_standard_library_only(self) -> None:
        import ast
        import sys

        package = Path(berth.__file__).parent
        self.assertTrue((package / "py.typed").exists())
        lazily = {"lightning", "pytorch_lightning", "transformers"}
        known = getattr(sys, "stdlib_module_names", None)
        for path in package.glob("*.py"):
            tree = ast.parse(path.read_text(), feature_version=(3, 9))
            names = {
                (node.module or "").split(".")[0]
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and not node.level
            } | {
                alias.name.split(".")[0]
                for node in ast.walk(tree)
                if isinstance(node, ast.Import)
                for alias in node.names
            }
            if known is not None:
                self.assertLessEqual(names - lazily, set(known), path.name)
            for node in tree.body:
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    text = ast.unparse(node)
                    self.assertFalse(any(name in text for name in lazily), f"{path.name}: {text}")


if __name__ == "__main__":
    unittest.main()
