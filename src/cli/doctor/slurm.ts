// What of a Slurm works for or against Berth (S1–S7), as findings of `berth doctor --slurm`.

import type { Slurm } from "../../executors/index.ts";
import type { Finding } from "../doctor.ts";
import { aboutClock } from "./clock.ts";

const WHAT = "slurm";
const OLDEST = [22, 5] as const;

export async function aboutSlurm(slurm: Slurm, partition: string | undefined): Promise<Finding[]> {
  try {
    const version = await slurm.version();
    return [
      aboutVersion(version),
      ...(await aboutSettings(slurm, partition)),
      await aboutQueue(slurm, partition),
      ...aboutClock("Slurm", await slurm.time()),
    ];
  } catch (error) {
    return [{ what: WHAT, state: "bad", text: (error as Error).message }];
  }
}

function aboutVersion(version: string): Finding {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const isFine = major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1]);
  return {
    what: WHAT,
    state: isFine ? "good" : "bad",
    text: isFine ? `version ${version}` : `version ${version}, needs 22.05 or newer`,
  };
}

async function aboutSettings(slurm: Slurm, name: string | undefined): Promise<Finding[]> {
  const findings: Finding[] = [];
  const accounting = (await slurm.setting("AccountingStorageType")) ?? "";
  if (!accounting.includes("slurmdbd")) {
    const text =
      "there is no slurmdbd: the ends of jobs cannot be read. Set AccountingStorageType=accounting_storage/slurmdbd";
    findings.push({ what: WHAT, state: "bad", text });
  }
  if (name === undefined) return findings;
  const partition = await slurm.partition(name);
  if (partition === undefined)
    return [...findings, { what: WHAT, state: "bad", text: `there is no partition ${name}` }];
  findings.push(...(await aboutMemory(slurm, name, partition)));
  const { PreemptMode: mode = "OFF", State: state = "UP" } = partition;
  const type = (await slurm.setting("PreemptType")) ?? "preempt/none";
  if (type !== "preempt/none" && type !== "(null)" && mode !== "OFF") {
    const text = `Slurm itself preempts in partition ${name} (${type}, ${mode}): what Berth has granted may be lost. Set PreemptMode=OFF there`;
    findings.push({ what: WHAT, state: "bad", text });
  }
  if (state !== "UP")
    findings.push({ what: WHAT, state: "note", text: `partition ${name} is ${state}: nothing starts there` });
  return findings;
}

/** Where memory is shared out and has no default, a job that asks for none gets all of its node. */
async function aboutMemory(
  slurm: Slurm,
  name: string,
  { DefMemPerNode: perNode, DefMemPerCPU: perCpu }: Readonly<Record<string, string>>,
): Promise<Finding[]> {
  const isShared = ((await slurm.setting("SelectTypeParameters")) ?? "").includes("MEMORY");
  if (!isShared || perCpu !== undefined || perNode !== "UNLIMITED") return [];
  const text = `a job that asks for no memory gets all of its node in partition ${name}, so that no other fits beside it. Set DefMemPerCPU, or ask for memory`;
  return [{ what: WHAT, state: "note", text }];
}

async function aboutQueue(slurm: Slurm, partition: string | undefined): Promise<Finding> {
  const count = (await slurm.queue(partition)).length;
  const isRoot = process.getuid?.() === 0;
  const who = isRoot ? "jobs may run as others" : "jobs run as you";
  return { what: WHAT, state: "good", text: `the controller answers, ${count} jobs are known; ${who}` };
}
