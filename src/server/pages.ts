// The dashboard's page, served from memory by every server (B1, B3). What there is to serve, the build says in
// manifest.json: each file with the paths that it answers, its type, and its compressed forms.

import { readFileSync } from "node:fs";
import { z } from "zod";
import { SECURITY_HEADERS } from "./headers.ts";

/** Word for word (B3): nothing from elsewhere, no text becomes script or style. */
export const PAGE_CSP = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

const manifest = z.object({
  files: z.array(
    z.object({
      file: z.string(),
      /** `{number}` stands for any whole number. */
      paths: z.array(z.string()),
      type: z.string(),
      /** Its name changes with what is in it: it may be kept for ever. */
      isHashed: z.boolean(),
      gzip: z.string().optional(),
      brotli: z.string().optional(),
    }),
  ),
});

export interface Pages {
  /** Undefined: no page is there. */
  answer(path: string, acceptEncoding: string | undefined): PageAnswer | undefined;
}

export interface PageAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array<ArrayBuffer>;
}

interface Page {
  readonly headers: Readonly<Record<string, string>>;
  readonly plain: Uint8Array<ArrayBuffer>;
  readonly gzip: Uint8Array<ArrayBuffer> | undefined;
  readonly brotli: Uint8Array<ArrayBuffer> | undefined;
}

/** Beside this module where it is built, and in dist where it runs from its sources. */
const DIRECTORIES = [
  new URL("../dashboard/", import.meta.url),
  new URL("../../dist/dashboard/", import.meta.url),
];

const NOT_BUILT =
  "The page of the dashboard is not built here. Type: npm run build\nThe API is described at /docs.\n";

export function loadPages(directories: readonly URL[] = DIRECTORIES): Pages {
  const found = directories.map(readManifest).find((files) => files !== undefined);
  const pages = new Map<string, Page>();
  for (const { paths, ...page } of found ?? []) for (const path of paths) pages.set(path, page);
  return {
    answer(path, acceptEncoding) {
      if (pages.size === 0 && path === "/") return notBuilt();
      const page = pages.get(path) ?? pages.get(path.replace(/\/\d+$/, "/{number}"));
      return page && encoded(page, acceptEncoding ?? "");
    },
  };
}

function readManifest(directory: URL): (Page & { paths: readonly string[] })[] | undefined {
  let text: string;
  try {
    text = readFileSync(new URL("manifest.json", directory), "utf8");
  } catch {
    return undefined; // Not built there.
  }
  const read = (file: string) => Uint8Array.from(readFileSync(new URL(file, directory)));
  const { files } = manifest.parse(JSON.parse(text));
  return files.map(({ file, paths, type, isHashed, gzip, brotli }) => ({
    paths,
    headers: {
      ...SECURITY_HEADERS,
      "content-type": type,
      "content-security-policy": PAGE_CSP,
      "cache-control": isHashed ? "public, max-age=31536000, immutable" : "no-cache",
      vary: "accept-encoding",
    },
    plain: read(file),
    gzip: gzip === undefined ? undefined : read(gzip),
    brotli: brotli === undefined ? undefined : read(brotli),
  }));
}

function encoded({ headers, plain, gzip, brotli }: Page, accepted: string): PageAnswer {
  const takes = (name: string) => new RegExp(`\\b${name}\\b(?!\\s*;\\s*q=0(\\.0*)?(,|$))`).test(accepted);
  const inForm = (body: Uint8Array<ArrayBuffer>, encoding: string) => ({
    status: 200,
    headers: { ...headers, "content-encoding": encoding },
    body,
  });
  if (brotli !== undefined && takes("br")) return inForm(brotli, "br");
  if (gzip !== undefined && takes("gzip")) return inForm(gzip, "gzip");
  return { status: 200, headers, body: plain };
}

function notBuilt(): PageAnswer {
  const headers = { ...SECURITY_HEADERS, "content-type": "text/plain; charset=utf-8" };
  return { status: 404, headers, body: new TextEncoder().encode(NOT_BUILT) };
}
