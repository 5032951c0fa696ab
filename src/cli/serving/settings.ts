// The settings of a server: from options, then the environment, then a file, then defaults. The same names in each.

import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import type { Command } from "commander";
import { CliError } from "../context.ts";
import { collect } from "../options.ts";
import { dataDirectory } from "../paths.ts";
import type { HostedOptions } from "./hosting.ts";

export interface ServingFlags {
  readonly config?: string;
  readonly dataDir?: string;
  readonly databaseUrl?: string;
  readonly advertise?: string;
  readonly listen?: string;
  readonly port?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly insecureBind?: boolean;
  readonly allowedHost?: readonly string[];
  readonly noticeNetwork?: readonly string[];
  readonly acceptClock?: boolean;
  readonly acceptLoss?: boolean;
}

export interface ServingSettings
  extends Pick<
    HostedOptions,
    | ("listen" | "tls" | "insecureBind" | "allowedHosts" | "noticeNetworks" | "advertise")
    | ("acceptClock" | "acceptLoss")
  > {
  readonly dataDir: string;
  readonly databaseUrl: string | undefined;
}

export const DEFAULT_LISTEN = "127.0.0.1:7770";

/** Name of the option, of the variable, and what it means; the reference is generated from this, too. */
export const SERVER_SETTINGS = {
  data_dir: {
    flag: "--data-dir <directory>",
    env: "BERTH_DATA_DIR",
    text: "where the embedded store is kept",
  },
  database_url: {
    flag: "--database-url <url>",
    env: "BERTH_DATABASE_URL",
    text: "a PostgreSQL database instead of the embedded store",
  },
  advertise: {
    flag: "--advertise <url>",
    env: "BERTH_ADVERTISE",
    text: "where other servers on the same database reach this one",
  },
  listen: { flag: "--listen <address>", env: "BERTH_LISTEN", text: "host:port to listen on" },
  port: { flag: "--port <port>", env: undefined, text: "another port on 127.0.0.1" },
  tls_cert: { flag: "--tls-cert <file>", env: "BERTH_TLS_CERT", text: "certificate in PEM" },
  tls_key: { flag: "--tls-key <file>", env: "BERTH_TLS_KEY", text: "its key in PEM" },
  insecure_bind: {
    flag: "--insecure-bind",
    env: undefined,
    text: "listen beyond this machine without TLS; tokens can then be read on the way",
  },
  allowed_host: {
    flag: "--allowed-host <name>",
    env: undefined,
    text: "a further name that the server answers to; may be repeated",
  },
  notice_network: {
    flag: "--notice-network <network>",
    env: "BERTH_NOTICE_NETWORK",
    text: "a private network that notices may be sent to, such as 10.0.0.0/8; may be repeated",
  },
  accept_clock: {
    flag: "--accept-clock",
    env: "BERTH_ACCEPT_CLOCK",
    text: "start although the clock is more than 7 days ahead of the last change; for one start",
  },
  accept_loss: {
    flag: "--accept-loss",
    env: "BERTH_ACCEPT_LOSS",
    text: "start although the embedded store has lost its last changes; for one start",
  },
} as const;

export function withServing(command: Command): Command {
  for (const { flag, text } of Object.values(SERVER_SETTINGS)) {
    if (/^--(allowed-host|notice-network)/.test(flag)) command.option(flag, text, collect);
    else command.option(flag, text);
  }
  return command.option("--config <file>", "the same settings in YAML: data_dir, listen, ...");
}

