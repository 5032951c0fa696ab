// Readers of logs (J6): every byte once and in order, whatever the agent sends.

import { expect, test } from "vitest";
import type { WireLogPiece } from "../../protocol/index.ts";
import { createReaders, type LogPart } from "./readers.ts";

function openReader(from = 0) {
  const read: (string | number)[] = [];
  const readers = createReaders(() => undefined);
  const order = { reporter: "one", requestId: "r", token: "1.t", from, follow: true, countsAs: "t" };
  readers.open(order, {
    async take(parts: readonly LogPart[], dropped: number) {
      if (dropped > 0) read.push(dropped);
      read.push(...parts.map(({ at, data }) => `${at} ${data.toString()}`));
    },
    end: (why) => void read.push(why),
  });
  const [{ reader } = { reader: "" }] = readers.on("one");
  const send = (from: number, text: string, more: Partial<WireLogPiece> = {}) =>
    readers.take("one", reader, {
      from,
      parts: text === "" ? [] : [{ stream: "stdout", data: Buffer.from(text).toString("base64") }],
      is_end: false,
      ...more,
    });
  return { read, send, readers };
}

test("a piece that came before is not read again, and after a lost one the agent goes back", async () => {
  const { read, send } = openReader();
  expect(await send(0, "abc")).toEqual({ go_on: true, position: 3 });
  expect(await send(0, "abcd")).toEqual({ go_on: true, position: 4 });
  expect(await send(9, "later")).toEqual({ go_on: true, position: 4 });
  await send(4, "e", { is_end: true });
  expect(read).toEqual(["0 abc", "3 d", "4 e", "complete"]);
});

test("a reader that is overtaken by what is dropped goes on with a mark, and does not ask for it for ever", async () => {
  const { read, send } = openReader();
  await send(0, "abc");
  expect(await send(103, "xyz", { dropped: 100 })).toEqual({ go_on: true, position: 106 });
  // The same once more, because its answer was lost.
  expect(await send(103, "xyz", { dropped: 100 })).toEqual({ go_on: true, position: 106 });
  expect(read).toEqual(["0 abc", 100, "103 xyz"]);
});

test("the first piece may begin where the log does, or before its end", async () => {
  const late = openReader();
  await late.send(50, "new", { dropped: 50 });
  expect(late.read).toEqual([50, "50 new"]);
  const last = openReader(-3);
  expect(await last.send(97, "end")).toEqual({ go_on: true, position: 100 });
  expect(last.read).toEqual(["97 end"]);
});
