// Whether a server answers only what its disk has: the page cache survives a kill, but not a loss of power. Its system
// calls say so: what an answer tells must be in the log of the store, and the log synced since, before the answer goes out.

import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { childStarter } from "./start.ts";

const CALLS = "trace=read,write,writev,pwrite64,pwritev,fsync,fdatasync,sendto,sendmsg";
const AT_ONCE = 8;

export interface Durability {
  readonly answers: number;
  readonly syncs: number;
  readonly early: readonly string[];
}

/** Runs a server on a new store, asks it for so many cycles, and reads what it did. */
export async function traceAnswers(
  program: string,
  { file, cycles }: { readonly file: string; readonly cycles: number },
): Promise<Durability> {
  if (spawnSync("strace", ["-V"]).status !== 0) {
    throw new Error("strace is missing: without it nobody sees whether an answer waits for the disk.");
  }
  const trace = `${file}.trace`;
  const under = ["strace", "-f", "-y", "-qq", "-s", "70000", "-e", CALLS, "-o", trace];
  const server = childStarter(program, ["sqlite", file], { under })();
  await server.ready;
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (let cycle = 0; cycle < cycles / AT_ONCE; cycle++) {
        const { id, token } = await server.ask({ kind: "submit", key: randomUUID(), component: "wide" });
        await server.ask({ kind: "release", key: randomUUID(), id, token: token ?? "" });
      }
    }),
  );
  await server.kill();
  return readTrace(await readFile(trace, "latin1"));
}

/** The answers in the output of `strace -f -y`, and those that went out too early. */
export function readTrace(text: string): Durability {
  /** By process: the beginning of a call that others came in between. */
  const open = new Map<string, { readonly beginning: string; readonly written: number }>();
  /** By socket: the key of the call that has not been answered. */
  const asked = new Map<string, string>();
  /** By key: the write to the log that first had it. */
  const writes = new Map<string, number>();
  const waiting = new Set<string>();
  let written = 0;
  let synced = 0;
  let syncs = 0;
  let answers = 0;
  const early: string[] = [];

  function answer(socket: string, line: string): void {
    const key = asked.get(socket);
    asked.delete(socket);
    if (key === undefined || !/HTTP\/1\.1 2\d\d/.test(line)) return;
    answers++;
    const write = writes.get(key);
    if (write === undefined) early.push(`${key} was answered before it was written`);
    else if (synced < written) early.push(`${key} was answered before the log was synced`);
  }

  for (const raw of text.split("\n")) {
    const [, process = "", rest = ""] = /^(\d+) +(.*)$/s.exec(raw) ?? [];
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/s.exec(rest);
    const begun = resumed === null ? undefined : open.get(process);
    const isUnfinished = rest.endsWith("<unfinished ...>");
    const line = begun === undefined ? rest : begun.beginning + (resumed?.[1] ?? "");
    const [, call = "", handle = "", name = ""] = /^(\w+)\((\d+)<([^>]*)>/.exec(line) ?? [];
    const isLog = name.endsWith("-wal");
    const isSocket = /^(?:TCP|socket)/.test(name);

    // Counted when they begin: an answer may not go out beside them, and a sync vouches only for what was there before.
    if (begun === undefined) {
      if (isLog && call.startsWith("pwrite")) {
        written++;
        for (const key of waiting) {
          if (!line.includes(key)) continue;
          writes.set(key, written);
          waiting.delete(key);
        }
      }
      if (isSocket && /^(?:write|send)/.test(call)) answer(handle, line);
    }
    if (isUnfinished) {
      open.set(process, { beginning: rest.replace("<unfinished ...>", ""), written });
      continue;
    }
    open.delete(process);
    if (isLog && call.endsWith("sync") && line.endsWith("= 0")) {
      syncs++;
      synced = begun?.written ?? written;
    }
    const key = isSocket && call === "read" ? /idempotency-key: ([\w-]+)/i.exec(line)?.[1] : undefined;
    if (key !== undefined) {
      asked.set(handle, key);
      waiting.add(key);
    }
  }
  return { answers, syncs, early };
}
