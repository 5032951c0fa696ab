import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { loadPages, PAGE_CSP } from "./pages.ts";

const directory = mkdtempSync(join(tmpdir(), "berth-pages-"));
const url = pathToFileURL(`${directory}/`);

beforeAll(() => {
  const html = "<!doctype html><title>Berth</title>";
  writeFileSync(join(directory, "index.html"), html);
  writeFileSync(join(directory, "app-AB.js"), "1");
  writeFileSync(join(directory, "app-AB.js.gz"), gzipSync("1"));
  writeFileSync(join(directory, "app-AB.js.br"), brotliCompressSync("1"));
  const files = [
    { file: "index.html", paths: ["/", "/queue", "/requests/{number}"], type: "text/html", isHashed: false },
    {
      ...{ file: "app-AB.js", paths: ["/assets/app-AB.js"], type: "text/javascript", isHashed: true },
      ...{ gzip: "app-AB.js.gz", brotli: "app-AB.js.br" },
    },
  ];
  writeFileSync(join(directory, "manifest.json"), JSON.stringify({ files }));
});

afterAll(() => rmSync(directory, { recursive: true }));

const textOf = (body: Uint8Array) => new TextDecoder().decode(body);

test("every view path answers with the page and the policy of B3, which is asked for anew each time", () => {
  const pages = loadPages([url]);
  for (const path of ["/requests", "/requests/x", "/assets"]) expect(pages.answer(path, "")).toBeUndefined();
  for (const path of ["/", "/queue", "/requests/42"]) {
    const { status, headers, body } = pages.answer(path, "gzip, br")!;
    expect(status).toBe(200);
    expect(textOf(body)).toContain("Berth");
    expect(headers["content-security-policy"]).toBe(PAGE_CSP);
    expect(headers["cache-control"]).toBe("no-cache");
  }
});

test("hashed files are kept for ever, in the best form that the browser takes", () => {
  const pages = loadPages([url]);
  const encodingOf = (accepted: string | undefined) =>
    pages.answer("/assets/app-AB.js", accepted)?.headers["content-encoding"];
  expect(encodingOf("gzip, deflate, br")).toBe("br");
  expect(encodingOf("gzip")).toBe("gzip");
  expect(encodingOf("br;q=0, gzip")).toBe("gzip");
  expect(encodingOf("br;q=0.5")).toBe("br");
  expect(encodingOf(undefined)).toBeUndefined();
  expect(pages.answer("/assets/app-AB.js", "")?.headers["cache-control"]).toContain("immutable");
});

test("without a built page, / says how to build it", () => {
  const pages = loadPages([pathToFileURL("/nowhere/")]);
  expect(pages.answer("/queue", undefined)).toBeUndefined();
  const { status, body } = pages.answer("/", undefined)!;
  expect(status).toBe(404);
  expect(textOf(body)).toContain("npm run build");
});
