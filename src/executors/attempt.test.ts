// What is wanted of an attempt, from the answer of a server to the next one.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import type { WireWantedPart } from "../protocol/index.ts";
import { KeptAttempt } from "./attempt.ts";
import type { Order } from "./journal.ts";

class Attempt extends KeptAttempt<Order, object> {
  protected tail() {
    return { data: Buffer.alloc(0) };
  }
}

const directory = mkdtempSync(join(tmpdir(), "berth-attempt-"));
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(directory, { recursive: true, force: true });
});

test("S4: the grace runs out between two answers, too", () => {
  const now = vi.spyOn(performance, "now").mockReturnValue(1_000);
  const attempt = new Attempt({ directory, order: { requestId: "r", token: "1.t" } }, "kept.json", {});
  expect(attempt.wish).toEqual({ do: "carry_on", isOverdue: false });
  attempt.hear({ instruction: { do: "stop" }, signals: [] } as unknown as WireWantedPart, 5_000);
  now.mockReturnValue(5_999);
  expect(attempt.wish).toEqual({ do: "stop", isOverdue: false });
  now.mockReturnValue(6_000);
  expect(attempt.wish).toEqual({ do: "stop", isOverdue: true });
  attempt.hear({ instruction: { do: "carry_on" }, signals: [] } as unknown as WireWantedPart, 0);
  expect(attempt.wish).toEqual({ do: "carry_on", isOverdue: false });
  attempt.disown();
  expect(attempt.wish).toEqual({ do: "end", isOverdue: true });
});
