// A real Slurm on this machine: munged, mariadbd, slurmdbd, slurmctld and three slurmd with a configuration of their own in a
// temporary directory. Installs nothing, listens on 127.0.0.1 only, and touches no other Slurm of this machine.

import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { hostname, userInfo } from "node:os";
import { delimiter, join } from "node:path";
import { createDaemons } from "../clusters/daemons.ts";
import { freePorts, until } from "../clusters/world.ts";

export interface SlurmCluster {
  readonly directory: string;
  /** For programs that speak to it. */
  readonly env: NodeJS.ProcessEnv;
  readonly nodes: readonly string[];
  /** Where `sbatch` and its relatives are; undefined: on the path. */
  readonly bin: string | undefined;
  /** Runs one of Slurm's commands; rejects with what it wrote on standard error. */
  run(program: string, ...args: string[]): Promise<string>;
  /** SIGKILL, as a power cut would. */
  killController(): Promise<void>;
  startController(): Promise<void>;
  killNode(node: string): Promise<void>;
  startNode(node: string): Promise<void>;
  close(): Promise<void>;
}

export interface ClusterOptions {
  readonly gpusPerNode?: number;
  readonly cpusPerNode?: number;
  /** Of `slurm.conf`, in addition. */
  readonly more?: readonly string[];
}

const NODES = ["n1", "n2", "n3"] as const;
const DAEMONS = ["munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd"] as const;
const COMMANDS = ["sbatch", "squeue", "sacct", "scontrol", "scancel", "sacctmgr"] as const;
const DEBIAN: Record<string, string> = {
  munged: "munge",
  mariadbd: "mariadb-server",
  "mariadb-install-db": "mariadb-server",
  slurmdbd: "slurmdbd",
};

/** What is missing on this machine, as sentences. */
export function missingPrograms(): string[] {
  if (process.getuid?.() !== 0) return ["Only root can start slurmd: run this as root."];
  return [...DAEMONS, ...COMMANDS]
    .filter((name) => findProgram(name) === undefined)
    .map((name) => `${name} is missing (Debian: ${DEBIAN[name] ?? "slurm-wlm"}).`);
}

