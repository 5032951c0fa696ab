// What this machine has: GPUs as the drivers' own programs show them, processors and memory.

import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism, totalmem } from "node:os";
import { join } from "node:path";
import { isOfJob } from "../runner/index.ts";

export interface Device {
  readonly index: number;
  readonly model?: string;
  readonly uuid?: string;
  /** Processes on it that Berth did not start. */
  readonly strangers: number;
}

/** Where to look; a test brings its own. */
export interface Places {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly procDriver: string;
  readonly isOfJob: (pid: number) => boolean;
}

const PLACES: Places = { env: process.env, procDriver: "/proc/driver/nvidia/gpus", isOfJob };
const TOOL_MS_MAX = 10_000;

export function findDevices(places: Partial<Places> = {}): Device[] {
  const all = { ...PLACES, ...places };
  const nvidia = fromNvidiaSmi(all) ?? fromNvidiaDriver(all.procDriver);
  return nvidia.length > 0 ? nvidia : fromRocmSmi(all.env);
}

/** In Berth's keys. */
export function machineCapacity(devices: readonly Device[]): Record<string, number> {
  return {
    ...(devices.length > 0 && { gpu: devices.length }),
    mcpu: availableParallelism() * 1000,
    memory_mb: Math.floor(totalmem() / 1_000_000),
  };
}

function fromNvidiaSmi({ env, isOfJob: isOurs }: Places): Device[] | undefined {
  const rows = csv(ask("nvidia-smi", ["--query-gpu=index,uuid,name", "--format=csv,noheader"], env));
  if (rows === undefined) return undefined;
  const processes = csv(
    ask("nvidia-smi", ["--query-compute-apps=gpu_uuid,pid", "--format=csv,noheader"], env),
  );
  return rows.flatMap(([index, uuid = "", model = ""]) => {
    if (!/^\d+$/.test(index ?? "")) return [];
    const pids = (processes ?? []).filter(([where]) => where === uuid).map(([, pid]) => Number(pid));
    return [{ index: Number(index), uuid, model, strangers: pids.filter((pid) => !isOurs(pid)).length }];
  });
}

/** Without the program, the driver alone says what there is, but not who uses it. */
function fromNvidiaDriver(directory: string): Device[] {
  const texts = entries(directory).map((name) => readText(join(directory, name, "information")));
  return texts.flatMap((text) => {
    const field = (name: string) => new RegExp(`^${name}:\\s*(.+)$`, "m").exec(text)?.[1]?.trim();
    const minor = field("Device Minor");
    const [model, uuid] = [field("Model"), field("GPU UUID")];
    if (minor === undefined) return [];
    return [{ index: Number(minor), strangers: 0, ...(model && { model }), ...(uuid && { uuid }) }];
  });
}

function fromRocmSmi(env: Places["env"]): Device[] {
  const text = ask("rocm-smi", ["--showproductname", "--showuniqueid", "--json"], env);
  try {
    const cards = JSON.parse(text ?? "{}") as Record<string, Record<string, string>>;
    return Object.entries(cards).flatMap(([name, facts]) => {
      const index = /^card(\d+)$/.exec(name)?.[1];
      if (index === undefined) return [];
      const [model, uuid] = [facts["Card series"] ?? facts["Card Series"], facts["Unique ID"]];
      return [{ index: Number(index), strangers: 0, ...(model && { model }), ...(uuid && { uuid }) }];
    });
  } catch {
    return [];
  }
}

/** Undefined: it is not there, or it failed. */
function ask(tool: string, args: string[], env: Places["env"]): string | undefined {
  const { status, stdout } = spawnSync(tool, args, {
    encoding: "utf8",
    env: { ...env },
    timeout: TOOL_MS_MAX,
  });
  return status === 0 ? stdout : undefined;
}

function csv(text: string | undefined): string[][] | undefined {
  const lines = text?.split("\n").filter((line) => line.trim() !== "");
  return lines?.map((line) => line.split(",").map((cell) => cell.trim()));
}

function entries(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
