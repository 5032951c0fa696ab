// Machines, and as whom jobs run (E1, E6). As whom, by the role of the submitter, what its token says and whom the job names:
// what the node is sent must be what the table below says. And the agent of another node: with its own token, and with every
// secret of an assignment that is not its own, it changes nothing and learns nothing.

import { setTimeout as delay } from "node:timers/promises";
import { type OpenedServer, openServer } from "../../src/server/index.ts";
import type { Fault } from "./canaries.ts";
import { NO_LIMITS } from "./rates.ts";

export interface MachineProof {
  readonly calls: number;
  readonly faults: readonly string[];
}

export const MACHINE_CANARIES: readonly Fault[] = [
  {
    what: "a token that names whom it likes",
    file: "src/server/routes/jobs.ts",
    text: "if (user !== undefined && !mayNameAny && !users?.includes(user)) {",
    instead: 'if (user === "") {',
  },
  {
    what: "a default user that is forgotten",
    file: "src/server/routes/jobs.ts",
    text: "return user === undefined ? run : { ...run, user };",
    instead: "return run;",
  },
  {
    what: "checkpoints from a node that does not run the job",
    file: "src/server/routes/agents.ts",
    text: "guard: (view) => runsFor(view, id, reporter),",
    instead: "",
  },
  {
    what: "output from a node that does not run the job",
    file: "src/server/agents/readers.ts",
    text: "if (reader === undefined || reader.reporter !== reporter) return undefined;",
    instead: "if (reader === undefined) return undefined;",
  },
];

type Role = "user" | "operator" | "admin";
const REFUSED = "refused";
const NOBODY = "nobody is named";

/** Written by hand: role, `run_as` of its token, whom the job names, and as whom it then runs. */
const RUN_AS: readonly (readonly [Role, readonly string[] | undefined, string | undefined, string])[] = [
  ["user", undefined, undefined, NOBODY],
  ["user", undefined, "alice", REFUSED],
  ["user", undefined, "root", REFUSED],
  ["user", ["alice", "bob"], undefined, "alice"],
  ["user", ["alice", "bob"], "alice", "alice"],
  ["user", ["alice", "bob"], "bob", "bob"],
  ["user", ["alice", "bob"], "carol", REFUSED],
  ["user", ["alice", "bob"], "root", REFUSED],
  ["user", ["alice", "bob"], "ALICE", REFUSED],
  ["operator", undefined, undefined, NOBODY],
  ["operator", undefined, "carol", "carol"],
  ["operator", ["alice"], undefined, "alice"],
  ["operator", ["alice"], "carol", REFUSED],
  ["admin", undefined, undefined, NOBODY],
  ["admin", undefined, "carol", "carol"],
  ["admin", ["alice"], undefined, "alice"],
  ["admin", ["alice"], "carol", REFUSED],
];

const WAIT_MS_MAX = 20_000;

export async function proveMachines(): Promise<MachineProof> {
  const server = await openServer({
    data: "memory",
    listen: "127.0.0.1:0",
    rates: NO_LIMITS,
    onFatal: (error) => {
      throw error;
    },
  });
  try {
    const world = await createWorld(server);
    await proveRunAs(world);
    await proveNodes(world);
    return { calls: world.calls, faults: world.faults };
  } finally {
    await server.close();
  }
}

// biome-ignore lint/suspicious/noExplicitAny: whatever the server says; the proof looks at it field by field.
type Body = any;
type Call = (method: string, path: string, body?: unknown) => Promise<{ status: number; body: Body }>;
type World = Awaited<ReturnType<typeof createWorld>>;

