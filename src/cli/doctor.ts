// berth doctor: looks at this machine, the context, the server and its data, and says what to do.

import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import { detectContainment } from "../runner/index.ts";
import { type Client, createClient } from "../sdk/index.ts";
import { megabytes, STORE_FILE } from "./backup.ts";
import { contextFilePath, resolveConnection } from "./connection.ts";
import type { CliContext } from "./context.ts";
import { type ConnectionOptions, withConnection } from "./options.ts";
import { formatOf, type OutputOptions, plainIfNeeded, toJson } from "./output/print.ts";
import { ageOf, counted, printable, styleOf } from "./output/text.ts";
import { dataDirectory, shownPath } from "./paths.ts";
import { hostingOf } from "./serving/host.ts";
import { findRunning } from "./serving/running.ts";
import { gather } from "./session.ts";
import { pauseText } from "./shapes.ts";

interface Finding {
  readonly what: string;
  readonly state: "good" | "note" | "bad";
  readonly text: string;
}

type DoctorOptions = ConnectionOptions &
  OutputOptions & { readonly dataDir?: string; readonly verify?: boolean };

const HELP = `
Ends with 125 if something is wrong.

Examples:
  berth doctor
  berth doctor --verify            read the whole store, by way of a copy
  berth doctor -o json
`;

const EXIT_BAD = 125;
const SKEW_MS_MAX = 5_000;
const AHEAD_MS_MAX = 60_000;

export function define(command: Command, context: CliContext): void {
  withConnection(command)
    .option("-o, --output <form>", "table or json")
    .option("--data-dir <directory>", "where the store is")
    .option("--verify", "read the whole embedded store and check every hash")
    .addHelpText("after", HELP)
    .action((options: DoctorOptions) => doctor(options, context));
}

async function doctor(options: DoctorOptions, context: CliContext): Promise<void> {
  const format = formatOf(options);
  const findings: Finding[] = [
    aboutNode(),
    aboutContainment(),
    ...(await aboutServer(options)),
    ...(await aboutData(options, context)),
  ];
  if (format === "json") context.write(`${toJson({ findings }, 2)}\n`);
  else {
    const { good, warn, bad } = styleOf(context);
    const marks = { good: good("✓"), note: warn("·"), bad: bad("✗") };
    const lines = findings.map(
      ({ what, state, text }) => `${marks[state]} ${what.padEnd(10)} ${printable(text)}\n`,
    );
    context.write(plainIfNeeded(lines.join(""), context));
  }
  if (findings.some(({ state }) => state === "bad")) context.exitCode = EXIT_BAD;
}

function aboutNode(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const isFine = major > 20 || (major === 20 && minor >= 19);
  return {
    what: "node",
    state: isFine ? "good" : "bad",
    text: `${process.version}${isFine ? "" : ", needs 20.19 or newer"}`,
  };
}

function aboutContainment(): Finding {
  const { levels } = detectContainment();
  const best = levels.find(({ available }) => available);
  const text =
    best === undefined ? "none: processes may outlive their grant" : `jobs are contained by ${best.level}`;
  return { what: "jobs", state: best === undefined ? "note" : "good", text };
}

