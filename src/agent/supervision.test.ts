// A job whose lease is over before it has begun: the answer that ordered it was long on its way (E3).

import { expect, test } from "vitest";
import type { Job } from "../runner/index.ts";
import type { NodeOrder } from "./claims.ts";
import type { FromShim } from "./messages.ts";
import { superviseJob } from "./supervision.ts";

test("E3: a job that is started after its lease stands still, and its shim lives", async () => {
  const said: FromShim[] = [];
  let isFrozen = false;
  const never = new Promise<never>(() => undefined);
  const job = {
    streams: { stdin: null, stdout: null, stderr: null },
    exited: never,
    gone: never,
    extend: () => undefined,
    freeze: async () => {
      isFrozen = true;
      return true;
    },
    onCheckpointReport: () => undefined,
  } as unknown as Job;
  const order = { leaseUntil: 0, onLost: "suspend" } as NodeOrder;
  superviseJob(job, order, { say: (message) => said.push(message), lostBytes: () => 0 });
  while (!isFrozen) await new Promise((resolve) => setImmediate(resolve));
  expect(said).toContainEqual({
    kind: "state",
    state: expect.objectContaining({ phase: "suspended" }) as unknown,
  });
});