export async function servingSettings(flags: ServingFlags, env = process.env): Promise<ServingSettings> {
  const file = flags.config === undefined ? {} : await readConfig(flags.config);
  const pick = (name: keyof typeof SERVER_SETTINGS, flag: string | undefined) => {
    const variable = SERVER_SETTINGS[name].env;
    return flag ?? ((variable === undefined ? undefined : env[variable]) || textOf(file[name]));
  };
  const isSet = (name: keyof typeof SERVER_SETTINGS, flag: boolean | undefined) =>
    ["true", "1"].includes(pick(name, flag === true ? "true" : undefined) ?? "");
  const listen =
    flags.listen ??
    (flags.port && onPort(flags.port)) ??
    (env.BERTH_LISTEN || textOf(file.listen) || (textOf(file.port) && onPort(textOf(file.port) as string)));
  const certFile = pick("tls_cert", flags.tlsCert);
  const keyFile = pick("tls_key", flags.tlsKey);
  if ((certFile === undefined) !== (keyFile === undefined)) {
    throw new CliError(
      "usage",
      "A certificate and its key belong together.",
      "Give --tls-cert and --tls-key.",
    );
  }
  const networks = flags.noticeNetwork ?? networksOf(env.BERTH_NOTICE_NETWORK, file.notice_network);
  const hosts = flags.allowedHost ?? listOf(file.allowed_host);
  const advertise = pick("advertise", flags.advertise);
  const databaseUrl = pick("database_url", flags.databaseUrl);
  if (databaseUrl !== undefined && advertise === undefined && isWildcard(listen ?? "")) {
    throw new CliError(
      "usage",
      `Other servers cannot reach this one at ${listen}.`,
      "Say where they can with --advertise, such as --advertise http://berth-1:7770.",
    );
  }
  return {
    dataDir: dataDirectory(flags.dataDir ?? (env.BERTH_DATA_DIR || textOf(file.data_dir)), env),
    databaseUrl,
    ...(advertise !== undefined && { advertise }),
    listen: listen || DEFAULT_LISTEN,
    ...(certFile !== undefined && keyFile !== undefined && { tls: { certFile, keyFile } }),
    ...((flags.insecureBind === true || file.insecure_bind === true) && { insecureBind: true }),
    ...(isSet("accept_clock", flags.acceptClock) && { acceptClock: true }),
    ...(isSet("accept_loss", flags.acceptLoss) && { acceptLoss: true }),
    ...(hosts.length > 0 && { allowedHosts: hosts }),
    ...(networks.length > 0 && { noticeNetworks: checkedNetworks(networks) }),
  };
}

function networksOf(variable: string | undefined, inFile: unknown): string[] {
  return variable ? variable.split(",").map((network) => network.trim()) : listOf(inFile);
}

function checkedNetworks(networks: readonly string[]): readonly string[] {
  const bad = networks.find((network) => !isNetwork(network));
  if (bad === undefined) return networks;
  throw new CliError(
    "usage",
    `"${bad.slice(0, 60)}" is not a network.`,
    "Write it as 10.0.0.0/8 or fd00::/8.",
  );
}

function isNetwork(text: string): boolean {
  const [address = "", bits, ...rest] = text.split("/");
  const version = isIP(address);
  if (version === 0 || rest.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128));
}

/** Every address of this machine: none that others could be given. */
function isWildcard(listen: string): boolean {
  return /^(?:0\.0\.0\.0|\[::\]|)?:\d+$/.test(listen);
}

function onPort(port: string): string {
  if (/^\d{1,5}$/.test(port)) return `127.0.0.1:${port}`;
  throw new CliError("usage", `"${port.slice(0, 40)}" is not a port.`, "Write a number, such as 7771.");
}

async function readConfig(path: string): Promise<Record<string, unknown>> {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code === "ENOENT" ? "file_not_found" : "file_unreadable";
    throw new CliError(
      code,
      `The settings in ${path} cannot be read.`,
      "Check the path and who may read it.",
    );
  }
  const { parse } = await import("../yaml.ts");
  let parsed: unknown;
  try {
    parsed = parse(text);
  } catch (error) {
    throw new CliError("invalid_syntax", `The settings in ${path} are not YAML: ${(error as Error).message}`);
  }
  const settings = (parsed ?? {}) as Record<string, unknown>;
  const unknown = Object.keys(settings).find((name) => !Object.hasOwn(SERVER_SETTINGS, name));
  if (unknown === undefined) return settings;
  throw new CliError(
    "usage",
    `"${unknown}" is not a setting of a server.`,
    `They are ${Object.keys(SERVER_SETTINGS).join(", ")}.`,
  );
}

function textOf(value: unknown): string | undefined {
  return value === undefined || value === null || value === "" ? undefined : String(value as string);
}

function listOf(value: unknown): string[] {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value.map(String) : [String(value as string)];
}