async function aboutServer(options: DoctorOptions): Promise<Finding[]> {
  const findings: Finding[] = [];
  let connection: ReturnType<typeof resolveConnection>;
  try {
    connection = resolveConnection(options);
  } catch (error) {
    return [
      {
        what: "context",
        state: "note",
        text: `${(error as Error).message} Contexts: ${shownPath(contextFilePath())}`,
      },
    ];
  }
  const { urls, token, component } = connection;
  const file = statSync(contextFilePath(), { throwIfNoEntry: false });
  if (file !== undefined && (file.mode & 0o077) !== 0) {
    findings.push({
      what: "contexts",
      state: "bad",
      text: `others can read your tokens: chmod 600 ${shownPath(contextFilePath())}`,
    });
  }
  for (const url of urls) {
    const client = createClient({
      url,
      ...(token !== undefined && { token }),
      retryForMs: 0,
      timeoutMs: 5_000,
    });
    try {
      const { body, headers } = await client.transport.send("version");
      const skewMs = Math.abs(Date.now() - Date.parse(headers.get("date") ?? new Date().toUTCString()));
      findings.push({ what: "server", state: "good", text: `${url}, version ${body.version}` });
      if (skewMs > SKEW_MS_MAX)
        findings.push({
          what: "clock",
          state: "note",
          text: `differs from the server's by ${Math.round(skewMs / 1000)} s; ages are shown wrong`,
        });
      const { name, role, expires_at: ends, time } = await client.whoami();
      const until =
        ends === null ? "never ends" : `ends in ${ageOf(new Date().toISOString(), Date.parse(ends))}`;
      findings.push({
        what: "token",
        state: "good",
        text: `${name} (${role}), ${until}${component === undefined ? "" : `; asks as ${component}`}`,
      });
      findings.push(...aboutTime(time, headers.get("date")));
      findings.push(...(await aboutPauses(client)));
      await client.server.ready().then(
        () => findings.push({ what: "ready", state: "good", text: "calls are served" }),
        () => findings.push({ what: "ready", state: "bad", text: "the server takes no changes now" }),
      );
    } catch (error) {
      findings.push({ what: "server", state: "bad", text: `${url}: ${(error as Error).message}` });
    }
  }
  return findings;
}

/** After a start with a clock that was ahead: time in the cluster never goes back. */
export function aboutTime(clusterTime: string | undefined, serverTime: string | null): Finding[] {
  const aheadMs = Date.parse(clusterTime ?? "") - Date.parse(serverTime ?? "");
  if (!(aheadMs > AHEAD_MS_MAX)) return [];
  const ahead = ageOf(new Date(0).toISOString(), aheadMs);
  const text = `time in the cluster is ${ahead} ahead of the server's clock: tokens end early, until the clock is there`;
  return [{ what: "time", state: "bad", text }];
}

/** Pools in which nobody is given up, because many fell silent at once (L3). */
async function aboutPauses(client: Client): Promise<Finding[]> {
  const pools = await gather(client.pools.all());
  return pools.flatMap(({ name, expiry_paused: pause }): Finding[] =>
    pause === undefined
      ? []
      : [
          {
            what: "expiry",
            state: "bad",
            text: `pool ${name}: ${pauseText(pause)} (berth pool resume-expiry ${name})`,
          },
        ],
  );
}

async function aboutData({ dataDir, verify }: DoctorOptions, context: CliContext): Promise<Finding[]> {
  const directory = dataDirectory(dataDir);
  const store = join(directory, STORE_FILE);
  const size = statSync(store, { throwIfNoEntry: false })?.size;
  if (size === undefined)
    return [{ what: "data", state: "note", text: `no embedded store at ${shownPath(store)}` }];
  const log = statSync(`${store}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  const running = findRunning(directory);
  const who =
    running === undefined ? "no server runs on it" : `pid ${running.pid} serves it at ${running.url}`;
  const findings: Finding[] = [
    { what: "data", state: "good", text: `${shownPath(store)}, ${megabytes(size + log)}; ${who}` },
  ];
  if (verify !== true) return findings;
  const scratch = mkdtempSync(join(tmpdir(), "berth-doctor-"));
  try {
    const hosting = await hostingOf(context);
    const copy = join(scratch, STORE_FILE);
    await hosting.backup(store, copy);
    const { events, requests, snapshots, audit, damage } = await hosting.inspect(copy);
    const sizes = [
      counted(events, "event"),
      counted(requests, "request"),
      counted(snapshots, "snapshot"),
      `${audit} audit entries`,
    ];
    findings.push({ what: "contents", state: "good", text: sizes.join(", ") });
    findings.push(
      damage.length === 0
        ? { what: "hashes", state: "good", text: "everything is as it was written" }
        : {
            what: "hashes",
            state: "bad",
            text: damage
              .slice(0, 5)
              .map(({ where, what }) => `${where}: ${what}`)
              .join("; "),
          },
    );
  } catch (error) {
    findings.push({ what: "hashes", state: "bad", text: (error as Error).message });
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  return findings;
}
