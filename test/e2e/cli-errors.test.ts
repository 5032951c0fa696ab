// Every error of the reference that a command line can meet, with its code and its exit code, in words and as JSON.

import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ERRORS, type ErrorCode, toProblem } from "../../src/protocol/index.ts";
import { createUser, type Said } from "./cli-support.ts";
import { openWorld, type World } from "./run-support.ts";

let world: World;
let user: ReturnType<typeof createUser>;
/** Answers every call with the error that its path names: for what a healthy server does not do. */
let broken: Server;
let brokenUrl = "";
let viewer = "";
const at = (file: string) => join(user.home, "work", file);

beforeAll(async () => {
  world = await openWorld({ gpu: 2 });
  user = createUser({ BERTH_URL: world.url, BERTH_API_TOKEN: world.token, BERTH_COMPONENT: "research" });
  await world.client.requests.submit({ component: "research", resources: { gpu: 2 }, name: "running" });
  for (const name of ["twin-a", "twin-b"]) {
    await world.client.requests.submit({ component: "research", resources: { gpu: 1 }, name });
  }
  await world.client.targets.create({ name: "dead", kind: "webhook", url: "http://127.0.0.1:1/" });
  viewer = (await world.client.tokens.create({ name: "viewer", role: "viewer" })).secret ?? "";
  writeFileSync(at("broken.yaml"), "{");
  writeFileSync(at("binary.yaml"), Buffer.from([0xff, 0xfe, 0x00]));
  writeFileSync(at("large.yaml"), "#".repeat(2_000_000));
  writeFileSync(at("empty.yaml"), "script: 5\n");
  writeFileSync(at("fails.yaml"), "name: fails\nscript: [{finish: a}]\n");
  broken = createServer((request, response) => {
    const code = /^\/(\w+)\//.exec(request.url ?? "")?.[1] as ErrorCode;
    response.writeHead(ERRORS[code].httpStatus, { "content-type": "application/problem+json" });
    response.end(JSON.stringify(toProblem(code, `Told to say ${code}.`)));
  });
  await new Promise<void>((resolve) => broken.listen(0, "127.0.0.1", resolve));
  brokenUrl = `http://127.0.0.1:${(broken.address() as AddressInfo).port}`;
});
afterAll(async () => {
  broken.close();
  await world.close();
});

/** Command lines that meet an error; those of the file system and of broken servers are functions. */
const met: Partial<Record<ErrorCode, () => readonly string[]>> = {
  name_taken: () => ["pool", "create", "lab", "--capacity", "gpu=1"],
  policy_exists: () => ["policy", "attach", "lab", "research"],
  empty_capacity: () => ["pool", "create", "nothing", "--capacity", "{}"],
  invalid_amount: () => ["pool", "create", "half", "--capacity", "gpu=0.5"],
  unknown_key: () => ["policy", "attach", "lab", "x", "--reserved", "tpu=1"],
  reserved_over_limit: () => ["policy", "attach", "lab", "x", "--reserved", "gpu=2", "--limit", "gpu=1"],
  reserved_over_capacity: () => ["policy", "attach", "lab", "x", "--reserved", "gpu=3"],
  in_use: () => ["pool", "delete", "lab", "-y"],
  not_found: () => ["show", "99"],
  invalid_class: () => ["submit", "--class", "11", "--gpu", "1"],
  invalid_request: () => ["pool", "create", "Not A Name", "--capacity", "gpu=1"],
  no_policy: () => ["submit", "--component", "nobody", "--gpu", "1"],
  over_capacity: () => ["submit", "--gpu", "3"],
  over_limit: () => ["submit", "--component", "bounded", "--gpu", "2"],
  over_reserved: () => ["submit", "--gpu", "1", "--no-preempt"],
  ambiguous: () => ["show", "twin"],
  idempotency_conflict: () => ["submit", "--gpu", "1", "--idempotency-key", "used"],
  unauthenticated: () => ["ps", "--url", world.url],
  forbidden: () => ["pool", "create", "mine", "--capacity", "gpu=1"],
  unavailable: () => ["ps", "--url", "http://127.0.0.1:1"],
  target_not_allowed: () => ["notify", "add", "webhook", "--name", "inside", "--url", "https://10.0.0.1/"],
  not_delivered: () => ["notify", "test", "dead"],
  cancelled: () => ["cancel", "running"],
  wait_timeout: () => ["submit", "--gpu", "2", "--wait", "--wait-timeout", "1s"],
  usage: () => ["ps", "--limit", "many"],
  file_not_found: () => ["apply", "-f", at("none.yaml")],
  file_unreadable: () => ["apply", "-f", at("binary.yaml")],
  file_too_large: () => ["apply", "-f", at("large.yaml")],
  invalid_syntax: () => ["apply", "-f", at("broken.yaml")],
  invalid_scenario: () => ["scenario", "run", at("empty.yaml")],
  scenario_failed: () => ["scenario", "run", at("fails.yaml")],
};

/** Met by those who hold grants: the tests that have them. */
const metByHolders: Partial<Record<ErrorCode, string>> = {
  no_executor: "cli-jobs.test.ts",
  node_silent: "cli-jobs.test.ts",
  plan_outdated: "server-plans.test.ts",
  plan_too_large: "../../src/foresight/foresight.test.ts",
  foresight_unavailable: "../../src/foresight/foresight.test.ts",
  foresight_busy: "../../src/foresight/foresight.test.ts",
  walltime_over: "run.test.ts",
  holder_lost: "run-outage.test.ts",
  preempted: "run-preemption.test.ts",
  stale_token: "run-outage.test.ts",
};
/** A healthy server says these to other callers only, or not at all. */
const onlyTold: readonly ErrorCode[] = [
  "engine_error",
  "malformed_body",
  "body_too_large",
  "unsupported_media_type",
  "method_not_allowed",
  "url_too_long",
  "headers_too_large",
  "request_timeout",
  "host_not_allowed",
  "precondition_failed",
  "rate_limited",
  "cursor_expired",
  "disk_full",
  "queue_full",
  "timeout",
  "internal_error",
  // Servers that share a database say these.
  "behind",
  "mixed_versions",
  "no_leader",
  "not_leader",
  "outcome_unknown",
];

