// What a failing disk does to the embedded store: full, with write errors, with a flipped byte in the file. Nothing may
// be acknowledged that is not there, nothing that was acknowledged may be lost, and the message must be clear.
// Usage: npm run prove:disk -- [SEED] [--canaries]. Needs unshare, mount and strace, but no privileges.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, open, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { DatabaseSync } from "@photostructure/sqlite";
import { createState, type Event, evolve } from "../src/engine/index.ts";
import { type Clock, startLeader, stateHash } from "../src/leader/index.ts";
import {
  type AuditRecord,
  isStoreError,
  type JournalEvent,
  openSqliteStore,
  type RequestRecord,
} from "../src/store/index.ts";
import { type Fault, tell } from "./proving/canaries.ts";
import { type Acknowledged, type Clients, startClients } from "./proving/clients.ts";
import { judge, type Verdict } from "./proving/judge.ts";
import { Finding, within } from "./proving/limits.ts";
import type { Operation, Server, Told } from "./proving/operations.ts";
import { seededRandom } from "./proving/random.ts";
import { bundle, childStarter } from "./proving/start.ts";

const options = process.argv.slice(2).filter((argument) => argument.startsWith("--"));
const [seed = Date.now() % 1_000_000] = process.argv
  .slice(2)
  .filter((argument) => !argument.startsWith("--"));
const SEED = Number(seed);
const CLIENTS = 16;
/** A proof of a planted fault: a few rounds show it, or none do. */
const SHORT = "--short";
const isShort = options.includes(SHORT);
/** Rounds of each kind: ends on the reserve, a start on it, and nothing left at all. */
const FULL_DISK_ROUNDS = isShort ? 3 : 12;
const DISK_MB = 96;
const RESUME_MS_MAX = 5_000;
/** On the last server all clients must have their answers within this time. */
const FINISH_MS_MAX = 60_000;
/** Clients of a full disk come to rest, and what is left in its files is used up, within this time. */
const REST_MS_MAX = 120_000;
const FULL = '"status":507';
/** The system calls by which the store writes, and what they may answer. */
const FAULTS = ["fdatasync:error=EIO", "pwrite64:error=EIO", "pwrite64:error=ENOSPC"];
const WRITE_ERRORS = FAULTS.length * (isShort ? 2 : 8);
const FLIPS = 300;
/** A proof that does not come to an end has found nothing. */
const CANARY_MS_MAX = 300_000;
/** A fault that a short run does not meet is looked for with further seeds. */
const CANARY_ROUNDS = 4;
/** A leader that only looks: no timer of its own ever changes anything. */
const STOPPED_CLOCK: Clock = {
  monotonicMs: () => 0,
  wallMs: () => 0,
  after: () => () => undefined,
  soon: () => undefined,
};

/** Faults in a copy of the source, and the part of the proof that must find each. */
const PLANTED: readonly (Fault & { readonly part: Part })[] = [
  {
    what: "a commit that failed counts as done",
    part: "writeErrors",
    file: "src/store/sqlite/sqlite.ts",
    text: "const isDone = guarded(() => inTransaction(() => executeAll(commitStatements(rows))) !== undefined);",
    instead:
      "let isDone = true; try { inTransaction(() => executeAll(commitStatements(rows))); } catch { isDone = true; }",
  },
  {
    what: "nothing is kept in reserve for a full disk",
    part: "fullDisk",
    file: "src/store/sqlite/sqlite.ts",
    text: "const reserve = reserveBytes > 0 ?",
    instead: "const reserve = reserveBytes < 0 ?",
  },
  {
    what: "a changed frame of the log is taken for its end",
    part: "flippedBytes",
    file: "src/store/sqlite/wal.ts",
    text: "const frameCount = Math.floor((log.length - HEADER_BYTES) / frameBytes);",
    instead: "const frameCount = 0 * log.length;",
  },
  {
    what: "records without checksums",
    part: "flippedBytes",
    file: "src/store/rows.ts",
    text: "return crc32(text);",
    instead: "return crc32(text) & 0;",
  },
];

