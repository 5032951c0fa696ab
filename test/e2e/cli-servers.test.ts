// Several servers on one machine, each with a context of its own, in real terminals.

import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { buildBerth } from "./run-support.ts";
import { temporaryDirectory } from "./runner-support.ts";
import { openTerminal } from "./terminal-support.ts";

let berth = "";
beforeAll(async () => {
  berth = await buildBerth();
});

function createPerson() {
  const home = temporaryDirectory();
  const begin = (line: string) =>
    openTerminal(`exec ${line.replaceAll("berth ", `'${process.execPath}' '${berth}' `)}`, {
      cwd: home,
      env: { HOME: home, USER: "alice", BERTH_LISTEN: "127.0.0.1:0" },
    });
  const typed = async (line: string) => {
    const terminal = begin(line);
    const exitCode = await terminal.exited;
    return { exitCode, screen: terminal.screen() };
  };
  const contexts = () =>
    JSON.parse(readFileSync(join(home, ".config/berth/contexts.json"), "utf8")) as {
      current: string;
      contexts: Record<string, { url: string; token: string }>;
    };
  return { home, begin, typed, contexts };
}

const READY = /context +(\S+) → (http:\S+)[\s\S]*Next: {2}(berth run .*)\n/;

test("a second server beside the first has a context of its own, and ends without a trace", {
  timeout: 240_000,
}, async () => {
  const { home, begin, typed, contexts } = createPerson();
  const first = begin("berth up --capacity gpu=2");
  const [, firstName, firstUrl] = await first.shows(READY);
  const second = begin("berth up --capacity gpu=1 --data-dir try");
  const [, secondName, secondUrl, next = ""] = await second.shows(READY);
  expect([firstName, secondName]).toEqual(["local", "try"]);
  expect(next).toBe("berth run --context try --gpu 1 -- echo hello");
  expect(contexts()).toMatchObject({
    current: "local",
    contexts: { local: { url: firstUrl }, try: { url: secondUrl } },
  });
  expect((await typed("berth run --gpu 2 -- echo first")).screen).toContain("first\n");
  expect((await typed(next)).screen).toContain("hello\n");

  // A copy of the data is one of the server that is meant.
  expect((await typed("berth context use try")).exitCode).toBe(0);
  const wrong = await typed("berth backup copy.db");
  expect(wrong.exitCode).toBe(2);
  expect(wrong.screen).toMatch(/The context in use, try .* is not the server of the data in/);
  expect((await typed("berth backup --data-dir try copy.db")).exitCode).toBe(0);
  expect((await typed("berth context use local")).exitCode).toBe(0);
  expect((await typed("berth backup own.db")).exitCode).toBe(0);

  second.type("\u0003");
  expect(await second.exited).toBe(0);
  expect((await typed("berth ps")).exitCode).toBe(0);

  // Again later, on another port: the same context.
  const again = begin("berth up --data-dir try");
  const [, againName, againUrl] = await again.shows(READY);
  expect(againName).toBe("try");
  expect(contexts().contexts.try?.url).toBe(againUrl);
  again.type("\u0003");
  await again.exited;

  first.type("\u0003");
  await first.exited;
  expect(statSync(join(home, ".config/berth/contexts.json")).mode & 0o777).toBe(0o600);
});

test("`up` repairs the context of a running server, and a lost token is replaced, not doubled", {
  timeout: 240_000,
}, async () => {
  const { home, begin, typed, contexts } = createPerson();
  const first = begin("berth up --capacity gpu=2");
  await first.shows(READY);
  expect(statSync(join(home, ".local/share/berth/server.json")).mode & 0o777).toBe(0o600);
  const { token } = contexts().contexts.local as { token: string };
  expect((await typed("berth context delete local")).exitCode).toBe(0);
  expect((await typed("berth up")).screen).toMatch(/^Berth is running: \S+ \(pid \d+\), context local\.\n$/);
  expect(contexts()).toMatchObject({ current: "local", contexts: { local: { token } } });
  expect((await typed("berth up --capacity gpu=2")).exitCode).toBe(0);

  // Lost for good: the next start makes another token, and the old one ends.
  expect((await typed("berth context delete local")).exitCode).toBe(0);
  first.type("\u0003");
  await first.exited;
  const second = begin("berth up");
  await second.shows(READY);
  expect(contexts().contexts.local?.token).not.toBe(token);
  const tokens = await typed("berth token list --columns name,ends --no-headers");
  // Beside those of links to the dashboard, which end by themselves, and those of this machine as a node.
  const own = tokens.screen.replaceAll(/^(link|join|node) .*\n/gm, "");
  expect(own).toMatch(/^alice +revoked .* ago\nalice +never\n$/);
  expect(tokens.screen.match(/^node .*$/gm)).toEqual([expect.stringMatching(/ never$/)]); // It is known again without joining anew.
  second.type("\u0003");
  await second.exited;
});

test("a list that is watched counts on between two changes, and says when it was read", {
  timeout: 240_000,
}, async () => {
  const { begin } = createPerson();
  const up = begin("berth up --capacity gpu=2");
  await up.shows(READY);
  const run = begin("berth run --gpu 1 --name long -- sleep 600");
  await run.shows(/granted/);
  const watch = begin("berth ps --watch --columns name,ran");
  // Whatever it shows first, something else follows.
  await watch.shows(/long +(\S+)\nupdated \d\d:\d\d:\d\d\n[\s\S]*long +(?!\1\n)\S+\nupdated/);
  for (const terminal of [watch, run, up]) {
    terminal.type("\u0003");
    await terminal.exited;
  }
});
