// A new user's path: berth on the path by `npm link`, and two people with tokens of their own on one server.

import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { ERRORS } from "../../src/protocol/index.ts";
import { createUser } from "./cli-support.ts";
import { buildBerth, openWorld } from "./run-support.ts";
import { temporaryDirectory } from "./runner-support.ts";
import { openTerminal } from "./terminal-support.ts";

test.each(["before", "after"])("`npm link` %s the build puts berth on the path", async (when) => {
  const directory = temporaryDirectory();
  const prefix = temporaryDirectory();
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const { name, version, type, bin } = JSON.parse(readFileSync(`${root}package.json`, "utf8"));
  // Without the dependencies, which would be fetched: what counts here is the program that is linked.
  writeFileSync(join(directory, "package.json"), JSON.stringify({ name, version, type, bin }));
  copyFileSync(`${root}berth`, join(directory, "berth"));
  const build = async () => {
    mkdirSync(join(directory, "dist/cli"), { recursive: true });
    writeFileSync(
      join(directory, "dist/cli/berth.js"),
      `import ${JSON.stringify(pathToFileURL(await buildBerth()).href)};`,
    );
  };
  const link = () =>
    execFileSync("npm", ["link", "--offline", "--ignore-scripts", "--no-audit", "--no-fund"], {
      cwd: directory,
      env: { ...process.env, npm_config_prefix: prefix },
      stdio: "pipe",
    });
  const linked = () => spawnSync(join(prefix, "bin/berth"), ["--version"], { encoding: "utf8" });

  if (when === "after") await build();
  link();
  if (when === "before") {
    expect(linked()).toMatchObject({ status: 125, stderr: expect.stringContaining("not built yet") });
    await build();
  }
  expect(linked()).toMatchObject({ status: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+/) });
});

/** What a line shows that a person types in a terminal of their own. */
async function typed({ home }: { readonly home: string }, line: string): Promise<string> {
  const terminal = openTerminal(`exec '${process.execPath}' '${await buildBerth()}' ${line}`, {
    cwd: home,
    env: { HOME: home, USER: "alice" },
  });
  await terminal.exited;
  return terminal.screen();
}

test("two users with tokens of their own see each other in ps, and why names who holds what", {
  timeout: 240_000,
}, async () => {
  // Nobody holds the grant of a plain submission; here that is no matter for as long as the test may take.
  const world = await openWorld({ gpu: 1, settings: { lease_seconds: 7_200, renewal_seconds: 2_400 } });
  const admin = createUser({ BERTH_URL: world.url, BERTH_API_TOKEN: world.token });
  const users: (typeof admin)[] = [];
  for (const name of ["ann", "bob"]) {
    await world.client.policies.attach("lab", { component: `team-${name}` });
    const file = join(admin.home, `${name}.token`);
    await admin.berth(["token", "create", name, "--role", "user", "--for", `team-${name}`, "--out", file]);
    const person = createUser();
    const login = await person.berth(["login", world.url, "--token-file", file]);
    expect(login.stdout).toContain(`${name} (user, component team-${name})`);
    users.push(person);
  }
  const [ann, bob] = users as [typeof admin, typeof admin];
  const runs = (await ann.berth(["submit", "--gpu", "1", "--name", "of-ann", "-o", "name"])).stdout.trim();
  const waits = (await bob.berth(["submit", "--gpu", "1", "--name", "of-bob", "-o", "name"])).stdout.trim();
  for (const person of users) {
    const screen = await typed(person, "ps");
    expect(screen).toMatch(/of-ann +allocated +team-ann/);
    expect(screen).toMatch(/of-bob +queued +team-bob/);
  }
  expect(await typed(bob, `why ${waits}`)).toContain(`#${runs} of-ann (team-ann`);
  expect(await typed(ann, `why ${waits}`)).toContain(`#${waits} of-bob waits for 1 gpu in pool lab.`);
  // Seeing is not acting.
  expect((await bob.berth(["cancel", runs, "-y"])).exitCode).toBe(ERRORS.forbidden.exitCode);
  await world.close();
});
