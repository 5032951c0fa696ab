"""Work under a grant, and inside a job: preemption, resumption, cancellation, restarts, lost grants."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
from pathlib import Path
from typing import Any, Dict, List
from unittest import mock

from .berth_support import PACKAGE, LabTest, Server, berth, eventually, in_thread

EXAMPLES = PACKAGE / "examples"


class WorkTest(LabTest):
    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(self._nothing_is_left)

    def _nothing_is_left(self) -> None:
        live = list(self.client.requests.all(status="queued,allocated,preempting"))
        self.assertEqual([one["name"] for one in live], [])

    def _urgent(self, gpu: int = 2) -> Any:
        """Asks for units that are in use, and gives them back as soon as they are granted."""

        def run() -> None:
            with self.client.grant(component="urgent", gpu=gpu, name="urgent"):
                pass

        return in_thread(run)

    def _request(self, name: str) -> Dict[str, Any]:
        return next(dict(one) for one in self.client.requests.all() if one["name"] == name)

    # --- with

    def test_a_block_is_granted_and_released(self) -> None:
        with self.client.grant(gpu=1, memory="16GiB", resources={"gpu": 7}, name="block") as grant:
            self.assertEqual(grant.resources["gpu"], 1)
            self.assertEqual(grant.resources["memory_mb"], 17180)
            self.assertIs(berth.current(), grant)
            self.assertFalse(grant.should_stop())
            self.assertEqual(grant.pool, "lab")
            grant.describe("half way")
        self.assertIs(berth.current(), berth.job)
        self.assertEqual(self._request("block")["status"], "released")

    def test_a_block_without_resources_is_one_step(self) -> None:
        with self.client.grant(name="nothing") as grant:
            self.assertEqual(grant.resources, {"step_run": 1})

    def test_an_exception_is_a_failure_and_reaches_the_caller(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "broken"):
            with self.client.grant(gpu=1, name="broken"):
                raise RuntimeError("broken")
        self.assertEqual(self._request("broken")["status"], "failed")

    def test_an_interrupt_cancels(self) -> None:
        with self.assertRaises(KeyboardInterrupt):
            with self.client.grant(gpu=1, name="interrupted"):
                raise KeyboardInterrupt
        self.assertEqual(self._request("interrupted")["status"], "cancelled")

    def test_who_no_longer_waits_leaves_the_queue(self) -> None:
        with self.client.grant(gpu=2):
            with self.assertRaises(berth.WaitTimeout):
                with self.client.grant(gpu=1, name="impatient", timeout=0.1):
                    self.fail("nothing is free")
        self.assertEqual(self._request("impatient")["status"], "cancelled")

    def test_a_block_that_is_preempted_and_looks_stops(self) -> None:
        with self.assertRaises(berth.Preempted):
            with self.client.grant(gpu=2, checkpoint="auto", name="looks") as grant:
                urgent = self._urgent()
                self.assertTrue(grant.wait_for_stop(60))
                self.assertEqual(grant.reason, "priority")
                self.assertIsNotNone(grant.deadline)
                grant.progress()
                self.assertGreater(grant.defer(5), 0)
                grant.checkpoint_done()
        urgent()
        self.assertEqual(self._request("looks")["status"], "preempted")

    def test_a_block_that_never_looks_has_finished(self) -> None:
        with self.client.grant(gpu=2, name="blind") as grant:
            urgent = self._urgent()
            eventually("it must stop", lambda: grant.stop_error)
        urgent()
        self.assertEqual(self._request("blind")["status"], "released")

    def test_who_has_looked_can_say_that_it_is_finished(self) -> None:
        with self.client.grant(gpu=2, name="finished") as grant:
            urgent = self._urgent()
            self.assertTrue(grant.wait_for_stop(60))
            grant.finished()
        urgent()
        self.assertEqual(self._request("finished")["status"], "released")

    def test_a_cancelled_block_is_told_so(self) -> None:
        with self.assertRaises(berth.Cancelled):
            with self.client.grant(gpu=1, name="cancelled") as grant:
                self.client.requests.cancel(grant.id)
                self.assertTrue(grant.wait_for_stop(60))
                grant.check()
        self.assertEqual(self._request("cancelled")["status"], "cancelled")

    def test_a_stale_token_is_final(self) -> None:
        with self.assertRaises(berth.StaleToken):
            with self.client.grant(gpu=1, name="stale") as grant:
                self.client.requests.release(grant.id, grant.token, "failed")
                grant.checkpoint_done()

    def test_a_restart_of_the_server_ends_nothing(self) -> None:
        with self.client.grant(gpu=1, name="survivor") as grant:
            waiting = in_thread(lambda: self._hold_two("waiter"))
            eventually("it waits", lambda: any(one["name"] == "waiter" for one in self.client.requests.all()))
            self.server.stop(kill=True)
            self.server.start()
            self.assertEqual(self.client.requests.get(grant.id)["status"], "allocated")
            self.assertFalse(grant.should_stop())
        waiting()
        self.assertEqual(self._request("survivor")["status"], "released")
        self.assertEqual(self._request("waiter")["status"], "released")

    def _hold_two(self, name: str) -> None:
        with self.client.grant(gpu=2, name=name):
            pass

    # --- step

    def test_a_step_runs_again_after_a_preemption_and_resumes(self) -> None:
        log: List[Any] = []

        @self.client.step(gpu=2, checkpoint="auto", retries=2, name="resumes")
        def train(data: str) -> str:
            grant = berth.current()
            log.append((grant.attempt, grant.resume))
            if not grant.resume:
                log.append(self._urgent())
                assert grant.wait_for_stop(60)
                grant.checkpoint_done()
                return "not the result"
            return f"trained on {data}"

        self.assertEqual(train("images"), "trained on images")
        log.pop(1)()
        self.assertEqual(log, [(1, False), (2, True)])
        request = self._request("resumes")
        self.assertEqual((request["status"], request["preempted_count"]), ("released", 1))

    def test_a_callback_saves(self) -> None:
        saved = threading.Event()

        @self.client.step(gpu=2, checkpoint="auto", name="callback")
        def train() -> bool:
            grant = berth.current()
            if grant.resume:
                return saved.is_set()
            grant.on_checkpoint(lambda _: saved.set())
            urgent = self._urgent()
            eventually("it must stop", lambda: grant.stop_error)
            self.addCleanup(urgent)
            grant.check()
            return False

        self.assertTrue(train())

    def test_a_step_is_retried_after_a_failure(self) -> None:
        tries: List[int] = []

        @self.client.step(gpu=1, retries=1, name="flaky")
        def flaky() -> str:
            tries.append(1)
            if len(tries) == 1:
                raise RuntimeError("the first one fails")
            return "fine"

        self.assertEqual(flaky(), "fine")

        @self.client.step(gpu=1, retries=1, name="hopeless")
        def hopeless() -> None:
            raise RuntimeError("always")

        with self.assertRaisesRegex(RuntimeError, "always"):
            hopeless()
        self.assertEqual(len(self._request("hopeless")["attempts"]), 2)

    def test_the_default_client_comes_from_the_environment(self) -> None:
        with mock.patch.dict(os.environ, self.server.environment()), mock.patch.object(berth, "_default", None):

            @berth.step(gpu=1)
            def named() -> str:
                return str(berth.current().request["name"])

            self.assertEqual(named(), "named")
            with berth.grant(gpu=1) as grant:
                self.assertEqual(grant.request["component"], "research")

    # --- programs

    def test_the_step_example_is_preempted_and_resumes(self) -> None:
        state = self.server.directory / "step-state"
        program = subprocess.Popen(
            [sys.executable, str(EXAMPLES / "step.py")],
            env=self.server.environment(EPOCHS="4", EPOCH_SECONDS="0.3", STATE=str(state)),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert program.stdout is not None
        first = program.stdout.readline()
        self.assertEqual(first, "epoch 0, attempt 1\n")
        self._urgent()()
        rest, _ = program.communicate(timeout=60)
        self.assertEqual(program.returncode, 0)
        self.assertIn("attempt 2", rest)
        self.assertEqual(rest.splitlines()[-1], "trained 4 epochs")
        epochs = [line.split(",")[0] for line in (first + rest).splitlines() if line.startswith("epoch")]
        self.assertEqual(epochs, [f"epoch {n}" for n in range(4)])

    def test_a_training_script_is_preempted_and_resumes(self) -> None:
        lines = self._preempted("train.py", EPOCHS="4", EPOCH_SECONDS="0.3")
        self.assertEqual(lines, [f"epoch {n}" for n in range(4)] + ["trained"])

    def test_a_trainer_with_the_lightning_callback_is_preempted_and_resumes(self) -> None:
        lines = self._preempted("callback.py", STEPS="4", STEP_SECONDS="0.3")
        self.assertEqual(lines, [f"step {n}" for n in range(4)] + ["trained"])

    def _preempted(self, example: str, **env: str) -> List[str]:
        program = self.server.run(
            "run", "--gpu", "2", "--checkpoint", "auto", "--", sys.executable, str(EXAMPLES / example), **env
        )
        assert program.stdout is not None
        first = program.stdout.readline()
        self._urgent()()
        rest, errors = program.communicate(timeout=90)
        self.assertEqual(program.returncode, 0, errors)
        self.assertIn("attempt 2", errors)
        return [first.strip(), *rest.splitlines()]


class LostTest(unittest.TestCase):
    def test_who_loses_touch_stops_within_a_lease(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        server.make_pool(settings={"lease_seconds": 10, "renewal_seconds": 1})
        client = server.client(retry_for=0)
        moved = [0.0]
        clock = types.SimpleNamespace(monotonic=lambda: time.monotonic() + moved[0])
        with mock.patch("berth.holding.time", clock), mock.patch("berth.work.WITHDRAW_FOR_SECONDS", 0):
            with self.assertRaises(berth.HolderLost):
                with client.grant(gpu=1) as grant:
                    server.stop(kill=True)
                    moved[0] = 9.0
                    self.assertFalse(grant.should_stop())
                    moved[0] = 10.0
                    self.assertTrue(grant.wait_for_stop(60))
                    grant.check()


class JobTest(unittest.TestCase):
    """The protocol of a job, without a wrapper."""

    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="berth-job-"))
        self.env = {
            "BERTH_PREEMPT_FILE": str(self.directory / "preempt"),
            "BERTH_CHECKPOINT_DIR": str(self.directory),
            "BERTH_RESUME": "1",
            "BERTH_ATTEMPT": "3",
        }

    def test_outside_of_a_job_nothing_is_wanted(self) -> None:
        with mock.patch.dict(os.environ, clear=True):
            self.assertFalse(berth.job.is_inside())
            self.assertFalse(berth.job.should_stop())
            self.assertFalse(berth.job.checkpoint_done())
            self.assertFalse(berth.job.resume)
            self.assertIsNone(berth.job.deadline)
            self.assertIsNone(berth.job.checkpoint_dir)
            with self.assertRaises(AttributeError):
                berth.job.nonsense  # noqa: B018

    def test_by_files(self) -> None:
        with mock.patch.dict(os.environ, self.env):
            self.assertTrue(berth.job.is_inside() and berth.job.resume)
            self.assertEqual(berth.job.attempt, 3)
            self.assertFalse(berth.job.should_stop())
            notice = {"deadline": "2030-01-01T00:00:00.000Z", "reason": "reclaim"}
            (self.directory / "preempt").write_text(json.dumps(notice))
            self.assertTrue(berth.job.should_stop())
            self.assertEqual(berth.job.reason, "reclaim")
            self.assertEqual(berth.job.deadline.year, 2030)
            berth.job.defer(30)
            berth.job.progress()
            berth.job.checkpoint_done()
            berth.job.finished()
        found = {path.name: path.read_text() for path in self.directory.iterdir()}
        self.assertEqual(found["defer"], "30")
        self.assertLessEqual({"defer", "progress", "done", "finished"}, set(found))

    def test_by_the_socket(self) -> None:
        path = str(self.directory / "socket")
        said: List[Any] = []
        answers = [{"accepted": True, "message": "30 s more"}, {"accepted": False, "message": "too late"}]
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(listener.close)
        listener.bind(path)
        listener.listen()

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection, connection.makefile("rb") as lines:
                    said.append(json.loads(lines.readline()))
                    connection.sendall(json.dumps(answer).encode() + b"\n")

        join = in_thread(serve)
        with mock.patch.dict(os.environ, {**self.env, "BERTH_SOCKET": path}):
            self.assertEqual(berth.job.defer(60), "30 s more")
            with self.assertRaisesRegex(berth.BerthError, "too late"):
                berth.job.checkpoint_done()
        join()
        self.assertEqual(said, [{"report": "defer", "seconds": 60}, {"report": "done"}])

    def test_sigterm_can_be_caught(self) -> None:
        program = (
            "import os, signal; from berth import job; job.catch_sigterm(); "
            "os.kill(os.getpid(), signal.SIGTERM); print(job.should_stop())"
        )
        env = {**os.environ, "PYTHONPATH": str(PACKAGE)}
        self.assertEqual(subprocess.check_output([sys.executable, "-c", program], env=env, text=True), "True\n")

    def test_the_hugging_face_callback(self) -> None:
        transformers = types.ModuleType("transformers")
        transformers.TrainerCallback = object  # type: ignore[attr-defined]
        with mock.patch.dict(sys.modules, {"transformers": transformers}), mock.patch.dict(os.environ, self.env):
            from berth.huggingface import BerthCallback

            callback = BerthCallback()
            control = types.SimpleNamespace(should_save=False, should_training_stop=False)
            state = types.SimpleNamespace(is_world_process_zero=True)
            callback.on_save(None, state, callback.on_step_end(None, state, control))
            self.assertEqual((control.should_save, (self.directory / "done").exists()), (False, False))
            (self.directory / "preempt").write_text("{}")
            callback.on_step_end(None, state, control)
            self.assertTrue(control.should_save and control.should_training_stop)
            callback.on_save(None, state, control)
            self.assertTrue((self.directory / "done").exists())

    def test_lightning_decides_alike_on_all_ranks(self) -> None:
        lightning = types.ModuleType("lightning.pytorch")
        lightning.Callback = object  # type: ignore[attr-defined]
        modules = {"lightning": types.ModuleType("lightning"), "lightning.pytorch": lightning}
        saved: List[str] = []
        with mock.patch.dict(sys.modules, modules), mock.patch.dict(os.environ, self.env):
            from berth.lightning import BerthCallback, resume_path

            self.assertIsNone(resume_path())
            strategy = types.SimpleNamespace(reduce_boolean_decision=lambda wanted, all: True)
            trainer = types.SimpleNamespace(
                should_stop=False, is_global_zero=False, strategy=strategy, save_checkpoint=saved.append
            )
            BerthCallback().on_train_batch_end(trainer, None, None, None, 0)
            self.assertEqual(saved, [str(self.directory / "berth.ckpt")])
            self.assertTrue(trainer.should_stop)
            self.assertFalse((self.directory / "done").exists(), "rank 0 reports")
            Path(saved[0]).write_text("")
            self.assertEqual(resume_path(), saved[0])


if __name__ == "__main__":
    unittest.main()
