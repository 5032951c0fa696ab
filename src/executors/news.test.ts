import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { createNews } from "./news.ts";

test("a wait ends by time or by news, and leaves nothing behind on a signal that outlives it", async () => {
  const { signal } = new AbortController();
  const news = createNews();
  news.next();
  await news.within(1, signal);
  const waiting = news.within(3_600_000, signal);
  news.note();
  await waiting;
  expect(getEventListeners(signal, "abort")).toEqual([]);
});