enterOwnMounts();
const random = seededRandom(SEED);
const directory = await mkdtemp(join(tmpdir(), "berth-disk-"));
let hasFailed = false;
console.log(`seed ${SEED}`);
const parts = { fullDisk, writeErrors, flippedBytes };
type Part = keyof typeof parts;
try {
  const part = options.find((option) => option.startsWith("--part="))?.slice("--part=".length);
  const program = process.env.BERTH_PROOF_CHILD ?? (await bundle("proving/child"));
  if (options.includes("--canaries")) for (const fault of PLANTED) await findOut(fault);
  for (const [name, prove] of Object.entries(parts)) {
    if (part === undefined || part === name) await prove(program);
  }
} catch (error) {
  console.error(error);
  hasFailed = true;
} finally {
  spawnSync("umount", ["--lazy", join(directory, "small")], { stdio: "ignore" });
  await rm(directory, { recursive: true, force: true });
}
process.exit(hasFailed ? 1 : 0); // The clients of a proof that failed have not ended.

/** Runs one part of this very proof with the fault in both the server and the proof: it must end with 1. */
async function findOut({ part, ...fault }: (typeof PLANTED)[number]): Promise<void> {
  const proof = await bundle("prove-disk", fault);
  const child = await bundle("proving/child", fault);
  const { BERTH_PROOF_MOUNTS: _, ...env } = process.env;
  const run = (round: number) =>
    spawnSync(process.execPath, [proof, String(SEED + round), `--part=${part}`, SHORT], {
      encoding: "utf8",
      env: { ...env, BERTH_PROOF_CHILD: child },
      timeout: CANARY_MS_MAX,
    });
  // On a slow machine the disk may fail before the server has answered anybody, and then there is nothing to find.
  let result = run(0);
  for (let round = 1; round < CANARY_ROUNDS && result.status === 0; round++) result = run(round);
  const { status, stdout, stderr, error } = result;
  if (!tell(fault.what, status === 1 ? 1 : 0)) hasFailed = true;
  if (error !== undefined) console.log(`  the proof did not come to its end: ${error.message}`);
  // What it was found by: a proof that fails for another reason has found nothing.
  console.log(`  ${(/✗ .*|Error: .*/.exec(stdout + stderr)?.[0] ?? "").slice(0, 160)}`);
}

/** Mounts of our own, which nobody else sees and which vanish with us. */
function enterOwnMounts(): void {
  if (process.env.BERTH_PROOF_MOUNTS !== undefined) return;
  const { status, error } = spawnSync(
    "unshare",
    ["--map-root-user", "--mount", process.execPath, ...process.execArgv, ...process.argv.slice(1)],
    { stdio: "inherit", env: { ...process.env, BERTH_PROOF_MOUNTS: "1" } },
  );
  if (error !== undefined) throw error;
  process.exit(status ?? 1);
}

// --- full ------------------------------------------------------------------------------------------------

async function fullDisk(program: string): Promise<void> {
  const disk = join(directory, "small");
  await mkdir(disk);
  run("mount", "-t", "tmpfs", "-o", `size=${DISK_MB}m`, "none", disk);
  const file = join(disk, "berth.db");
  const filler = join(disk, "filler");
  const start = childStarter(program, ["sqlite", file], { login: {} });
  let server = start();
  await server.ready;
  const clients = startClients(CLIENTS, random);
  clients.use(server);
  const own: Acknowledged[] = [];
  const ask = async (operation: Operation): Promise<Told> => {
    const told = await server.ask(operation);
    own.push({ operation, told, after: own.length });
    return told;
  };
  let endedId = "";
  const found = { ended: 0, refused: 0, restarted: 0 };
  const resumesMs: number[] = [];
  for (let round = 0; round < FULL_DISK_ROUNDS; round++) {
    const { id, token } = await ask({ kind: "submit", key: `kept ${round}`, component: "wide" });
    const release = { kind: "release", key: `end ${round}`, id, token: token as string } as const;
    await delay(200 + random() * 300);
    await fill(filler);
    await stillness(() => clients.acknowledged.length);
    switch (round % 3) {
      case 0: // On the reserve work can be ended.
        await onReserve(() => ask(release));
        endedId = id;
        found.ended++;
        break;
      case 1: // On the reserve a server can start, and takes nothing new.
        await server.kill();
        server = start();
        await server.ready;
        clients.use(server);
        await mustBeFull(ask({ kind: "submit", key: `new ${round}`, component: "wide" }));
        await onReserve(() => ask(release));
        found.restarted++;
        break;
      case 2: // The reserve is gone, too.
        await fill(filler);
        await exhaust(server, endedId);
        await mustBeFull(ask(release));
        found.refused++;
    }
    await stillness(() => clients.acknowledged.length);
    const before = clients.acknowledged.length;
    await rm(filler);
    const beganMs = performance.now();
    while (clients.acknowledged.length === before && performance.now() - beganMs < 4 * RESUME_MS_MAX)
      await delay(5);
    resumesMs.push(performance.now() - beganMs);
  }
  await finish(clients);
  await server.kill(); // Rejects if the server did not live through all of it.
  const messages = [...clients.failures.keys()].filter((words) => words.includes(FULL));
  const verdict = await judged(file, [...clients.acknowledged, ...own]);
  const slowestMs = Math.max(...resumesMs);
  report(
    `full disk: ${FULL_DISK_ROUNDS} times, goes on ${slowestMs.toFixed(0)} ms after there is room; on the reserve ` +
      `${found.ended} ends and ${found.restarted} starts; ${found.refused} times without it`,
    verdict,
  );
  for (const message of messages) console.log(`  clients were answered: ${message}`);
  if (slowestMs > RESUME_MS_MAX || messages.length === 0) hasFailed = true;
}

