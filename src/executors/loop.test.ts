// The loop on a disk that takes nothing: it goes on, says so once, and starts what is wanted when the disk takes it again. And
// what readers of logs and later processes hear from it.

import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { WireLogPiece, WireRunningPart, WireWantedPart } from "../protocol/index.ts";
import type { Executor, SyncAnswer } from "./executor.ts";
import type { Order } from "./journal.ts";
import { type SyncBody, startLoop } from "./loop.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "berth-loop-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const wanted = (id: string, number: number) =>
  ({
    request_id: id,
    token: `${number}.mac`,
    run: { command: ["true"] },
    instruction: { do: "carry_on" },
    signals: [],
  }) as unknown as WireWantedPart;

function world() {
  const started: string[] = [];
  const said: string[] = [];
  const bodies: SyncBody[] = [];
  const pieces: WireLogPiece[] = [];
  let jobs: WireWantedPart[] = [];
  let logs: SyncAnswer["logs"] = [];
  let phase: WireRunningPart["phase"] = "running";
  let noteChange: () => void = () => undefined;
  const executor: Executor<Order> = {
    order: ({ request_id: requestId, token }) => ({ order: { requestId, token } }),
    start: ({ order }) => void started.push(order.requestId),
    list: async () =>
      started.map((id): WireRunningPart => {
        const token = jobs.find(({ request_id }) => request_id === id)?.token ?? "";
        return { request_id: id, token, phase };
      }),
    instruct: () => undefined,
    stop: () => undefined,
    forget: () => undefined,
    openLog: () => ({ next: () => ({ from: 0, parts: [], dropped: 0 }), seek: () => undefined }),
    close: () => undefined,
  };
  const loop = startLoop({
    channel: {
      async sync(body) {
        bodies.push(body);
        const facts = { epoch: 3, version: "v", sync_after_seconds: 0.01, lost_after_seconds: 300 };
        return { ...facts, may_run_on: false, jobs, logs };
      },
      checkpoint: async () => ({}),
      async sendLog(_, piece) {
        pieces.push(piece);
        return { go_on: !piece.is_end, position: 0 };
      },
    },
    stateDirectory: directory,
    executor(events) {
      noteChange = events.onChange;
      return executor;
    },
    compareEverySeconds: 0.01,
    tell: (text) => said.push(text),
  });
  return {
    ...{ loop, started, said, bodies, pieces },
    want: (...next: WireWantedPart[]) => (jobs = next),
    read: (token: string) => (logs = [{ reader: "reader", token, from: 0, follow: true }] as typeof logs),
    end() {
      phase = "ended";
      noteChange();
    },
  };
}

test("J5: what cannot be written down is not started, is said once, and starts when the disk takes it", async () => {
  const { loop, started, said, want } = world();
  const [jobs, aside] = [join(directory, "jobs"), join(directory, "aside")];
  renameSync(jobs, aside);
  writeFileSync(jobs, ""); // Nothing can be written below a file.
  want(wanted("one", 1), wanted("two", 2));
  await vi.waitFor(() => expect(said).toHaveLength(1));
  expect(said[0]).toContain("Something could not be done here, and is tried again: ENOTDIR");
  expect(started).toEqual([]);
  rmSync(jobs);
  renameSync(aside, jobs);
  await vi.waitFor(() => expect(started).toEqual(["one", "two"]));
  await vi.waitFor(() => expect(said.at(-1)).toBe("It could be done now."));
  expect(said).toHaveLength(2);
  await loop.close();
});

test("one attempt that cannot be written down does not hold up another", async () => {
  const { loop, started, said, want } = world();
  const first = wanted("one", 1);
  // Its order cannot be made into a text.
  Object.defineProperty(first, "request_id", { value: 1n, enumerable: true });
  want(first, wanted("two", 2));
  await vi.waitFor(() => expect(started).toEqual(["two"]));
  expect(said[0]).toContain("is tried again");
  await loop.close();
});

test("J6: a reader of a job that has ended is told at once that nothing follows", async () => {
  const { loop, started, bodies, pieces, want, read, end } = world();
  want(wanted("one", 1));
  await vi.waitFor(() => expect(started).toEqual(["one"]));
  read("1.mac");
  const before = bodies.length;
  await vi.waitFor(() => expect(bodies.length).toBeGreaterThan(before + 2)); // The reader waits for more.
  end();
  // Before the time at which it would only hear that the node is there.
  await vi.waitFor(() => expect(pieces[0]).toEqual({ from: 0, parts: [], is_end: true }));
  await loop.close();
});

test("C14: the highest epoch and the newest grant are said in every sync, and by the next process, too", async () => {
  const first = world();
  first.want(wanted("one", 7), wanted("two", 12), wanted("three", 9));
  const highest = { epoch: 3, token: "12.mac", request_id: "two" };
  await vi.waitFor(() => expect(first.bodies.at(-1)?.highest).toEqual(highest));
  await first.loop.close();
  const second = world();
  await vi.waitFor(() => expect(second.bodies.length).toBeGreaterThan(0));
  expect(second.bodies[0]?.highest).toEqual(highest);
  await second.loop.close();
});
