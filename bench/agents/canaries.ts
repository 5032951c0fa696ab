// Faults of agents, shims and servers that the proof must find, each planted in a copy of the source.

import type { Fault } from "../proving/canaries.ts";
import type { Round } from "./faults.ts";
import type { Question } from "./judge.ts";
import type { LoadOptions, Wish } from "./load.ts";

export interface Canary {
  readonly what: string;
  readonly faults: readonly Fault[];
  /** Which rounds bring it to light. */
  readonly rounds: readonly Round[];
  /** By which of the questions it must be found: one that shows by chance proves nothing. */
  readonly finders: readonly Question[];
  readonly load: LoadOptions;
}

const startedTwice: Fault = {
  what: "a claim that every process gets",
  file: "src/agent/claims.ts",
  text: 'if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;',
  instead: 'if ((error as NodeJS.ErrnoException).code === "EEXIST") return true;',
};

/** The second one would fail to listen. */
const ownSocket: Fault = {
  what: "",
  file: "src/agent/shim.ts",
  text: 'listenForAgents(join(directory, "socket"))',
  instead: 'listenForAgents(join(directory, "socket" + String(process.pid)))',
};

/** An agent that never connects does not renew its lease: on a slow machine it would stand still before it shows. */
const endlessLease: Fault = {
  what: "",
  file: "src/agent/agent.ts",
  text: "const LEASE_SHARE = 2 / 3;",
  instead: "const LEASE_SHARE = 20;",
};

const at = (fault: Round["fault"], ...moments: readonly Round["moment"][]): Round[] =>
  moments.map((moment) => ({ fault, moment }));
/** There is always room: no job waits for a preemption, which a fault may make impossible. */
const LIGHT_LOAD: LoadOptions = { live: 4, usual: { gpus: 1, nodes: 1 }, patienceMs: 8_000 };
/** A job that has begun, and has not ended when its node is back. */
const UNDER_WAY: Partial<Wish> = { kind: "short", ms: 12_000, gpus: 1, onLost: "suspend" };
const during = (fault: Round["fault"]): Round[] => [{ fault, moment: "start", under: UNDER_WAY }];
const END_IN_A_CUT: Round = {
  ...{ fault: "node cut", moment: "start", how: "reset" },
  under: { kind: "short", ms: 2_000, gpus: 1, onLost: "suspend" },
};
const LONG_CUT: Round = {
  ...{ fault: "node cut", moment: "start", isLong: true, how: "silent" },
  under: { kind: "tree", ms: 60_000, gpus: 1, requeue: "on_failure", onLost: "suspend" },
};

export const CANARIES: readonly Canary[] = [
  canary(
    "an agent whose tokens are not written down for the next one",
    {
      file: "src/executors/journal.ts",
      text: 'const jobs = join(directory, "jobs");',
      instead: "const jobs = join(directory, String(process.pid));",
    },
    { rounds: during("agent killed"), finders: ["exits lost"] },
  ),
  {
    what: "an agent that starts again what it finds",
    faults: [
      ...[startedTwice, ownSocket, endlessLease],
      {
        what: "",
        file: "src/agent/finding.ts",
        text: 'alive: "adopt"',
        instead: 'alive: "start"',
      },
    ],
    rounds: during("agent killed"),
    finders: ["double starts"],
    load: LIGHT_LOAD,
  },
  {
    what: "a second start after a reset",
    faults: [
      ...[startedTwice, ownSocket, endlessLease],
      {
        what: "",
        file: "src/agent/finding.ts",
        text: 'if (bootId !== currentBootId) return "lost";',
        instead: 'if (bootId !== currentBootId) return "start";',
      },
    ],
    rounds: during("machine reset"),
    finders: ["double starts"],
    load: LIGHT_LOAD,
  },
  canary(
    "an end that is forgotten when its report fails",
    {
      file: "src/executors/loop.ts",
      text: "        await compareAgain();",
      instead: `        await compareAgain();
        for (const token of [...ended]) {
          const entry = entries.get(token) as Entry<O>;
          acknowledge(entry);
          journal.prune(Number.POSITIVE_INFINITY);
        }`,
    },
    { rounds: [END_IN_A_CUT], finders: ["double starts"] },
  ),
  canary(
    "an end that is reported before the whole tree has ended",
    { file: "src/agent/supervision.ts", text: "    await job.gone;\n", instead: "" },
    {
      rounds: at("agent killed", "stop", "start"),
      finders: ["survivors of ended jobs"],
      load: { ...LIGHT_LOAD, usual: { ...LIGHT_LOAD.usual, kind: "tree" } },
    },
  ),
  canary(
    "a shim that drops output",
    {
      file: "src/agent/shim.ts",
      text: "      log.write(stream, data);",
      instead: "      if (Math.random() > 0.01) log.write(stream, data);",
    },
    { rounds: at("agent killed", "start"), finders: ["logs incomplete"] },
  ),
  canary(
    "a reader that comes back is sent everything again",
    {
      file: "src/server/logs.ts",
      text: "from: call.query.from ?? 0,",
      instead: "from: Math.min(0, call.query.from ?? 0),",
    },
    { rounds: during("server replaced"), finders: ["logs incomplete"] },
  ),
  canary("an agent that does not honour the lease of its node", endlessLease, {
    rounds: [LONG_CUT],
    finders: ["requests alive twice"],
  }),
  canary(
    "a server that gives away the work of a node that still runs it",
    {
      file: "src/leader/nodes.ts",
      text: "leaseMs: (nodeLostMs * 2) / 3, patienceMs: nodeLostMs,",
      instead: "leaseMs: nodeLostMs / 3, patienceMs: nodeLostMs / 3,",
    },
    { rounds: [LONG_CUT], finders: ["requests alive twice"] },
  ),
  canary(
    "an agent that leaves alone what is no longer wanted",
    {
      file: "src/agent/agent.ts",
      text: 'stop: (token) => parts.get(token)?.say({ kind: "kill" }),',
      instead: "stop: () => undefined,",
    },
    { rounds: [LONG_CUT], finders: ["survivors of ended jobs"] },
  ),
];

function canary(
  what: string,
  fault: Omit<Fault, "what">,
  rest: Pick<Canary, "rounds" | "finders"> & Partial<Canary>,
): Canary {
  return { what, faults: [{ ...fault, what }], load: LIGHT_LOAD, ...rest };
}
