// The wrapper of a job dies without warning. Nothing of the job may outlive it, and its grant is released after
// that, by the guardian, which nobody can read the token from.

import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { JobOptions } from "../../src/runner/index.ts";
import {
  buildWrapper,
  environment,
  escapingFamily,
  familyOf,
  levels,
  processesNaming,
  readOrEmpty,
  runWrapper,
  start,
  temporaryDirectory,
  uniqueSeconds,
  until,
} from "./runner-support.ts";

const RUNS = 50;
const SECRET = "token-that-nobody-may-see";

interface Release {
  path: string;
  authorization: string | undefined;
  body: string;
  survivors: number[];
}

let wrapper = "";
const releases = new Map<string, Release[]>();
/** Answers by path: how often a release is turned away before it is taken. */
const turnedAway = new Map<string, number>();
const server = createServer((request, response) => {
  const path = request.url ?? "";
  const left = turnedAway.get(path) ?? 0;
  turnedAway.set(path, left - 1);
  void readBody(request).then((body) => {
    const release = {
      path,
      authorization: request.headers.authorization,
      body,
      survivors: processesNaming(path.slice(1)),
    };
    releases.set(path, [...(releases.get(path) ?? []), release]);
    response.writeHead(left > 0 ? 503 : 200).end();
  });
});

