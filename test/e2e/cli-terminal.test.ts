// The first five minutes in real terminals.

import { statSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { buildBerth } from "./run-support.ts";
import { temporaryDirectory } from "./runner-support.ts";
import { openTerminal, type Terminal } from "./terminal-support.ts";

let berth = "";
const home = temporaryDirectory();

beforeAll(async () => {
  berth = await buildBerth();
});

interface Around {
  readonly env?: Readonly<Record<string, string>>;
  readonly columns?: number;
}

function begin(line: string, { env = {}, ...around }: Around = {}): Terminal {
  const words = line.replaceAll("berth ", `'${process.execPath}' '${berth}' `);
  // A shell that waits for one command only steps aside, so that keys and exit codes are the command's own.
  return openTerminal(/[|;]/.test(line) ? words : `exec ${words}`, {
    cwd: home,
    env: { HOME: home, USER: "alice", BERTH_LISTEN: "127.0.0.1:0", ...env },
    ...around,
  });
}

async function typed(line: string, around?: Around) {
  const terminal = begin(line, around);
  const exitCode = await terminal.exited;
  return { exitCode, screen: terminal.screen() };
}

test("the first five minutes happen as they are printed", { timeout: 240_000 }, async () => {
  const up = begin("berth up --capacity gpu=2");
  const [, port] = await up.shows(/127\.0\.0\.1:(\d+)[\s\S]*Next:/);
  const url = `http://127.0.0.1:${port}`;
  expect(
    up.screen().replace(/#once=[\w-]{22}\n/, "#once=LINK\n"),
  ).toBe(`✓ store      ~/.local/share/berth/berth.db
✓ pool       local   gpu 2
✓ context    local → ${url}   (token saved, mode 0600)
  dashboard  ${url}/#once=LINK
  reference  ${url}/docs
Next:  berth run --gpu 1 -- echo hello
`);
  expect(statSync(join(home, ".config/berth/contexts.json")).mode & 0o777).toBe(0o600);

  // Again, while it runs.
  expect(await typed("berth up")).toMatchObject({
    exitCode: 0,
    screen: expect.stringMatching(
      /^Berth is running: http:\/\/127\.0\.0\.1:\d+ \(pid \d+\), context local\.\n$/,
    ) as string,
  });
  const other = await typed("berth up --capacity gpu=4");
  expect(other.exitCode).toBe(5);
  expect(other.screen).toContain(`To change it: berth node update ${hostname()} --capacity gpu=4`);
  const busy = await typed(`berth up --port ${port} --data-dir '${join(home, "other")}'`);
  expect(busy.exitCode).toBe(125);
  expect(busy.screen).toContain("--port");

  expect(await typed("berth run --gpu 1 -- echo hello")).toEqual({
    exitCode: 0,
    screen: expect.stringMatching(/^granted {2}#1 · gpu 1 · waited \d+ s\nhello\n$/) as string,
  });

  // The first aha: the second one waits, says why and for whom, and then starts.
  const train = begin("berth run --gpu 2 --name train -- sh -c 'echo ready && exec sleep 600'");
  await train.shows(/^granted {2}#2 train · gpu 2 · waited \d+ s\n/);
  const evaluation = begin("berth run --gpu 1 -- echo evaluated");
  await evaluation.shows(/waiting {2}#3 · needs gpu 1, free 0 · held by #2 train \(you\) · first in line/);
  const why = await typed("berth why 3", { columns: 200 });
  expect(why.screen).toMatch(
    /^#3 waits for 1 gpu in pool local\.\n {2}in use +2 of 2 gpu by #2 train \(preemptible, [^)]+\)\n {2}preempts +nobody can be stopped for it: #2 train has priority 0, which is not lower, and alice has nothing reserved and unused \(8\.1\)\n {2}starts +when enough units are free; no time can be given: #2 train has no walltime\n {2}now if +[^\n]*#2 train ended \(wait for it\)[^\n]*\n$/,
  );

  // The second: a preemption one can watch. What was stopped comes back before those who asked later.
  const urgent = await typed("berth run --component urgent --gpu 2 -- echo now");
  expect(urgent.exitCode).toBe(0);
  expect(urgent.screen).toMatch(/granted {2}#4 · gpu 2 · waited \d+ s\nnow\n$/);
  await train.shows(/granted {2}#2 train · gpu 2 · waited \d+ s · attempt 2.*\nready/);

  // Ctrl-C is forwarded to what runs; then the one that waited starts.
  train.type("\u0003");
  expect(await train.exited).toBe(130);
  await evaluation.shows(/granted {2}#3 · gpu 1 · waited \d+ s\nevaluated\n/);
  expect(await evaluation.exited).toBe(0);

  // Lists fit, also on a narrow terminal, and are coloured unless the user does not want that.
  const coloured = begin("berth ps --all");
  await coloured.exited;
  expect(coloured.raw()).toContain("\u001b[32mreleased\u001b[39m");
  const plain = begin("berth ps --all", { env: { NO_COLOR: "1" } });
  await plain.exited;
  expect(plain.raw()).not.toContain("\u001b[");
  const narrow = await typed("berth ps --all -o wide", { columns: 40 });
  for (const line of narrow.screen.split("\n")) expect([...line].length).toBeLessThanOrEqual(40);
  const ascii = await typed("berth why 2", { env: { LANG: "C", LC_ALL: "C" } });
  expect(ascii.screen).toMatch(/^[\x20-\x7e\n]+$/);

  // Questions are asked at a terminal, and Ctrl-C says no.
  const held = begin("berth run --gpu 2 --name held -- sleep 600");
  await held.shows(/granted/);
  for (const keys of ["n\n", "\u0003"]) {
    const question = begin("berth cancel held");
    await question.shows(
      /Cancel #5 held\?\n {2}#5 held is stopped; gpu 2 of pool local come free when it has ended\nGo on\? \[y\/N\]/,
    );
    question.type(keys);
    expect(await question.exited).toBe(71);
  }
  const yes = begin("berth cancel held");
  await yes.shows(/Go on\?/);
  yes.type("y\n");
  expect(await yes.exited).toBe(0);
  expect(await held.exited).toBe(71);

  // Nothing is started by a submission without a command, and that is said.
  expect((await typed("berth submit --gpu 1 --name bare", { columns: 200 })).screen).toMatch(
    /^#6 bare is allocated\.\nNothing was started: the grant ends in (5m|4m5\ds) unless a program renews it\. To have a command started, put it after `--`\.\n$/,
  );
  expect((await typed("berth submit --gpu 2 --name later", { columns: 200 })).screen).toContain(
    "Nothing will be started: a program has to hold the grant.",
  );
  expect((await typed("berth cancel bare later -y")).exitCode).toBe(0);

  // Watching redraws, until Ctrl-C.
  const watch = begin("berth ps --all --watch");
  await watch.shows(/held/);
  watch.type("\u0003");
  expect(await watch.exited).not.toBe(0);

  up.type("\u0003");
  expect(await up.exited).toBe(0);
  expect(up.screen()).toContain("Stopping.");
  expect((await typed("berth ps")).exitCode).toBe(125);
});

test("in the background it serves until it is told to stop, and finds its data again", {
  timeout: 240_000,
}, async () => {
  const first = await typed("berth up --capacity gpu=2 --detach");
  expect(first.exitCode).toBe(0);
  expect(first.screen).toMatch(
    /✓ pool {7}local {3}gpu 2\n[\s\S]*Next:[\s\S]*In the background, pid \d+; `berth down` stops it/,
  );
  expect((await typed("berth ps --all --columns name,status --no-headers")).screen).toContain("held");
  const piped = await typed("berth ps --all -o jsonl | head -1 | cut -c1-5");
  expect(piped).toEqual({ exitCode: 0, screen: '{"id"\n' });
  // A program whose output is closed notices it with the next event.
  const events = begin("berth events --after 0 | head -1");
  let isOver = false;
  void events.exited.then(() => {
    isOver = true;
  });
  while (!isOver) await typed("berth submit --gpu 1");
  expect(events.screen()).toMatch(/^AT +EVENT.*\n$/);
  expect((await typed("berth down")).screen).toMatch(/^Stopped http:\/\/127\.0\.0\.1:\d+ \(pid \d+\)\.\n$/);
  expect((await typed("berth down")).screen).toBe("Berth is not running.\n");
});

test("a team's server makes nothing but its first token", async () => {
  const serve = begin("berth serve --data-dir team 2>/dev/null");
  const [, url = "", secret = ""] = await serve.shows(
    /listening {2}(\S+)\n✓ token {6}(berth_\S+)[\s\S]*Next: {2}berth login/,
  );
  const login = begin(`berth login ${url} --name team`);
  await login.shows(/Token \(not shown\): /);
  login.type(`${secret}\n`);
  expect(await login.exited).toBe(0);
  expect(login.screen()).not.toContain(secret);
  expect((await typed("berth pool list")).screen).toBe("Nothing to show.\n");
  serve.type("\u0003");
  expect(await serve.exited).toBe(0);
});
