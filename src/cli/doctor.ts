// berth doctor: looks at this machine, the context, the server and its data, and says what to do.

import { statSync } from "node:fs";
import type { Command } from "commander";
import { findDevices } from "../agent/index.ts";
import { detectContainment } from "../runner/index.ts";
import { type Client, createClient, isBerthError } from "../sdk/index.ts";
import { contextFilePath, resolveConnection } from "./connection.ts";
import { type CliContext, CliError } from "./context.ts";
import { SKEW_MS_MAX } from "./doctor/clock.ts";
import { aboutReplicas } from "./doctor/replicas.ts";
import { aboutStore, headOf, type StoreOptions } from "./doctor/store.ts";
import { type ConnectionOptions, withConnection } from "./options.ts";
import { formatOf, type OutputOptions, plainIfNeeded, toJson } from "./output/print.ts";
import { ageOf, printable, styleOf } from "./output/text.ts";
import { shownPath } from "./paths.ts";
import { isHere } from "./run/here.ts";
import { gather } from "./session.ts";
import { pauseText, scaledText, shieldedText, strangersText } from "./shapes.ts";

export interface Finding {
  readonly what: string;
  readonly state: "good" | "note" | "bad";
  readonly text: string;
}

type DoctorOptions = ConnectionOptions &
  OutputOptions &
  StoreOptions & {
    readonly head?: boolean;
    readonly slurm?: boolean | string;
    readonly kubernetes?: boolean | string;
  };

const HELP = `
Ends with 125 if something is wrong.

Examples:
  berth doctor
  berth doctor --verify            read the whole store, by way of a copy
  berth doctor --head > heads/today                 note where the history ends, to be kept on another machine
  berth doctor --expect "$(cat heads/today)"        check that the history still contains it
  berth doctor --slurm gpu         check Slurm and its partition gpu, where the adapter runs
  berth doctor --kubernetes berth-jobs     check Kubernetes and what the adapter may do in that namespace
  berth doctor -o json
`;

const EXIT_BAD = 125;
const AHEAD_MS_MAX = 60_000;

export function define(command: Command, context: CliContext): void {
  withConnection(command)
    .option("-o, --output <form>", "table or json")
    .option("--data-dir <directory>", "where the store is")
    .option("--database-url <url>", "the store is in this PostgreSQL database")
    .option("--verify", "read the whole store and check every hash")
    .option("--head", "print the ends of the journal and of the audit log, and nothing else")
    .option("--slurm [partition]", "check also the Slurm of this machine, for `berth adapter slurm`")
    .option("--kubernetes [namespace]", "check also the cluster of kubectl, for `berth adapter kubernetes`")
    .option("--expect <head>", "check also that the history still contains this head")
    .addHelpText("after", HELP)
    .action((options: DoctorOptions) => doctor(options, context));
}

async function doctor(options: DoctorOptions, context: CliContext): Promise<void> {
  if (options.head === true) return context.write(`${await headOf(options, context)}\n`);
  const format = formatOf(options);
  const findings: Finding[] = [
    aboutNode(),
    aboutContainment(),
    ...aboutDevices(),
    ...(await aboutServer(options)),
    ...(await aboutStore(options, context)),
    ...(options.slurm === undefined ? [] : await aboutOwnSlurm(options.slurm)),
    ...(options.kubernetes === undefined ? [] : await aboutOwnKubernetes(options.kubernetes)),
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

/** Loaded when it is asked for. */
async function aboutOwnSlurm(partition: boolean | string): Promise<Finding[]> {
  const { createSlurm, programsIn } = await import("../executors/index.ts");
  const { aboutSlurm } = await import("./doctor/slurm.ts");
  const slurm = createSlurm(programsIn(process.env.SLURM_BIN, process.env));
  return aboutSlurm(slurm, typeof partition === "string" ? partition : undefined);
}

/** Loaded when it is asked for. */
async function aboutOwnKubernetes(namespace: boolean | string): Promise<Finding[]> {
  const { reachKubernetes } = await import("./adapter/kubernetes.ts");
  const { aboutKubernetes } = await import("./doctor/kubernetes.ts");
  try {
    const { kubernetes } = await reachKubernetes(typeof namespace === "string" ? { namespace } : {});
    return await aboutKubernetes(kubernetes);
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    return [{ what: "kubernetes", state: "bad", text: `${error.message} ${error.hint}` }];
  }
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

/** The GPUs of this machine, and who uses them beside Berth. */
function aboutDevices(): Finding[] {
  return findDevices().map((device): Finding => {
    const model = device.model === undefined ? "" : ` (${device.model})`;
    const text = `${device.index}${model}${device.strangers === 0 ? "" : `: ${strangersText(device.strangers)}`}`;
    return { what: "gpu", state: device.strangers === 0 ? "good" : "note", text };
  });
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
      findings.push(...(await aboutAlerts(client)));
      findings.push(...aboutReplicas(await client.server.cluster()));
      findings.push(...(await aboutNodes(client)));
      findings.push(...(await aboutTargets(client)));
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
  const text = `time in the cluster is ${ahead} ahead of the server's clock: tokens end early, until the clock has caught up`;
  return [{ what: "time", state: "bad", text }];
}

/** Targets that notices do not reach (H3), for those who may see them. */
async function aboutTargets(client: Client): Promise<Finding[]> {
  try {
    const targets = await gather(client.targets.all());
    return targets.flatMap(({ name, state, problem, lost }): Finding[] => {
      if (state === "good") return [];
      const given = lost === 0 ? "" : `; ${lost} given up`;
      return [
        {
          what: "notices",
          state: "bad",
          text: `${name} is ${state}: ${problem}${given} (berth notify show ${name})`,
        },
      ];
    });
  } catch (error) {
    if (isBerthError(error, "forbidden")) return [];
    throw error;
  }
}

/** Other machines on which processes that Berth did not start use GPUs, or that are silent. */
async function aboutNodes(client: Client): Promise<Finding[]> {
  const nodes = await gather(client.nodes.all());
  return nodes.flatMap(({ name, state, devices }): Finding[] => {
    const silent: Finding[] =
      state === "suspect" || state === "down"
        ? [{ what: "node", state: "note", text: `${name} is ${state} (berth node show ${name})` }]
        : [];
    const busy = devices.filter(({ strangers = 0 }) => strangers > 0 && !isHere(name));
    return [
      ...silent,
      ...busy.map(({ index, strangers = 0, kept_out: isKeptOut }): Finding => {
        const kept = isKeptOut ? ", kept out of use" : "";
        return {
          what: "gpu",
          state: "note",
          text: `${index} of ${name}: ${strangersText(strangers)}${kept}`,
        };
      }),
    ];
  });
}

/** What alerts were raised about: pools in which nobody is given up (L3), scaled guarantees (9.1), shields (V6). */
async function aboutAlerts(client: Client): Promise<Finding[]> {
  const pools = await gather(client.pools.all());
  return pools.flatMap(
    ({ name, expiry_paused: pause, guarantees_scaled: scaled, shielded_runs: shielded }) => {
      const findings: Finding[] = [];
      if (pause !== undefined) {
        const text = `pool ${name}: ${pauseText(pause)} (berth pool resume-expiry ${name})`;
        findings.push({ what: "expiry", state: "bad", text });
      }
      if (scaled !== undefined) {
        findings.push({ what: "guarantees", state: "bad", text: `pool ${name}: ${scaledText(scaled)}` });
      }
      if (shielded !== undefined) {
        findings.push({ what: "shields", state: "note", text: `pool ${name}: ${shieldedText(shielded)}` });
      }
      return findings;
    },
  );
}