/** As clients do: the call is made again while the server has not yet found out that it has a reserve. */
async function onReserve<Answer>(call: () => Promise<Answer>): Promise<Answer> {
  for (const beganMs = performance.now(); ; await delay(100)) {
    try {
      return await call();
    } catch (error) {
      const isFull = (error as Error).message.includes(FULL);
      if (!isFull || performance.now() - beganMs > RESUME_MS_MAX) throw error;
    }
  }
}

async function mustBeFull(answer: Promise<Told>): Promise<void> {
  const error = await answer.then(
    () => "it was acknowledged",
    ({ message }: Error) => message,
  );
  if (!error.includes(FULL)) throw new Error(`The disk is full, but the answer is: ${error}`);
}

/** Some room is left within the files of the store: refusals, which are audited, use it up. */
async function exhaust(server: Server, endedId: string): Promise<void> {
  const refusal = () => server.ask({ kind: "cancel", key: `again ${random()}`, id: endedId });
  for (const beganMs = performance.now(); performance.now() - beganMs < REST_MS_MAX; ) {
    try {
      await Promise.all(Array.from({ length: CLIENTS }, refusal));
    } catch (error) {
      if ((error as Error).message.includes(FULL)) return;
      throw error;
    }
  }
  throw new Finding(`The disk is full, but refusals were recorded for ${REST_MS_MAX / 1000} s.`);
}

/** Not one byte is left. */
async function fill(path: string): Promise<void> {
  const handle = await open(path, "a");
  for (const size of [1 << 20, 1 << 12]) {
    const block = Buffer.alloc(size);
    for (;;) {
      try {
        await handle.appendFile(block);
      } catch {
        break;
      }
    }
  }
  await handle.close();
}

/** Until the number has not moved for half a second. */
async function stillness(count: () => number): Promise<void> {
  const beganMs = performance.now();
  for (let seen = -1; seen !== count(); ) {
    seen = count();
    await delay(500);
    if (performance.now() - beganMs > REST_MS_MAX) throw new Finding("The disk is full, but answers go on.");
  }
}

// --- write errors ------------------------------------------------------------------------------------------

