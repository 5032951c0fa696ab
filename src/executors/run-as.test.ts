import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Account, choose, chooseDirectory, type RunAsPolicy, readPolicy } from "./run-as.ts";

const policy: RunAsPolicy = {
  components: {
    vision: { users: ["alice", "bob"], directories: ["/data"] },
    ops: { users: ["root", "toor", "ghost"], directories: ["/"] },
  },
};
const accounts: Record<string, Account> = {
  alice: { name: "alice", uid: 1000, gid: 1000, home: "/home/alice" },
  bob: { name: "bob", uid: 1001, gid: 1001, home: "/home/bob" },
  root: { name: "root", uid: 0, gid: 0, home: "/root" },
  toor: { name: "toor", uid: 0, gid: 7, home: "/root" },
};
const find = (name: string) => accounts[name];

const cases: Record<string, [component: string, user: string | undefined, want: string]> = {
  "the first user, if none is named": ["vision", undefined, "alice"],
  "one that is permitted": ["vision", "bob", "bob"],
  "one that is not": ["vision", "carol", "may not run as carol"],
  "a component without a rule": ["speech", undefined, "may not run on this node"],
  "a component named like something of JavaScript": ["constructor", undefined, "may not run on this node"],
  "root, though the file says so": ["ops", "root", "No job runs as root"],
  "another name of uid 0": ["ops", "toor", "No job runs as root"],
  "a user that the machine does not know": ["ops", "ghost", "no user ghost"],
};

for (const [name, [component, user, want]] of Object.entries(cases)) {
  test(`E6: ${name}`, () => {
    const attempt = () => choose(policy, { component, user, directory: undefined }, find);
    if (want in accounts) expect(attempt().name).toBe(want);
    else expect(attempt).toThrow(want);
  });
}

test("E6: the directory that is named, if permitted; else the home, if permitted; else the first that is", () => {
  const [home, data] = [join(directory, "home"), join(directory, "data")];
  for (const path of [home, data]) mkdirSync(path);
  symlinkSync(home, join(data, "link"));
  const rules = (...directories: string[]): RunAsPolicy => ({
    components: { vision: { users: ["alice"], directories } },
  });
  const chosen = (policy: RunAsPolicy, wanted?: string) =>
    chooseDirectory(policy, { component: "vision", directory: wanted }, home);
  expect(chosen(rules(data, home))).toBe(home);
  expect(chosen(rules(data))).toBe(data);
  expect(chosen(rules(data), join(data, "runs"))).toBe(join(data, "runs"));
  expect(chosen(rules("/"), home)).toBe(home);
  expect(() => chosen(rules(data), `${data}-other`)).toThrow(`only in ${data}`);
  expect(() => chosen(rules(data), join(data, "link"))).toThrow("may not run in");
});

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "berth-policy-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

test("E6: a policy that others can write counts for nothing", () => {
  const file = join(directory, "agent.yaml");
  expect(() => readPolicy(file)).toThrow("it may run nothing");
  writeFileSync(file, "components: { vision: { users: [alice], directories: [/data] } }\n");
  chmodSync(file, 0o600);
  // A file of somebody else is not root's: then nothing else matters.
  if (process.getuid?.() !== 0) return expect(() => readPolicy(file)).toThrow("only root can write");
  expect(readPolicy(file).components.vision?.users).toEqual(["alice"]);
  chmodSync(file, 0o666);
  expect(() => readPolicy(file)).toThrow("only root can write");
  chmodSync(file, 0o600);
  writeFileSync(file, "components: { vision: { users: [] } }\n");
  expect(() => readPolicy(file)).toThrow("not as it should be");
});
