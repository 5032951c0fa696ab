// Readers of the stream of committed events.

import { expect, test } from "vitest";
import type { Event } from "../engine/index.ts";
import { openMemoryStore } from "../store/index.ts";
import type { CommittedEvent } from "./interface.ts";
import { createEventStream, type EventStream } from "./stream.ts";

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

async function streamOf(): Promise<EventStream> {
  return createEventStream(await openMemoryStore(), quiet, 0);
}

function publish(stream: EventStream, count: number): void {
  const events = Array.from({ length: count }, (_, index): CommittedEvent => {
    const seq = stream.seq + 1 + index;
    return { seq, atMs: seq, event: { kind: "schedulingSettled", atMs: seq } satisfies Event };
  });
  stream.publish({ events, requestIds: new Set() });
}

/** The next pieces that a reader gets. */
async function read(stream: EventStream, fromSeq: number, pieces: number) {
  const got: (readonly CommittedEvent[])[] = [];
  for await (const message of stream.events(fromSeq)) {
    if (message.kind === "events") got.push(message.events);
    if (got.length === pieces) break;
  }
  return got;
}

const seqsOf = (pieces: readonly (readonly CommittedEvent[])[]) => pieces.flat().map(({ seq }) => seq);
const upTo = (first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index);

test("readers that keep up get the same pieces, so that they are worked out once", async () => {
  const stream = await streamOf();
  publish(stream, 3);
  publish(stream, 2);
  const [one, other] = [await read(stream, 1, 2), await read(stream, 1, 2)];
  expect(seqsOf(one)).toEqual([1, 2, 3, 4, 5]);
  expect(one[0]).toBe(other[0]);
  expect(one[1]).toBe(other[1]);
});

test("a reader in the middle of a piece gets the rest of it", async () => {
  const stream = await streamOf();
  publish(stream, 3);
  publish(stream, 2);
  expect(seqsOf(await read(stream, 2, 2))).toEqual([2, 3, 4, 5]);
});

test("a large commit comes in several pieces", async () => {
  const stream = await streamOf();
  publish(stream, 1_200);
  const pieces = await read(stream, 1, 3);
  expect(pieces.map(({ length }) => length)).toEqual([500, 500, 200]);
  expect(seqsOf(pieces)).toEqual(upTo(1, 1_200));
});

test("nothing is missed while old events leave the memory", async () => {
  const stream = await streamOf();
  const got: number[] = [];
  const reading = (async () => {
    for await (const message of stream.events(1)) {
      if (message.kind === "events") got.push(...message.events.map(({ seq }) => seq));
      if (got.length === 45_000) return;
    }
  })();
  for (let batch = 0; batch < 450; batch++) {
    publish(stream, 100);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await reading;
  expect(got).toEqual(upTo(1, 45_000));
});
