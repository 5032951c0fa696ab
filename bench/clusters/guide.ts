// Plays a guide as it stands: its own commands, typed into a shell, with `berth` as it is installed, a server from nothing and the
// adapter beside it. What a reader would have to replace (addresses, directories) is replaced, and nothing else.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildCommandLine } from "../../test/e2e/run-build.ts";
import { freePorts, until } from "./world.ts";

export interface Guide {
  /** Below `docs/guide`. */
  readonly file: string;
  /** What the adapter is given in addition, because of this machine. */
  readonly adapterOptions: (own: string) => readonly string[];
  /** Texts of the guide, and what stands for them here. */
  readonly replaced: (own: string) => Readonly<Record<string, string>>;
  /** Where a job begins that names no directory, and so where its program is. */
  readonly home: (own: string) => string;
  /** For all commands. */
  readonly env: NodeJS.ProcessEnv;
}

const SECTIONS = ["From nothing to a first job", "A preemption with a checkpoint"] as const;
/** What it takes to install, which the proof has done in another way. */
const INSTALLING = /^(npm|kubectl) /;
const ROOT = new URL("../../", import.meta.url);
/** More than a machine that is busy with other things needs to submit what preempts it. */
const EPOCHS = 40;

/** The commands of a section, as a reader would type them. */
export function commandsOf(guide: string, section: string): string[] {
  const [, text = ""] = guide.split(`\n## ${section}\n`);
  const [own = ""] = text.split("\n## ");
  return [...own.matchAll(/```(?:console|text)\n([\s\S]*?)```/g)].flatMap(([, block = ""]) =>
    [...block.replaceAll(/\\\n\s*/g, "").matchAll(/^\$ (.*)$/gm)].map(([, command]) => command as string),
  );
}

export async function playGuide({ file, adapterOptions, replaced, home, env }: Guide, directory: string) {
  mkdirSync(join(directory, "bin"), { recursive: true });
  chmodSync(directory, 0o755);
  const { berth, remove } = await buildCommandLine();
  const wrapper = `#!/bin/sh\nexec ${process.execPath} ${berth} "$@"\n`;
  writeFileSync(join(directory, "bin/berth"), wrapper, { mode: 0o755 });
  const [port] = await freePorts(1);
  const url = `http://127.0.0.1:${port}`;
  const texts = Object.entries({
    "https://berth.example.org": url,
    "berth up": `berth up --port ${port}`,
    "berth adapter slurm": `exec berth adapter slurm ${adapterOptions(directory).join(" ")}`,
    "berth adapter kubernetes": `exec berth adapter kubernetes ${adapterOptions(directory).join(" ")}`,
    "python ": "python3 ", // As Debian calls it.
    ...replaced(directory),
  });
  const words = (command: string) =>
    texts.reduce((text, [from, to]) => text.replace(from, () => to), command);
  const start = (command: string): ChildProcess =>
    spawn("sh", ["-c", words(command)], {
      cwd: directory,
      env: { ...env, HOME: directory, PATH: `${directory}/bin:${process.env.PATH}` },
      stdio: ["ignore", "pipe", "pipe"],
    });
  const type = (command: string) => outputOf(start(command), command);
  const json = async (command: string) => JSON.parse(await type(`${command} -o json`));
  const guide = readFileSync(new URL(`docs/guide/${file}`, ROOT), "utf8");
  const [beginning = [], preemption = []] = SECTIONS.map((section) => commandsOf(guide, section));
  if (beginning.length < 6 || preemption.length !== 2)
    throw new Error(`docs/guide/${file} is not as this program knows it.`);
  let adapter: ChildProcess | undefined;
  try {
    writeTraining(home(directory), 5);
    let count = 0;
    for (const command of beginning.filter((one) => !INSTALLING.test(one))) {
      count++;
      if (command.includes("berth doctor")) await outputOf(start(command), command, [0, 1]);
      else if (command.includes("berth adapter")) adapter = await startAdapter(start(command));
      else await type(command);
    }
    const trained = await type("berth logs 1");
    if ([...trained.matchAll(/epoch \d/g)].length !== 5)
      throw new Error(`#1 did not train: ${trained}${JSON.stringify(await shown("1"))}`);
    writeTraining(home(directory), EPOCHS);
    // The other two nodes are taken until the end: only a preemption makes room.
    const takes = "berth submit --gpu 2 --component serving -- sleep 3600";
    const others = [await type(takes), await type(takes)].map(numberOf);
    for (const number of others) await until(`#${number} runs`, () => isRunning(number));
    const [first = "", second = ""] = preemption;
    const victim = numberOf(await type(first));
    await until("it trains", async () => (await type(`berth logs ${victim}`)).includes("epoch 1"));
    const urgent = numberOf(await type(second));
    await hasSucceeded(urgent);
    for (const number of others) await type(`berth cancel -y ${number}`);
    await hasSucceeded(victim);
    const logs = [1, 2].map((attempt) => type(`berth logs --attempt ${attempt} ${victim}`));
    const epochs = [...(await Promise.all(logs)).join("\n").matchAll(/epoch (\d+)/g)].map(([, epoch]) =>
      Number(epoch),
    );
    const { attempts } = await shown(victim);
    const isWhole = epochs.length === EPOCHS && epochs.every((epoch, index) => epoch === index);
    if (!isWhole || attempts.length !== 2 || attempts[0].outcome !== "preempted")
      throw new Error(`It did not go on where it was: ${epochs.join(" ")}, ${attempts[0].outcome}.`);
    await until("nothing runs", async () => (await Promise.all(others.map(shown))).every(isOver));
    return count + preemption.length;
  } finally {
    adapter?.kill("SIGTERM");
    await type("berth down").catch(() => undefined);
    remove();
  }

  // biome-ignore lint/suspicious/noExplicitAny: what the command says, looked at field by field.
  function shown(number: string): Promise<any> {
    return json(`berth job show ${number}`);
  }
  async function hasSucceeded(number: string): Promise<void> {
    await until(`#${number} has ended`, async () => isOver(await shown(number))).catch(() => undefined);
    const { status, phase, exit, attempts } = await shown(number);
    if (status === "released") return;
    const said = await type(`berth logs ${number}`).catch((error: Error) => error.message);
    throw new Error(`#${number} is ${status}: ${JSON.stringify({ phase, exit, attempts })} ${said}`);
  }
  async function isRunning(number: string): Promise<boolean> {
    return (await shown(number)).phase === "running";
  }
}

