import { expect, test } from "vitest";
import { JOB_LABEL } from "./labels.ts";
import type { ContainerStatus, Pod } from "./objects.ts";
import { factsOf, type PodFacts, storedEndOf, wordOf } from "./states.ts";

type State = ContainerStatus["state"];
const pod = (
  status: Pod["status"],
  metadata: Pod["metadata"] = {},
  nodeName: string | undefined = "n1",
): Pod => ({
  metadata: { name: "p", uid: "u", labels: { [JOB_LABEL]: "berth-1-1" }, ...metadata },
  spec: nodeName === "" ? {} : { nodeName },
  ...(status !== undefined && { status }),
});
const at = (state: NonNullable<State>): ContainerStatus[] => [{ name: "job", state }];
const DELETED = { deletionTimestamp: "2026-01-01T00:00:00Z", deletionGracePeriodSeconds: 30 };
const ended = (exitCode: number, more: object = {}) => at({ terminated: { exitCode, ...more } });

const cases: Record<string, [Pod, Partial<PodFacts>]> = {
  "nothing is known yet": [pod(undefined, {}, ""), { stage: "waiting", why: undefined, end: undefined }],
  "the scheduler says why it waits": [
    pod(
      {
        phase: "Pending",
        conditions: [
          {
            type: "PodScheduled",
            status: "False",
            reason: "Unschedulable",
            message: "0/3 nodes are available.",
          },
        ],
      },
      {},
      "",
    ),
    { stage: "waiting", why: "0/3 nodes are available." },
  ],
  "its image cannot be had": [
    pod({
      phase: "Pending",
      containerStatuses: at({ waiting: { reason: "ImagePullBackOff", message: "no such image" } }),
    }),
    { stage: "waiting", why: "ImagePullBackOff: no such image" },
  ],
  "its container is being made": [
    pod({ phase: "Pending", containerStatuses: at({ waiting: { reason: "ContainerCreating" } }) }),
    { stage: "waiting", why: undefined },
  ],
  "it runs": [pod({ phase: "Running", containerStatuses: at({ running: {} }) }), { stage: "running" }],
  "K2: its node has evicted it, and it still runs": [
    pod({ phase: "Failed", reason: "Evicted", containerStatuses: at({ running: {} }) }),
    { stage: "running", end: undefined },
  ],
  "K2: it was called failed because its node is gone, and nobody will say that it has ended": [
    pod(
      { phase: "Failed", reason: "NodeLost", containerStatuses: at({ running: {} }) },
      { ...DELETED, deletionGracePeriodSeconds: 0 },
    ),
    { stage: "over", end: { kind: "lost", why: "NodeLost" } },
  ],
  "the command counts, not a container that the cluster has added": [
    pod({
      phase: "Failed",
      containerStatuses: [{ name: "a-proxy", state: { terminated: { exitCode: 0 } } }, ...ended(3)],
    }),
    { stage: "over", end: { kind: "exited", exitCode: 3 } },
  ],
  "it was deleted, and still runs": [
    pod({ phase: "Running", containerStatuses: at({ running: {} }) }, DELETED),
    { stage: "ending", isDeleted: true },
  ],
  "it was deleted before it had a node": [
    pod({ phase: "Pending" }, DELETED, ""),
    { stage: "over", end: { kind: "lost", why: "its pod was deleted" } },
  ],
  "it was deleted, and its container has ended, though its phase does not say so": [
    pod({ phase: "Running", containerStatuses: ended(143) }, DELETED),
    { stage: "over", end: { kind: "exited", exitCode: 143 } },
  ],
  "it was deleted by force": [
    pod(
      { phase: "Running", containerStatuses: at({ running: {} }) },
      { ...DELETED, deletionGracePeriodSeconds: 0 },
    ),
    { stage: "over", end: { kind: "lost", why: "its pod was deleted" } },
  ],
  "it has ended well": [
    pod({ phase: "Succeeded", containerStatuses: ended(0, { finishedAt: "2026-01-01T00:00:05Z" }) }),
    { stage: "over", end: { kind: "exited", exitCode: 0, at: "2026-01-01T00:00:05.000Z" } },
  ],
  "times may be dates": [
    pod({ phase: "Succeeded", containerStatuses: ended(0, { finishedAt: new Date(0) }) }),
    { end: { kind: "exited", exitCode: 0, at: "1970-01-01T00:00:00.000Z" } },
  ],
  "it had too little memory": [
    pod({ phase: "Failed", containerStatuses: ended(137, { reason: "OOMKilled" }) }),
    { end: { kind: "exited", exitCode: 137, isOutOfMemory: true } },
  ],
  "it was evicted": [
    pod({
      phase: "Failed",
      reason: "Evicted",
      message: "The node was low on memory.",
      containerStatuses: ended(137),
    }),
    { end: { kind: "lost", why: "Evicted: The node was low on memory" } },
  ],
  "it was in the way": [
    pod({
      phase: "Failed",
      containerStatuses: ended(143),
      conditions: [
        { type: "DisruptionTarget", status: "True", reason: "PreemptionByScheduler", message: "for another" },
      ],
    }),
    { end: { kind: "lost", why: "PreemptionByScheduler: for another" } },
  ],
  "its node is gone": [
    pod({ phase: "Failed", reason: "NodeLost" }),
    { end: { kind: "lost", why: "NodeLost" } },
  ],
  "its node would not take it": [
    pod({ phase: "Failed", reason: "OutOfcpu", message: "Node didn't have enough resource: cpu" }),
    { end: { kind: "refused", why: "OutOfcpu: Node didn't have enough resource: cpu" } },
  ],
  "its command does not exist": [
    pod({
      phase: "Failed",
      containerStatuses: ended(128, { reason: "StartError", message: "no such file" }),
    }),
    { end: { kind: "refused", why: "StartError: no such file" } },
  ],
};

