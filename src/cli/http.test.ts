import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { fetchLightly } from "./http.ts";

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  onTestFinished(() => void server.close().closeAllConnections());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const get = (signal = new AbortController().signal) => ({ method: "GET", headers: {}, signal });

test("what is sent arrives, and what is answered comes back", async () => {
  const url = await serve((incoming, outgoing) => {
    const { method, headers } = incoming;
    let body = "";
    incoming.setEncoding("utf8").on("data", (chunk: string) => {
      body += chunk;
    });
    incoming.on("end", () => {
      outgoing.writeHead(409, { "retry-after": "3" });
      outgoing.end(`${method} ${headers["x-a"]} ${headers["content-length"]} ${body}`);
    });
  });
  const init = { ...get(), method: "POST", headers: { "x-a": "1" }, body: '"日本"' };
  const answer = await fetchLightly(`${url}/path`, init);
  expect([answer.ok, answer.status, answer.headers.get("Retry-After")]).toEqual([false, 409, "3"]);
  expect(answer.headers.get("etag")).toBeNull();
  expect(await answer.text()).toBe('POST 1 8 "日本"');
});

test("an answer that does not end can be read as it comes", async () => {
  const url = await serve((_, outgoing) => void outgoing.writeHead(200).write("first"));
  const enough = new AbortController();
  const { ok, body } = await fetchLightly(url, get(enough.signal));
  const reader = (body as ReadableStream<Uint8Array>).getReader();
  expect(ok).toBe(true);
  expect(new TextDecoder().decode((await reader.read()).value)).toBe("first");
  enough.abort();
  await expect(reader.read()).rejects.toThrow();
});

test("nobody there is a failure with its cause", async () => {
  const failure = await fetchLightly("http://127.0.0.1:9", get()).catch((error: unknown) => error);
  expect(failure).toMatchObject({ name: "TypeError", cause: { code: "ECONNREFUSED" } });
});

test("an abort is told with its reason, before the answer and in the middle of it", async () => {
  const silent = await serve(() => undefined);
  const before = new AbortController();
  const asking = fetchLightly(silent, get(before.signal));
  before.abort(new Error("enough"));
  await expect(asking).rejects.toThrow("enough");

  const slow = await serve((_, outgoing) => void outgoing.writeHead(200).write("half"));
  const during = new AbortController();
  const answer = await fetchLightly(slow, get(during.signal));
  const reading = answer.text();
  during.abort(new Error("too slow"));
  await expect(reading).rejects.toThrow("too slow");
});

test("a connection that breaks in the middle is a failure", async () => {
  const url = await serve((_, outgoing) => {
    outgoing.writeHead(200, { "content-length": "10" }).write("half", () => outgoing.destroy());
  });
  const answer = await fetchLightly(url, get());
  await expect(answer.text()).rejects.toThrow("fetch failed");
});