function isOver({ status }: { status: string }): boolean {
  return ["cancelled", "released", "failed"].includes(status);
}

/** "#42". */
function numberOf(said: string): string {
  return said.trim().replace("#", "");
}

/** The example that comes with Berth, with fewer epochs or more, and something that is served. */
function writeTraining(directory: string, epochs: number): void {
  mkdirSync(directory, { recursive: true });
  const train = join(directory, "train.py");
  copyFileSync(fileURLToPath(new URL("examples/train.py", ROOT)), train);
  writeFileSync(train, readFileSync(train, "utf8").replace('"EPOCHS", "10"', `"EPOCHS", "${epochs}"`));
  writeFileSync(join(directory, "serve.py"), "import time\ntime.sleep(1)\n");
}

async function startAdapter(adapter: ChildProcess): Promise<ChildProcess> {
  let said = "";
  for (const stream of [adapter.stdout, adapter.stderr])
    stream?.on("data", (data: Buffer) => {
      said += data.toString();
    });
  await until("the adapter says that it runs", async () => {
    if (adapter.exitCode !== null) throw new Error(`The adapter ended: ${said}`);
    return said.includes("runs the jobs of pool lab");
  });
  return adapter;
}

async function outputOf(child: ChildProcess, command: string, codes = [0]): Promise<string> {
  const chunks: [string, Buffer][] = [];
  for (const name of ["stdout", "stderr"] as const)
    child[name]?.on("data", (data: Buffer) => chunks.push([name, data]));
  const [code] = await once(child, "close");
  const text = (wanted: string) =>
    Buffer.concat(chunks.filter(([name]) => name === wanted).map(([, data]) => data)).toString();
  if (codes.includes(code as number)) return text("stdout");
  throw new Error(`"${command}" ended with ${code}: ${text("stderr")}${text("stdout")}`);
}