beforeAll(async () => {
  wrapper = await buildWrapper();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterAll(() => void server.close());

describe("after kill -9 of the wrapper", () => {
  const turns = Array.from({ length: RUNS }, (_, index) => index);
  test.concurrent.each(turns)("run %i leaves no survivor and releases once", async (turn) => {
    const containment = levels[turn % levels.length] ?? "sweep";
    const { child, seconds } = await startFamily({ containment });
    child.kill("SIGKILL");
    const [release] = await until("the grant is released", () => releases.get(`/${seconds}`));
    expect(release).toEqual({
      path: `/${seconds}`,
      authorization: `Bearer ${SECRET}`,
      body: '{"outcome":"stopped"}',
      survivors: [],
    });
    expect(processesNaming(seconds)).toEqual([]);
    await until("the guardian has gone", () => guardiansOf(child.pid).length === 0);
    expect(releases.get(`/${seconds}`)).toHaveLength(1);
  });

  test.each(levels)(
    "a frozen family that ignores SIGTERM does not survive at level %s",
    async (containment) => {
      const { child, seconds, output } = await startFamily({ containment }, 'trap "" TERM HUP INT');
      await until("the wrapper is ready", () => output().includes("running"));
      child.kill("SIGWINCH");
      await until("the family is frozen", () => output().includes("frozen"));
      child.kill("SIGKILL");
      await until("it is released", () => releases.get(`/${seconds}`));
      expect(processesNaming(seconds)).toEqual([]);
    },
  );

  test("the guardian tries again, and other servers, until the release is taken", async () => {
    const { child, seconds } = await startFamily({}, "", ["http://127.0.0.1:9/nobody-listens"]);
    turnedAway.set(`/${seconds}`, 2);
    child.kill("SIGKILL");
    await until("two refusals and one success", () => releases.get(`/${seconds}`)?.length === 3);
    await until("the guardian has gone", () => guardiansOf(child.pid).length === 0);
    expect(releases.get(`/${seconds}`)).toHaveLength(3);
  });

  test("temporary files go, too", async () => {
    const { child, seconds, pids } = await startFamily({});
    const environ = readOrEmpty(`/proc/${pids[0]}/environ`).split("\0");
    const socket = environ.find((entry) => entry.startsWith("BERTH_SOCKET="))?.slice(13) ?? "";
    expect(readOrEmpty("/proc/net/unix")).toContain(socket);
    child.kill("SIGKILL");
    await until("it is released", () => releases.get(`/${seconds}`));
    expect(() => process.chdir(join(socket, ".."))).toThrow("ENOENT");
  });
});

test("the guardian survives the end of the wrapper's whole process group", async () => {
  const { child, seconds } = await startFamily({});
  expect(child.pid).toBeGreaterThan(1);
  process.kill(-(child.pid ?? Number.NaN), "SIGKILL");
  await until("it is released", () => releases.get(`/${seconds}`));
  expect(processesNaming(seconds)).toEqual([]);
});

test("a killed guardian is replaced, and the new one keeps the promise", async () => {
  const { child, seconds, output } = await startFamily({});
  await until("the wrapper is ready", () => output().includes("running"));
  const first = await until("there is a guardian", () => guardiansOf(child.pid)[0]);
  process.kill(first, "SIGKILL");
  await until("there is another", () => guardiansOf(child.pid).some((pid) => pid !== first));
  // A wrapper that answers again has sent the new one its instructions.
  child.kill("SIGWINCH");
  await until("the wrapper answers", () => output().includes("frozen"));
  child.kill("SIGKILL");
  await until("it is released", () => releases.get(`/${seconds}`));
  expect(processesNaming(seconds)).toEqual([]);
});

test("a tree that cannot be killed keeps its units until it has gone, and somebody is told", async () => {
  // What the kernel shows of a control group whose processes cannot die.
  const directory = temporaryDirectory();
  const show = (populated: number) =>
    writeFileSync(join(directory, "cgroup.events"), `populated ${populated}\n`);
  for (const name of ["cgroup.procs", "cgroup.kill"]) writeFileSync(join(directory, name), "");
  show(1);
  const name = uniqueSeconds();
  const { port } = server.address() as AddressInfo;
  const call = (what: string) => ({
    urls: [`http://127.0.0.1:${port}/${name}`],
    method: "POST",
    headers: {},
    body: what,
  });
  const charge = {
    plan: { level: "cgroup", directory },
    stuckAfterMs: 50,
    hook: {
      calls: [call("release")],
      stuck: { alert: call("alert"), renewal: call("renewal"), everyMs: 20 },
    },
  };
  const guardian = spawn(process.execPath, [join(wrapper, "..", "guardian.js")], {
    stdio: ["pipe", "ignore", "inherit"],
  });
  guardian.stdin.end(JSON.stringify(charge));
  const said = () => (releases.get(`/${name}`) ?? []).map(({ body }) => body);
  await until("it has renewed", () => said().length > 3);
  expect(said().slice(0, 3)).toEqual(["alert", "renewal", "renewal"]);
  expect(said()).not.toContain("release");
  show(0);
  await until("it has given the units back", () => said().includes("release"));
});

test("the token is neither on a command line nor in an environment", async () => {
  const { child, seconds } = await startFamily({});
  const guardian = await until("there is a guardian", () => guardiansOf(child.pid)[0]);
  const pids = [child.pid, guardian];
  for (const pid of pids) {
    expect(readOrEmpty(`/proc/${pid}/cmdline`)).not.toContain(SECRET);
    expect(readOrEmpty(`/proc/${pid}/environ`)).not.toContain(SECRET);
    expect(readOrEmpty(`/proc/${pid}/cmdline`)).not.toBe("");
  }
  child.kill("SIGKILL");
  await until("it is released", () => releases.get(`/${seconds}`));
});

test.each(levels)("a job within a job ends with the outer one at level %s", async (containment) => {
  const seconds = uniqueSeconds();
  const inner = optionsFile({ command: escapingFamily(seconds), containment }, `inner-${seconds}`);
  const { job } = await start({ command: [process.execPath, wrapper, inner], containment });
  await familyOf(seconds);
  expect(await job.kill()).toEqual({ kind: "gone" });
  await until("nothing of the inner job is left", () => processesNaming(seconds).length === 0);
  await job.gone;
  job.close();
});

test("a wrapper that ends in order dismisses its guardian, and nothing is released behind its back", async () => {
  const seconds = uniqueSeconds();
  const { child, exited } = runWrapper(wrapper, optionsFile({ command: ["sh", "-c", "exit 3"] }, seconds));
  expect(await exited).toEqual({ code: 3, signal: null });
  await until("the guardian has gone", () => guardiansOf(child.pid).length === 0);
  expect(releases.get(`/${seconds}`)).toBeUndefined();
});

test("a wrapper that gets SIGTERM forwards it and returns what the job returns", async () => {
  const seconds = uniqueSeconds();
  const command = escapingFamily(seconds, 'trap "exit 9" TERM');
  const { child, exited } = runWrapper(wrapper, optionsFile({ command }, seconds));
  await familyOf(seconds);
  child.kill("SIGTERM");
  expect(await exited).toEqual({ code: 9, signal: null });
  expect(processesNaming(seconds)).toEqual([]);
});

async function startFamily(options: Partial<JobOptions>, trap = "", moreUrls: string[] = []) {
  const seconds = uniqueSeconds();
  const file = optionsFile({ command: escapingFamily(seconds, trap), ...options }, seconds, moreUrls);
  const { child, output } = runWrapper(wrapper, file);
  return { child, output, seconds, pids: await familyOf(seconds) };
}

/** In a file rather than on the command line, where the token would be seen. */
function optionsFile(options: Partial<JobOptions>, name: string, moreUrls: string[] = []): string {
  const { port } = server.address() as AddressInfo;
  const file = join(temporaryDirectory(), "options.json");
  const release = {
    urls: [...moreUrls, `http://127.0.0.1:${port}/${name}`],
    method: "POST",
    headers: { authorization: `Bearer ${SECRET}`, "content-type": "application/json" },
    body: '{"outcome":"stopped"}',
  };
  const releaseHook = { calls: [release] };
  writeFileSync(file, JSON.stringify({ env: environment, graceMs: 20_000, releaseHook, ...options }));
  return file;
}

const guardians = new Map<number, number[]>();

/** Also after the wrapper's death, when the guardian is nobody's child any more. */
function guardiansOf(wrapperPid = 0): number[] {
  const now = processesNaming(join(wrapper, "..", "guardian.js"));
  const children = now.filter((pid) =>
    readOrEmpty(`/proc/${pid}/status`).includes(`\nPPid:\t${wrapperPid}\n`),
  );
  const known = new Set([...(guardians.get(wrapperPid) ?? []), ...children]);
  guardians.set(wrapperPid, [...known]);
  return now.filter((pid) => known.has(pid));
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