async function writeErrors(program: string): Promise<void> {
  const file = join(directory, "errors.db");
  const args = ["sqlite", file];
  const login = {};
  const first = childStarter(program, args, { login })();
  await first.ready;
  await first.kill();
  const clients = startClients(CLIENTS, random);
  const messages = new Map<string, number>();
  let ends = 0;
  let survived = 0;
  for (let round = 0; round < WRITE_ERRORS; round++) {
    const fault = FAULTS[round % FAULTS.length] as string;
    const when = 20 + Math.floor(random() * 100);
    // From the nth call on every call fails, as on a disk that is gone.
    const under = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", `inject=${fault}:when=${when}+`];
    const server = childStarter(program, args, { under, login })();
    const isReady = await server.ready.then(
      () => true,
      () => false,
    );
    if (isReady) clients.use(server);
    const ended = await Promise.race([server.ended, delay(4_000).then(() => undefined)]);
    if (ended === undefined) {
      survived++;
      await server.kill();
    } else {
      ends++;
      const words = /(?:Store|Leader)Error: .*/.exec(ended.said)?.[0] ?? ended.said.slice(-200);
      messages.set(words, (messages.get(words) ?? 0) + 1);
    }
  }
  const server = childStarter(program, args, { login })();
  await server.ready;
  clients.use(server);
  await finish(clients);
  await server.kill();
  const what = `write errors: ${WRITE_ERRORS} times, ${ends} ends of the server, ${survived} times it refused and lived`;
  report(what, await judged(file, clients.acknowledged));
  for (const [words, times] of messages) console.log(`  ${times} × ${words}`);
}

// --- a flipped byte ----------------------------------------------------------------------------------------

async function flippedBytes(program: string): Promise<void> {
  const file = join(directory, "sound.db");
  const server = childStarter(program, ["sqlite", file])();
  await server.ready;
  const clients = startClients(CLIENTS, random);
  clients.use(server);
  await delay(1_500);
  await within(FINISH_MS_MAX, "The last answers of all clients", clients.finish());
  await server.kill();
  const sound = await look(await copyOf(file));
  if ("complaint" in sound)
    throw new Error(`The store is damaged before anyone touched it: ${sound.complaint}`);

  // Half of the flips hit a store that was closed in order: its log is empty, and everything is in the main file.
  const settled = await copyOf(file, "settled");
  await (await openSqliteStore({ path: settled })).close();

  const found = { refused: 0, named: 0, harmless: 0, tail: 0, undetected: 0 };
  const examples = new Set<string>();
  for (let flip = 0; flip < FLIPS; flip++) {
    const isSettled = flip % 2 === 1;
    const copy = await copyOf(isSettled ? settled : file);
    const place = await flipByte(isSettled ? [copy] : [copy, `${copy}-wal`]);
    const after = await look(copy);
    if ("complaint" in after) {
      found[after.isNamedLater ? "named" : "refused"]++;
      if (examples.size < 3) examples.add(after.complaint);
    } else if (JSON.stringify(after) === JSON.stringify(sound)) found.harmless++;
    else if (!isSettled && isOneCommitBehind(after, sound)) found.tail++;
    else {
      found.undetected++;
      console.log(`  ✗ ${place} changed ${differences(after, sound).join(", ")}, and nobody noticed`);
    }
  }
  console.log(
    `flipped bytes: ${FLIPS}; refused at the start ${found.refused}, named by verify ${found.named}, ` +
      `harmless ${found.harmless}, like a power cut in the last commit ${found.tail}, undetected ${found.undetected}`,
  );
  for (const complaint of examples) console.log(`  for example: ${complaint}`);
  if (found.undetected > 0) hasFailed = true;
}

/** As the killed server left it, with its write-ahead log: opening it would already change that. */
async function copyOf(file: string, name = "copy"): Promise<string> {
  const folder = join(directory, name);
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder);
  for (const suffix of ["", "-wal"]) {
    if (existsSync(file + suffix)) await copyFile(file + suffix, join(folder, `berth.db${suffix}`));
  }
  return join(folder, "berth.db");
}

function differences(after: Sight, sound: Sight): string[] {
  return (["hash", "journal", "requests", "audit", "rest"] as const)
    .filter((part) => JSON.stringify(after[part]) !== JSON.stringify(sound[part]))
    .map((part) => `${part} (${after[part].length} of ${sound[part].length})`);
}

/** Flips one bit somewhere in these files, the write-ahead log included, and says where. */
async function flipByte(paths: readonly string[]): Promise<string> {
  const sizes = await Promise.all(paths.map((path) => stat(path).then(({ size }) => size)));
  let position = Math.floor(random() * sizes.reduce((sum, size) => sum + size, 0));
  let file = 0;
  while (position >= (sizes[file] as number)) position -= sizes[file++] as number;
  const handle = await open(paths[file] as string, "r+");
  const byte = Buffer.alloc(1);
  await handle.read(byte, 0, 1, position);
  byte[0] = (byte[0] as number) ^ (1 << Math.floor(random() * 8));
  await handle.write(byte, 0, 1, position);
  await handle.close();
  return `byte ${position} of ${paths[file]}`;
}