for (const [name, [given, want]] of Object.entries(cases))
  test(`K3: ${name}`, () => expect(factsOf(given)).toMatchObject({ uid: "u", job: "berth-1-1", ...want }));

const UNASKED = { told: undefined, hasSaved: false, hasFinished: false };
const ASKED = { told: "stop" as const, hasSaved: false, hasFinished: false };

test("K3: how an attempt ended", () => {
  const exited = (exitCode: number) => ({ kind: "exited", exitCode }) as const;
  expect(storedEndOf(exited(0), UNASKED)).toEqual({ outcome: "succeeded", exit_code: 0 });
  expect(storedEndOf(exited(3), UNASKED)).toEqual({ outcome: "failed", exit_code: 3 });
  expect(storedEndOf({ ...exited(137), isOutOfMemory: true }, UNASKED)).toMatchObject({
    outcome: "failed",
    cause: "oom",
  });
  expect(storedEndOf({ kind: "lost", why: "Evicted" }, UNASKED)).toMatchObject({ outcome: "lost" });
  expect(storedEndOf({ kind: "refused", why: "OutOfcpu" }, UNASKED)).toMatchObject({
    ...{ outcome: "failed", cause: "start_failed", message: "Kubernetes did not start it: OutOfcpu." },
  });
});

test("11.4: after a deletion every end is the stop that was asked for, unless it has finished", () => {
  for (const exitCode of [0, 3, 143])
    expect(storedEndOf({ kind: "exited", exitCode }, ASKED)).toMatchObject({ outcome: "stopped" });
  expect(storedEndOf({ kind: "lost", why: "Evicted" }, ASKED)).toEqual({ outcome: "stopped" });
  expect(storedEndOf({ kind: "exited", exitCode: 143 }, { ...ASKED, hasFinished: true })).toMatchObject({
    outcome: "succeeded",
  });
});

test("11.2: what a program says last, in its report file or by its exit code", () => {
  const said = (text: string, exitCode = 0) => ({ kind: "exited", exitCode, said: text }) as const;
  expect(wordOf(said("done\n"), false)).toBe("done");
  expect(wordOf(said("done\nfinished\n"), true)).toBe("finished");
  expect(wordOf(said("undone"), true)).toBeUndefined();
  expect(wordOf({ kind: "exited", exitCode: 75 }, true)).toBe("done");
  expect(wordOf({ kind: "exited", exitCode: 75 }, false)).toBeUndefined();
});