/** `SLURM_BIN`, then the path, then where daemons are. */
function findProgram(name: string): string | undefined {
  const places = [process.env.SLURM_BIN, ...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", "/sbin"];
  return places
    .filter((place) => place !== undefined && place !== "")
    .map((place) => join(place as string, name))
    .find((path) => existsSync(path));
}

export async function openSlurmCluster(options: ClusterOptions = {}): Promise<SlurmCluster> {
  const daemons = createDaemons("slurm");
  const { directory, kill } = daemons;
  const ports = await freePorts(3 + NODES.length);
  writeConfiguration(directory, ports, options);
  const env = { ...process.env, SLURM_CONF: join(directory, "slurm.conf"), TZ: "UTC" };
  const start = (name: string, program: string, ...args: string[]) =>
    daemons.start(name, findProgram(program) as string, args, env);

  const run = (program: string, ...args: string[]) =>
    new Promise<string>((resolve, reject) => {
      execFile(findProgram(program) as string, args, { env, maxBuffer: 1 << 26 }, (error, stdout, stderr) =>
        error === null
          ? resolve(stdout)
          : reject(new Error(`${program} ${args.join(" ")}: ${stderr.trim()}`)),
      );
    });

  const cluster: SlurmCluster = {
    directory,
    env,
    nodes: NODES,
    bin: process.env.SLURM_BIN,
    run,
    killController: () => kill("slurmctld"),
    async startController() {
      start("slurmctld", "slurmctld", "-D", "-f", env.SLURM_CONF);
      await until("slurmctld answers", async () => (await run("scontrol", "ping")).includes("UP"));
    },
    killNode: (node) => kill(node),
    async startNode(node) {
      start(node, "slurmd", "-D", "-N", node, "-f", env.SLURM_CONF);
    },
    close: daemons.close,
  };
  try {
    await bringUp(cluster, { directory, start, port: ports[0] as number });
  } catch (error) {
    for (const name of ["slurmctld", "slurmdbd", "munged"]) daemons.tellLog(name);
    await cluster.close();
    throw error;
  }
  return cluster;
}

async function bringUp(
  cluster: SlurmCluster,
  {
    directory,
    start,
    port,
  }: {
    directory: string;
    port: number;
    start: (name: string, program: string, ...args: string[]) => void;
  },
): Promise<void> {
  const { run } = cluster;
  const at = (name: string) => join(directory, name);
  start(
    ...(["munged", "munged", "--foreground", "--force", `--key-file=${at("munge/munge.key")}`] as const),
    ...[`--socket=${at("munge/socket")}`, `--pid-file=${at("munge/pid")}`, `--log-file=${at("munge/log")}`],
    `--seed-file=${at("munge/seed")}`,
  );
  const user = `--user=${userInfo().username}`;
  await run(
    "mariadb-install-db",
    "--no-defaults",
    `--datadir=${at("mysql")}`,
    user,
    "--auth-root-authentication-method=normal",
    "--skip-test-db",
  );
  start(
    ...([
      "mariadbd",
      "mariadbd",
      "--no-defaults",
      `--datadir=${at("mysql")}`,
      `--socket=${at("mysql.sock")}`,
    ] as const),
    ...["--bind-address=127.0.0.1", `--port=${port}`, `--pid-file=${at("mysql.pid")}`, user],
    ...[
      "--innodb-buffer-pool-size=128M",
      "--innodb-flush-log-at-trx-commit=2",
      "--innodb-lock-wait-timeout=900",
    ],
  );
  await until("mariadbd listens", async () => existsSync(at("mysql.sock")));
  start("slurmdbd", "slurmdbd", "-D");
  await until("slurmdbd answers", async () => (await run("sacctmgr", "-n", "list", "cluster")) !== undefined);
  await run("sacctmgr", "-i", "add", "cluster", "berthproof");
  await cluster.startController();
  for (const node of NODES) await cluster.startNode(node);
  await until("the nodes are idle", async () => {
    const states = await run("sinfo", "-h", "-N", "-o", "%T");
    return states
      .trim()
      .split("\n")
      .every((state) => state === "idle");
  });
}

function writeConfiguration(directory: string, ports: readonly number[], options: ClusterOptions): void {
  const { gpusPerNode = 2, cpusPerNode = 4, more = [] } = options;
  for (const name of ["munge", "mysql", "state", "spool", "run"]) mkdirSync(join(directory, name));
  chmodSync(join(directory, "munge"), 0o755);
  writeFileSync(join(directory, "munge/munge.key"), randomBytes(1024), { mode: 0o400 });
  const at = (name: string) => join(directory, name);
  const [database, dbd, controller, ...own] = ports;
  const nodes = NODES.map(
    (name, index) =>
      `NodeName=${name} NodeHostname=${hostname()} NodeAddr=127.0.0.1 Port=${own[index]} CPUs=${cpusPerNode} RealMemory=2000 Gres=gpu:${gpusPerNode} State=UNKNOWN`,
  );
  const shared = ["AuthType=auth/munge", `AuthInfo=socket=${at("munge/socket")}`, "SlurmUser=root"];
  const conf = [
    ...shared,
    "ClusterName=berthproof",
    `SlurmctldHost=${hostname()}(127.0.0.1)`,
    "SlurmdUser=root",
    `SlurmctldPort=${controller}`,
    `SlurmctldPidFile=${at("run/slurmctld.pid")}`,
    `SlurmdPidFile=${at("run/slurmd.%n.pid")}`,
    `SlurmdSpoolDir=${at("spool/%n")}`,
    `StateSaveLocation=${at("state")}`,
    `SlurmctldLogFile=${at("slurmctld.log")}`,
    `SlurmdLogFile=${at("slurmd.%n.log")}`,
    "ProctrackType=proctrack/linuxproc",
    "TaskPlugin=task/none",
    "JobAcctGatherType=jobacct_gather/none",
    "SelectType=select/cons_tres",
    "SelectTypeParameters=CR_CPU_Memory",
    "DefMemPerCPU=100",
    "SlurmdParameters=config_overrides",
    "GresTypes=gpu",
    "AccountingStorageType=accounting_storage/slurmdbd",
    "AccountingStorageHost=127.0.0.1",
    `AccountingStoragePort=${dbd}`,
    `AccountingStoragePass=${at("munge/socket")}`,
    "MpiDefault=none",
    "ReturnToService=2",
    "SlurmctldTimeout=30",
    "SlurmdTimeout=30",
    "InactiveLimit=0",
    "KillWait=5",
    "MinJobAge=60",
    "MessageTimeout=30",
    "SchedulerParameters=sched_interval=2,bf_interval=2,sched_min_interval=100000",
    ...more,
    ...nodes,
    `PartitionName=berth Nodes=${NODES.join(",")} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO`,
  ];
  writeFileSync(at("slurm.conf"), `${conf.join("\n")}\n`);
  // Devices that every machine has stand for GPUs: nothing opens them.
  const devices = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"].slice(
    0,
    gpusPerNode,
  );
  writeFileSync(at("gres.conf"), `${devices.map((file) => `Name=gpu File=${file}`).join("\n")}\n`);
  const dbdConf = [
    ...shared,
    `DbdHost=${hostname()}`,
    "DbdAddr=127.0.0.1",
    `DbdPort=${dbd}`,
    `LogFile=${at("slurmdbd.log")}`,
    `PidFile=${at("run/slurmdbd.pid")}`,
    "StorageType=accounting_storage/mysql",
    "StorageHost=127.0.0.1",
    `StoragePort=${database}`,
    "StorageUser=root",
    "StorageLoc=slurm_acct_db",
  ];
  writeFileSync(at("slurmdbd.conf"), `${dbdConf.join("\n")}\n`, { mode: 0o600 });
}
