// What a failing disk does to the embedded store: full, with write errors, with a flipped byte in the file. Nothing may
// be acknowledged that is not there, nothing that was acknowledged may be lost, and the message must be clear.
// Usage: npm run prove:disk -- [SEED]. Needs unshare, mount and strace, but no privileges.

import { spawnSync } from "node:child_process";
import { copyFile, mkdir, mkdtemp, open, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { startLeader, stateHash } from "../src/leader/index.ts";
import { isStoreError, openSqliteStore } from "../src/store/index.ts";
import { startClients } from "./proving/clients.ts";
import { judge, type Verdict } from "./proving/judge.ts";
import { seededRandom } from "./proving/random.ts";
import { bundle, childStarter } from "./proving/start.ts";

const SEED = Number(process.argv[2] ?? Date.now() % 1_000_000);
const CLIENTS = 16;
const FULL_DISK_ROUNDS = 10;
const DISK_MB = 48;
const RESUME_MS_MAX = 5_000;
const WRITE_ERRORS = 24;
/** The system calls by which the store writes, and what they may answer. */
const FAULTS = ["fdatasync:error=EIO", "pwrite64:error=EIO", "pwrite64:error=ENOSPC"];
const FLIPS = 300;

enterOwnMounts();
const random = seededRandom(SEED);
const directory = await mkdtemp(join(tmpdir(), "berth-disk-"));
let hasFailed = false;
console.log(`seed ${SEED}`);
try {
  const program = await bundle("child");
  await fullDisk(program);
  await writeErrors(program);
  await flippedBytes(program);
} catch (error) {
  console.error(error);
  hasFailed = true;
} finally {
  spawnSync("umount", ["--lazy", join(directory, "small")], { stdio: "ignore" });
  await rm(directory, { recursive: true, force: true });
}
process.exit(hasFailed ? 1 : 0); // Clients of a proof that failed would go on for ever.

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
  const server = childStarter(program, ["sqlite", file])();
  await server.ready;
  const clients = startClients(CLIENTS, random);
  clients.use(server);
  const resumesMs: number[] = [];
  for (let round = 0; round < FULL_DISK_ROUNDS; round++) {
    await delay(200 + random() * 300);
    await fill(filler);
    await stillness(() => clients.acknowledged.length);
    const before = clients.acknowledged.length;
    await rm(filler);
    const beganMs = performance.now();
    while (clients.acknowledged.length === before && performance.now() - beganMs < 4 * RESUME_MS_MAX)
      await delay(5);
    resumesMs.push(performance.now() - beganMs);
  }
  await clients.finish();
  await clients.repeat(200);
  await server.kill(); // Rejects if the server did not live through all of it.
  const message = [...clients.failures.keys()].find((words) => words.includes("full")) ?? "no message";
  const verdict = await judged(file, clients);
  const slowestMs = Math.max(...resumesMs);
  report(
    `full disk: ${FULL_DISK_ROUNDS} times, goes on ${slowestMs.toFixed(0)} ms after there is room`,
    verdict,
  );
  console.log(`  clients were told: ${message}`);
  if (slowestMs > RESUME_MS_MAX || message === "no message") hasFailed = true;
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
  for (let seen = -1; seen !== count(); ) {
    seen = count();
    await delay(500);
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
    const when = 30 + Math.floor(random() * 400);
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
      const words = /StoreError: .*/.exec(ended.said)?.[0] ?? ended.said.slice(-200);
      messages.set(words, (messages.get(words) ?? 0) + 1);
    }
  }
  const server = childStarter(program, args, { login })();
  await server.ready;
  clients.use(server);
  await clients.finish();
  await clients.repeat(200);
  await server.kill();
  const what = `write errors: ${WRITE_ERRORS} times, ${ends} ends of the server, ${survived} times it refused and lived`;
  report(what, await judged(file, clients));
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
  await clients.finish();
  await server.kill();
  const sound = await look(file);
  if ("complaint" in sound)
    throw new Error(`The store is damaged before anyone touched it: ${sound.complaint}`);

  const found = { refused: 0, named: 0, harmless: 0, undetected: 0 };
  const examples = new Set<string>();
  for (let flip = 0; flip < FLIPS; flip++) {
    const copy = join(directory, "flipped", "berth.db");
    await rm(join(directory, "flipped"), { recursive: true, force: true });
    await mkdir(join(directory, "flipped"));
    for (const name of await readdir(directory)) {
      if (name.startsWith("sound.db") && !name.endsWith("-lock") && !name.endsWith("-shm")) {
        await copyFile(join(directory, name), copy + name.slice("sound.db".length));
      }
    }
    await flipByte([copy, `${copy}-wal`]);
    const after = await look(copy);
    if ("complaint" in after) {
      found[after.isNamedLater ? "named" : "refused"]++;
      if (examples.size < 3) examples.add(after.complaint);
    } else found[after.contents === sound.contents ? "harmless" : "undetected"]++;
  }
  console.log(
    `flipped bytes: ${FLIPS}; refused at the start ${found.refused}, named by verify ${found.named}, ` +
      `harmless ${found.harmless}, undetected ${found.undetected}`,
  );
  for (const complaint of examples) console.log(`  for example: ${complaint}`);
  if (found.undetected > 0) hasFailed = true;
}

/** Flips one bit somewhere in these files, the write-ahead log included. */
async function flipByte(paths: readonly string[]): Promise<void> {
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
}

/** All that a server on this file knows and shows; or what it, or the check of the store, complains about. */
async function look(
  path: string,
): Promise<{ readonly contents: string } | { readonly complaint: string; readonly isNamedLater: boolean }> {
  let isNamedLater = false;
  try {
    const store = await openSqliteStore({ path });
    try {
      const leader = await startLeader({ store, onFatal: () => undefined });
      const hash = await leader.read(({ state }) => stateHash(state));
      isNamedLater = true;
      const { damage } = await store.verify();
      if (damage[0] !== undefined)
        return { complaint: `${damage[0].where}: ${damage[0].what}`, isNamedLater };
      const { items } = await store.listRequests({ limit: 100_000 });
      const audit = await store.listAudit({ limit: 100_000 });
      return { contents: JSON.stringify([hash, items, audit.items]) };
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

// --- common ------------------------------------------------------------------------------------------------

async function judged(file: string, { acknowledged }: ReturnType<typeof startClients>): Promise<Verdict> {
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
