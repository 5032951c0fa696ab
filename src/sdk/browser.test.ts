// The client in a browser: bundled as for one, and run where there is nothing of Node.

import { fileURLToPath } from "node:url";
import { runInNewContext } from "node:vm";
import { build } from "esbuild";
import { expect, test } from "vitest";

const browser = {
  AbortController,
  AbortSignal,
  URL,
  URLSearchParams,
  TextDecoder,
  performance,
  setTimeout,
  clearTimeout,
};

test("it needs nothing that browsers do not have", async () => {
  const { outputFiles, metafile } = await build({
    entryPoints: [fileURLToPath(new URL("./index.ts", import.meta.url))],
    bundle: true,
    write: false,
    metafile: true,
    format: "iife",
    globalName: "berth",
    platform: "browser", // An import of a module of Node's is an error here.
    target: "es2022",
    logLevel: "silent",
  });
  const calls: string[] = [];
  const fetch = (url: string, { method }: { method: string }) => {
    calls.push(`${method} ${url}`);
    return Promise.resolve(new Response('{"id": "r-1"}', { status: 201 }));
  };
  const script = `${outputFiles[0]?.text}; berth.createClient({ url: "http://a", token: "t" })
    .requests.submit({ component: "research", resources: { gpu: 1 } });`;
  expect(await runInNewContext(script, { ...browser, fetch })).toEqual({ id: "r-1" });
  expect(calls).toEqual(["POST http://a/v1/resource-requests"]);
  // Schemas stay with the server: a page would load them for nothing.
  expect(Object.keys(metafile.inputs).filter((path) => path.includes("zod"))).toEqual([]);
});