async function provoke(code: ErrorCode, ...more: string[]): Promise<Said> {
  const args = [...(met[code]?.() ?? []), ...more];
  if (code === "over_limit") await world.client.policies.put("lab", "bounded", { limit: { gpu: 1 } });
  if (code === "idempotency_conflict") {
    await user.berth(["submit", "--gpu", "2", "--name", "other", "--idempotency-key", "used"]);
  }
  const tokens: Partial<Record<ErrorCode, string>> = { unauthenticated: "berth_nobody", forbidden: viewer };
  const env = code in tokens ? { BERTH_API_TOKEN: tokens[code] } : {};
  return user.berth(args, { env, ...(code === "cancelled" && { ask: async () => "no" }) });
}

describe("in words, with code and exit code", () => {
  test.each(Object.keys(met) as ErrorCode[])("%s", async (code) => {
    const { exitCode, stderr, stdout } = await provoke(code);
    const isRejection = code in { no_policy: 0, over_capacity: 0, over_limit: 0, over_reserved: 0 };
    expect({ code, exitCode }).toEqual({ code, exitCode: ERRORS[code].exitCode });
    if (code === "scenario_failed") expect(stdout).toContain("FAIL");
    else expect(stderr).toContain(`[${code}]`);
    if (isRejection) expect(stdout).toContain("is rejected");
  });
});

describe("as problem+json on stderr with -o json", () => {
  const ownForm = new Set([
    "invalid_scenario",
    "scenario_failed",
    "file_not_found",
    "file_unreadable",
    "file_too_large",
    "invalid_syntax",
  ]);
  test.each((Object.keys(met) as ErrorCode[]).filter((code) => !ownForm.has(code)))("%s", async (code) => {
    const { exitCode, stderr } = await provoke(code, "-o", "json");
    expect(exitCode).toBe(ERRORS[code].exitCode);
    const problem = code === "cancelled" ? (stderr.split("\n").at(-2) ?? "") : stderr;
    expect(JSON.parse(problem)).toMatchObject({
      code,
      status: ERRORS[code].httpStatus,
      title: ERRORS[code].description,
    });
  });
});

describe("whatever a server says is passed on", () => {
  test.each(Object.keys(ERRORS) as ErrorCode[])("%s", async (code) => {
    const env = { BERTH_URL: `${brokenUrl}/${code}` };
    const { exitCode, stderr } = await user.berth(["pool", "create", "x", "--capacity", "gpu=1"], { env });
    expect({ exitCode, stderr }).toEqual({
      exitCode: ERRORS[code].exitCode,
      stderr: `berth: Told to say ${code}. [${code}]\n`,
    });
  });
});

describe("a rejection ends with 69, whatever the reason", () => {
  const rejections: Partial<Record<ErrorCode, string[]>> = {
    over_capacity: ["--gpu", "3"],
    unknown_key: ["--gpu", "1", "-r", "tensorrt_sessions=1"],
  };
  test.each(Object.entries(rejections))("%s", async (code, resources) => {
    const { exitCode, stderr } = await user.berth(["submit", ...resources]);
    expect({ exitCode, stderr }).toEqual({
      exitCode: 69,
      stderr: expect.stringContaining(`[${code}]`) as string,
    });
  });
});

describe("a slip in the command line is told like every other error", () => {
  const slips: Record<string, { args: string[]; says: string }> = {
    "a command": { args: ["pol", "list"], says: "Unknown command 'pol'. [usage]\nDid you mean pool?" },
    "a sub-command": { args: ["pool", "shwo"], says: "Unknown command 'shwo'. [usage]\nDid you mean show?" },
    "an option": { args: ["ps", "--al"], says: "Unknown option '--al'. [usage]\nDid you mean --all?" },
    "a missing argument": {
      args: ["why"],
      says: "Missing required argument 'request'. [usage]\nAdd --help to see what there is.",
    },
    "too much": {
      args: ["ps", "all"],
      says: "Too many arguments for 'ps'. Expected 0 arguments but got 1. [usage]\nAdd --help to see what there is.",
    },
  };
  for (const [name, { args, says }] of Object.entries(slips)) {
    test(name, async () => {
      expect(await user.berth(args)).toEqual({ exitCode: 2, stdout: "", stderr: `berth: ${says}\n` });
      const { stderr } = await user.berth([...args, "-o", "json"]);
      const [detail, hint] = says.split(/ \[usage\]\n/);
      expect(JSON.parse(stderr)).toMatchObject({ code: "usage", detail, hint });
    });
  }
});

test("these are all the errors of the reference", () => {
  const covered = [...Object.keys(met), ...Object.keys(metByHolders), ...onlyTold];
  expect(covered.toSorted()).toEqual(Object.keys(ERRORS).toSorted());
  const reference = readFileSync(new URL("../../docs/reference/errors.md", import.meta.url), "utf8");
  for (const code of covered) expect(reference).toContain(`| \`${code}\` |`);
  for (const [code, file] of Object.entries(metByHolders)) {
    expect(readFileSync(new URL(file, import.meta.url), "utf8")).toContain(code);
  }
});
