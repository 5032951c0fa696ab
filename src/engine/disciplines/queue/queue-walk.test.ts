// A walk costs what is walked: of a line it asks for one member after the other.

import { expect, test } from "vitest";
import type { Command } from "../../commands.ts";
import { decide } from "../../decide.ts";
import { type ComponentName, PLAIN_REQUEST, type PoolName, type RequestId } from "../../records.ts";
import { createState, type Line, type Request } from "../../state.ts";
import { queueOf, queuePageOf } from "../../views.ts";

const POOL = "gpus" as PoolName;

test.each(["priority", "class"] as const)("a page of a deep queue reads few members (%s)", (discipline) => {
  const state = createState();
  const send = (command: Command) => expect(decide(state, command, 0).outcome).not.toBe("refused");
  send({ kind: "createPool", name: POOL, capacity: { gpu: 1 }, discipline });
  const teams = ["red", "blue"] as ComponentName[];
  for (const component of teams) send({ kind: "attachPolicy", policy: { pool: POOL, component } });
  for (let i = 0; i < 100; i++) {
    const component = teams[i % 2] as ComponentName;
    const spec = { ...PLAIN_REQUEST, id: `r${i}` as RequestId, component, resources: { gpu: 1 } };
    send({ kind: "submitRequest", spec });
  }
  const all = queueOf(state, POOL, 0);
  expect(all).toEqual(Array.from({ length: 99 }, (_, i) => `r${i + 1}`));

  let read = 0;
  for (const line of state.lines.values()) countReads(line, () => read++);
  expect(queuePageOf(state, POOL, 0, { start: 3, limit: 4 })).toEqual(all.slice(3, 7));
  expect(read).toBeLessThanOrEqual(7 + 1 + teams.length);
});

function countReads({ members }: Line, onRead: () => void): void {
  const all = members[Symbol.iterator].bind(members);
  members[Symbol.iterator] = function* (): Generator<Request> {
    for (const member of all()) {
      onRead();
      yield member;
    }
  };
}