async function createWorld({ url, firstToken }: OpenedServer) {
  const faults: string[] = [];
  const proof = { calls: 0, faults };
  const admin = firstToken?.secret as string;
  const as =
    (secret: string): Call =>
    async (method, path, body) => {
      proof.calls++;
      const answer = await fetch(url + path, {
        method,
        headers: {
          authorization: `Bearer ${secret}`,
          ...(body !== undefined && { "content-type": "application/json" }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      const text = await answer.text();
      return { status: answer.status, body: text === "" ? {} : JSON.parse(text) };
    };
  const call = as(admin);
  await call("PUT", "/v1/pools/lab", { settings: { executor: "agents" } });
  await call("PUT", "/v1/pools/lab/policies/own", { priority: 1 });
  const nodes = new Map<string, Call>();
  for (const name of ["one", "two"]) {
    const { body: enrolled } = await call("POST", `/v1/nodes/${name}/enrol`, { pool: "lab" });
    const capacity = { gpu: RUN_AS.length * 2 };
    const { body: joined } = await as(enrolled.join_token)("POST", `/v1/nodes/${name}/join`, { capacity });
    nodes.set(name, as(joined.node_token));
  }
  const expect = (what: string, got: unknown, want: unknown) => {
    if (JSON.stringify(got) !== JSON.stringify(want))
      faults.push(`${what}: wanted ${JSON.stringify(want)}, got ${JSON.stringify(got)}`);
  };
  /** What a node says that it runs, and the answer. */
  const sync = async (node: string, jobs: readonly object[] = []): Promise<Body> => {
    const body = { session: node, boot_id: "b", agent_version: "0", jobs };
    return (await (nodes.get(node) as Call)("POST", `/v1/nodes/${node}/sync`, body)).body;
  };
  return Object.assign(proof, { url, admin, as, call, nodes, expect, sync });
}

async function proveRunAs({ as, call, expect, sync }: World): Promise<void> {
  for (const [index, [role, runAs, named, want]] of RUN_AS.entries()) {
    const { body: made } = await call("POST", "/v1/tokens", {
      ...{ name: `token-${index}`, role },
      ...(role === "user" && { components: ["own"] }),
      ...(runAs !== undefined && { run_as: runAs }),
    });
    const run = { command: ["true"], ...(named !== undefined && { user: named }) };
    const job = { component: "own", resources: { gpu: 1 }, run };
    const ways = { "/v1/jobs": job, "/v1/jobs/array": { job, indices: [0] } };
    for (const [path, body] of Object.entries(ways)) {
      const answer = await as(made.secret)("POST", path, body);
      const id = answer.body.id ?? answer.body.results?.[0]?.id;
      const sent = [...(await sync("one")).jobs, ...(await sync("two")).jobs];
      const part = sent.find(({ request_id }) => request_id === id);
      const got =
        id === undefined ? (answer.status === 403 ? REFUSED : answer.status) : (part?.run?.user ?? NOBODY);
      const what = `${path} by ${role} with run_as ${runAs?.join() ?? "unsaid"}, for ${named ?? "nobody"}`;
      expect(what, got, want);
    }
  }
}

/** What the agent of another node can do to an assignment, of which it knows all. */
async function proveNodes({ url, admin, call, nodes, expect, sync }: World): Promise<void> {
  const { body: job } = await call("POST", "/v1/jobs", {
    ...{ component: "own", resources: { gpu: 1 }, checkpoint: "auto", name: "target" },
    run: { command: ["true"], environment: { SECRET: "value-of-own" } },
  });
  const [owner, other] = job.where[0].node === "one" ? (["one", "two"] as const) : (["two", "one"] as const);
  const stranger = nodes.get(other) as Call;
  const part = (await sync(owner)).jobs.find(({ request_id }: Body) => request_id === job.id);
  const about = { request_id: job.id, token: part.token };
  const state = async () => {
    const { body } = await call("GET", `/v1/jobs/${job.id}`);
    return { status: body.status, phase: body.phase, exit: body.exit, attempts: body.attempts.length };
  };
  const before = await state();
  const end = { outcome: "succeeded", exit_code: 0 };
  for (const lie of [
    { phase: "running" },
    { phase: "ended", end },
    { phase: "ended", end: { outcome: "lost" } },
  ]) {
    const answer = await sync(other, [{ ...about, ...lie }]);
    expect(`a sync of another node with ${lie.phase}`, await state(), before);
    expect("what it is sent of it", JSON.stringify(answer).includes("value-of-own"), false);
    expect(
      "whether it should run it",
      answer.jobs.some(({ request_id }: Body) => request_id === job.id),
      false,
    );
  }
  for (const report of ["progress", "done", "defer"]) {
    const body = { ...about, report, ...(report === "defer" && { seconds: 60 }) };
    const { status } = await stranger("POST", `/v1/nodes/${other}/checkpoint`, body);
    expect(`a checkpoint (${report}) from another node is refused`, status >= 400 && status < 500, true);
  }
  for (const [path, body] of [
    ["sync", { session: "s", boot_id: "b", agent_version: "0", jobs: [{ ...about, phase: "ended", end }] }],
    ["checkpoint", { ...about, report: "done" }],
    ["logs/reader", { from: 0, parts: [], is_end: true }],
  ] as const)
    expect(path, (await stranger("POST", `/v1/nodes/${owner}/${path}`, body)).status, 403);
  expect("what became of it", await state(), before);

  const answer = fetch(`${url}/v1/jobs/${job.id}/logs`, { headers: { authorization: `Bearer ${admin}` } });
  const reader = await wantedReader(() => sync(owner, [{ ...about, phase: "running" }]));
  const piece = (text: string) => {
    const data = Buffer.from(text).toString("base64");
    return { from: 0, parts: [{ stream: "stdout", data }], is_end: true };
  };
  await stranger("POST", `/v1/nodes/${other}/logs/${reader}`, piece("forged"));
  await (nodes.get(owner) as Call)("POST", `/v1/nodes/${owner}/logs/${reader}`, piece("as it was written"));
  expect("output", await (await answer).text(), "as it was written");

  await call("DELETE", `/v1/nodes/${other}?force=true`);
  const { status } = await stranger("POST", `/v1/nodes/${other}/sync`, {
    ...{ session: "s", boot_id: "b", agent_version: "0", jobs: [] },
  });
  expect("the token of a node that was removed", status === 401 || status === 403 || status === 404, true);
}

async function wantedReader(sync: () => Promise<Body>): Promise<string> {
  for (const endMs = performance.now() + WAIT_MS_MAX; performance.now() < endMs; await delay(20)) {
    const [log] = (await sync()).logs;
    if (log !== undefined) return log.reader;
  }
  throw new Error("Nobody reads the log.");
}