/** All that a server on this file knows and shows; or what it, or the check of the store, complains about. */
async function look(path: string): Promise<Sight | Complaint> {
  let isNamedLater = false;
  try {
    const store = await openSqliteStore({ path });
    try {
      const leader = await startLeader({ store, clock: STOPPED_CLOCK, onFatal: () => undefined });
      const hash = await leader.read(({ state }) => stateHash(state));
      isNamedLater = true;
      const { damage } = await store.verify();
      if (damage[0] !== undefined) {
        return { complaint: `${damage[0].where}: ${damage[0].what}`, isNamedLater };
      }
      const journal = await store.readEvents(1, 1_000_000);
      const requests = await store.listRequests({ limit: 100_000 });
      const audit = await store.listAudit({ limit: 100_000 });
      return { hash, journal, requests: requests.items, audit: audit.items, rest: restOf(path) };
    } finally {
      await store.close();
    }
  } catch (error) {
    if (isStoreError(error, "corrupt") || isStoreError(error, "newer_version")) {
      return { complaint: error.message, isNamedLater };
    }
    throw error;
  }
}

/** What else is given out or relied on, as it lies there. */
function restOf(path: string): string {
  const database = new DatabaseSync(path, { readOnly: true });
  const rows = ["idempotency", "decisions", "tokens"].map((table) =>
    database.prepare(`select * from ${table} order by 1, 2`).all(),
  );
  database.close();
  return JSON.stringify(rows);
}

interface Sight {
  readonly rest: string;
  readonly hash: string;
  readonly journal: readonly JournalEvent[];
  readonly requests: readonly RequestRecord[];
  readonly audit: readonly AuditRecord[];
}

interface Complaint {
  readonly complaint: string;
  /** By the check of the store, not at the start. */
  readonly isNamedLater: boolean;
}

/**
 * Whether a store is exactly what it was before its last commit. A flip in the last transaction of the write-ahead
 * log cannot be distinguished from a power cut in the middle of it; the transactions before are vouched for by those behind.
 */
function isOneCommitBehind(after: Sight, sound: Sight): boolean {
  const lastAtMs = sound.journal.at(-1)?.atMs ?? 0;
  const boundary = sound.journal.filter(({ atMs }) => atMs < lastAtMs).length;
  const state = createState();
  for (const { event } of sound.journal.slice(0, after.journal.length))
    evolve(state, event as unknown as Event);
  const newestLast = (entries: readonly AuditRecord[]) => JSON.stringify(entries.toReversed()).slice(0, -1);
  return (
    after.journal.length >= boundary &&
    after.hash === stateHash(state) &&
    newestLast(sound.audit).startsWith(newestLast(after.audit))
  );
}

// --- common ------------------------------------------------------------------------------------------------

/** All answers, and some of them once more. */
async function finish(clients: Clients): Promise<void> {
  await within(FINISH_MS_MAX, "The last answers of all clients", clients.finish());
  await within(FINISH_MS_MAX, "The same answers once more", clients.repeat(200));
}

async function judged(file: string, acknowledged: readonly Acknowledged[]): Promise<Verdict> {
  const store = await openSqliteStore({ path: file });
  const verdict = await judge(store, acknowledged);
  await store.close();
  return verdict;
}

function report(what: string, { lost, duplicated, contradicted, damage, requests, events }: Verdict): void {
  console.log(what);
  console.log(
    `  ${requests} requests, ${events} events; lost ${lost.length}, duplicated ${duplicated.length}, ` +
      `contradicted ${contradicted.length}, damaged ${damage.length}`,
  );
  const problems = [...lost, ...duplicated, ...contradicted, ...damage];
  for (const problem of problems.slice(0, 20)) console.log(`  ✗ ${problem}`);
  if (problems.length > 0) hasFailed = true;
}

function run(command: string, ...args: readonly string[]): void {
  const { status, stderr } = spawnSync(command, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} failed: ${stderr}`);
}
