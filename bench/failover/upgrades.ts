// Servers of two versions on one database: upgraded one after the other under load, taken back, and upgraded again until
// the new form of events is written (C12).

import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import pg from "pg";
import type { Fault } from "../proving/canaries.ts";
import { bundleFrom } from "../proving/start.ts";
import type { Replica } from "./cluster.ts";
import { handOver, type Outcome, type Scene, sound } from "./faults.ts";

/** From one version to the next, which brings a form of events that the other cannot read. */
export interface Upgrade {
  readonly from: string;
  readonly to: string;
  readonly newForm: number;
  readonly databaseUrl: string;
  /** Whether the version that is left takes a store that the next one has brought up to date. */
  readonly canGoBack: boolean;
  /** Whether the new form is the one that members of arrays need. */
  readonly bringsArrays: boolean;
}

/** The version before this one: it reads and writes the first form of events only. */
export const VERSION_BEFORE: readonly Fault[] = [
  {
    what: "the version before",
    file: "src/leader/event-forms.ts",
    text: "  AS_IT_IS, // Says more: jobs, dependencies, agents, and a long fixed point that was cut.\n",
    instead: "",
  },
  {
    what: "knows no jobs",
    file: "src/leader/batch.ts",
    text: "form < NEWEST_FORM && !canBeSaid",
    instead: "!canBeSaid",
  },
];

/** The version after this one, with a form of events that is made up. The judge knows it, too. */
export const VERSION_AFTER: Fault = {
  what: "the version after",
  file: "src/leader/event-forms.ts",
  text: "  AS_IT_IS, // Says more: jobs, dependencies, agents, and a long fixed point that was cut.\n",
  instead: `AS_IT_IS,
    { write: (event) => ({ kind: "wrapped", inner: event }), read: (stored) => stored.inner as Event },`,
};

/** The server under proof with the source of another commit. */
export async function bundleAt(commit: string): Promise<string> {
  const root = fileURLToPath(new URL("../../", import.meta.url));
  const directory = mkdtempSync(join(tmpdir(), "berth-before-"));
  try {
    const archive = execFileSync("git", ["archive", commit, "src", "package.json", "tsconfig.json"], {
      cwd: root,
      maxBuffer: 2 ** 28,
    });
    execFileSync("tar", ["-x", "-C", directory], { input: archive });
    cpSync(join(root, "bench/failover/server.ts"), join(directory, "bench/failover/server.ts"));
    symlinkSync(join(root, "node_modules"), join(directory, "node_modules"));
    return await bundleFrom(`${directory}/`, "failover/server");
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

let members = 0;

/** Old and new servers together for so long. */
const MIXED_MS = 4_000;
/** A new form is written when all servers of the last minute can read it. */
const MINUTE_MS = 60_000;
const PATIENCE_MS = 60_000;

/** Followers first, then the leader; and back, as long as nothing is written that the old version cannot read. */
export async function upAndBack(scene: Scene, upgrade: Upgrade): Promise<Outcome> {
  const fromMs = performance.now();
  const problems = await replaceAll(scene, upgrade.to, () => wrongWhileMixed(scene, upgrade));
  await delay(MIXED_MS);
  problems.push(...(await wrongWhileMixed(scene, upgrade)));
  problems.push(...(await replaceAll(scene, upgrade.from, async () => [])));
  await sound(scene);
  return { recoveredMs: longestGapMs(scene, fromMs), problems: [...problems, ...(await early(upgrade))] };
}

/** Upgraded for good: the new form is written, and the old version does not begin. */
export async function up(scene: Scene, upgrade: Upgrade): Promise<Outcome> {
  const fromMs = performance.now();
  const problems = await replaceAll(scene, upgrade.to, () => wrongWhileMixed(scene, upgrade));
  problems.push(...(await early(upgrade)));
  await delay(MINUTE_MS);
  const untilMs = performance.now() + PATIENCE_MS;
  while (performance.now() < untilMs && (await written(upgrade)) === 0) await delay(500);
  if ((await written(upgrade)) === 0) problems.push("the new form was never written");
  const gapMs = longestGapMs(scene, fromMs);
  const { leader } = await sound(scene);
  if (upgrade.bringsArrays) {
    const { status, body } = await submitMember(scene, leader);
    if (status !== 201)
      problems.push(`a member of an array was answered with ${status} ${String(body?.code)}`);
  }
  const [follower] = scene.cluster.replicas.filter((replica) => replica !== leader);
  await follower!.end("SIGTERM");
  const hasBegun = await follower!.start(upgrade.from).then(
    () => true,
    () => false, // It says what it cannot read, and ends.
  );
  if (hasBegun) problems.push("the old version begins on events that it cannot read");
  await follower!.end("SIGKILL");
  await follower!.start(upgrade.to);
  await sound(scene);
  return { recoveredMs: gapMs, problems };
}

/** The followers first; then the leader hands over, follows one of the other version for a while, and is replaced. */
async function replaceAll(
  scene: Scene,
  program: string,
  wrongWhileMixed: () => Promise<readonly string[]>,
): Promise<string[]> {
  const { leader } = await sound(scene);
  const problems: string[] = [];
  const replace = async (replica: Replica) => {
    await replica.end("SIGTERM");
    await replica.start(program);
    await delay(MIXED_MS / 2);
    await sound(scene);
  };
  for (const replica of scene.cluster.replicas) if (replica !== leader) await replace(replica);
  problems.push(...(await handOver(scene)).problems);
  problems.push(...(await wrongWhileMixed()));
  await delay(MIXED_MS);
  await replace(leader);
  return problems;
}

/** While an old server runs, or may come back, what only the new form can say is refused. */
async function wrongWhileMixed(scene: Scene, upgrade: Upgrade): Promise<string[]> {
  const { leader } = await sound(scene);
  const problems = await early(upgrade);
  if (!upgrade.bringsArrays) return problems;
  const { status, body } = await submitMember(scene, leader);
  if (status === 409 && body?.code === "mixed_versions") return problems;
  return [
    ...problems,
    `a member of an array was answered with ${status} ${String(body?.code)} while versions were mixed`,
  ];
}

/** The member of an array, which servers of the version before do not know. */
async function submitMember({ call }: Scene, leader: Replica) {
  const body = {
    ...{ component: "wide", resources: { slot: 1 }, requeue: "never" },
    ...{ operation: "upgrade", array: { index: members++ } },
  };
  return call(leader, "POST", "/v1/resource-requests", { body, timeoutMs: 10_000 });
}

/** The longest time without an acknowledged write. */
function longestGapMs({ load }: Scene, fromMs: number): number {
  const acknowledgedMs = load.history.submissions
    .flatMap(({ told }) => (told !== undefined && told.receivedMs >= fromMs ? [told.receivedMs] : []))
    .toSorted((a, b) => a - b);
  return Math.max(...acknowledgedMs.map((atMs, index) => atMs - (acknowledgedMs[index - 1] ?? fromMs)));
}

async function early(upgrade: Upgrade): Promise<string[]> {
  const count = await written(upgrade);
  return count === 0
    ? []
    : [`${count} commits had form ${upgrade.newForm} while old servers might come back`];
}

/** Commits with the new form, as plain SQL counts them. */
async function written({ databaseUrl, newForm }: Upgrade): Promise<number> {
  const client = new pg.Client({ connectionString: databaseUrl, query_timeout: PATIENCE_MS });
  await client.connect();
  try {
    const { rows } = await client.query(
      "select count(*)::int as written from berth.journal where events like $1",
      [`%"v":${newForm}%`],
    );
    return rows[0].written;
  } finally {
    await client.end();
  }
}
