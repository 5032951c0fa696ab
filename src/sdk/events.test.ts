import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { eventStream, fakeServers, problem, type Reply } from "../../test/sdk-support.ts";
import { streamEvents } from "./events.ts";
import { createTransport } from "./transport.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Reads a stream of one reply after the other until it ends; the test feeds it meanwhile. */
function listen(replies: Reply[], urls = ["http://a"]) {
  const { fetch, asked } = fakeServers(() => replies.shift() ?? "silence");
  const transport = createTransport({ urls, random: () => 0.5, fetch });
  const enough = new AbortController();
  const heard: string[] = [];
  const interruptions: string[] = [];
  const options = {
    signal: enough.signal,
    onInterruption: ({ code }: { code: string }) => void interruptions.push(code),
  };
  const over = (async () => {
    for await (const { event } of streamEvents(transport, { request: "r-1" }, options)) heard.push(event);
  })();
  return { asked, heard, interruptions, over, enough };
}

test("events come as they are told, and the stream ends with its signal", async () => {
  const stream = eventStream();
  const { asked, heard, over, enough } = listen([stream.response]);
  await vi.advanceTimersByTimeAsync(1);
  stream.tell({ event: "request.queued", seq: 2 });
  await vi.advanceTimersByTimeAsync(1);
  expect(heard).toEqual(["stream.opened", "request.queued"]);
  expect(asked[0]).toMatchObject({
    call: "GET /v1/events?request=r-1",
    headers: { accept: "text/event-stream" },
  });
  enough.abort();
  await over;
});

test("after an interruption it goes on behind the last event that was heard", async () => {
  const [first, second] = [eventStream(), eventStream()];
  const { asked, heard, interruptions, over, enough } = listen([first.response, "refused", second.response]);
  await vi.advanceTimersByTimeAsync(1);
  first.tell({ event: "request.queued", seq: 41 });
  await vi.advanceTimersByTimeAsync(1);
  first.end();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(heard).toEqual(["stream.opened", "request.queued", "stream.opened"]);
  expect(asked.map(({ headers }) => headers["last-event-id"])).toEqual([undefined, "41", "41"]);
  expect(interruptions).toEqual(["unavailable"]);
  enough.abort();
  await over;
});

test("a connection that has fallen silent is given up for another", async () => {
  const [first, second] = [eventStream(), eventStream()];
  const { asked, heard, interruptions, over, enough } = listen([first.response, second.response]);
  await vi.advanceTimersByTimeAsync(40_000);
  first.tell({ event: "request.queued", seq: 2 });
  await vi.advanceTimersByTimeAsync(44_000);
  expect(asked).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(asked).toHaveLength(2);
  expect(interruptions).toHaveLength(1);
  expect(heard.at(-1)).toBe("stream.opened");
  enough.abort();
  await over;
});

test("all servers are asked, and a refusal that will not pass is thrown", async () => {
  const { asked, over } = listen(
    [problem(503, "unavailable"), problem(403, "forbidden")],
    ["http://a", "http://b"],
  );
  await expect(over).rejects.toMatchObject({ code: "forbidden", status: 403 });
  expect(asked.map(({ origin }) => origin)).toEqual(["http://a", "http://b"]);
});
