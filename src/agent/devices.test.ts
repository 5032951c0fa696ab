import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { findDevices, machineCapacity } from "./devices.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "berth-devices-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** A stand-in on the path. */
function tool(name: string, script: string): void {
  writeFileSync(join(directory, name), `#!/bin/sh\n${script}\n`);
  chmodSync(join(directory, name), 0o755);
}
const places = () => ({
  env: { PATH: `${directory}:/usr/bin:/bin` },
  procDriver: join(directory, "gpus"),
  isOfJob: (pid: number) => pid === 10,
});

test("nvidia-smi's GPUs, and the strangers on them", () => {
  tool(
    "nvidia-smi",
    `case "$*" in
    *query-gpu*) printf '0, GPU-a, NVIDIA H100 80GB HBM3\\n1, GPU-b, NVIDIA H100 80GB HBM3\\n';;
    *compute-apps*) printf 'GPU-b, 10\\nGPU-b, 11\\nGPU-b, 12\\n';;
    esac`,
  );
  const devices = findDevices(places());
  expect(devices).toEqual([
    { index: 0, uuid: "GPU-a", model: "NVIDIA H100 80GB HBM3", strangers: 0 },
    { index: 1, uuid: "GPU-b", model: "NVIDIA H100 80GB HBM3", strangers: 2 },
  ]);
  expect(machineCapacity(devices)).toMatchObject({ gpu: 2 });
});

test("a driver without its program, also where the program fails", () => {
  tool("nvidia-smi", "echo broken; exit 9");
  mkdirSync(join(directory, "gpus", "0000:65:00.0"), { recursive: true });
  const text = "Model: \t\t NVIDIA A100\nGPU UUID: \t GPU-c\nDevice Minor: \t 3\n";
  writeFileSync(join(directory, "gpus", "0000:65:00.0", "information"), text);
  expect(findDevices(places())).toEqual([{ index: 3, model: "NVIDIA A100", uuid: "GPU-c", strangers: 0 }]);
});

test("rocm-smi's GPUs", () => {
  tool("rocm-smi", `echo '{"card0": {"Card series": "MI300X", "Unique ID": "0xf"}, "system": {}}'`);
  expect(findDevices(places())).toEqual([{ index: 0, model: "MI300X", uuid: "0xf", strangers: 0 }]);
});

test("a machine without any", () => {
  expect(findDevices(places())).toEqual([]);
  expect(machineCapacity([])).not.toHaveProperty("gpu");
});
