// An agent without processes: it says what the test tells it to say, by the protocol alone. The server's tests use it, so
// that they do not depend on what a real agent does.

import type { Caller } from "../e2e/server-support.ts";

// biome-ignore lint/suspicious/noExplicitAny: tests read what they expect.
type Json = any;

export interface ScriptedAgent {
  readonly node: string;
  readonly call: Caller;
  /** What it lists in every sync, by grant token. */
  readonly jobs: Map<string, Json>;
  /** Says everything, and returns what should run. With `hold` the server may wait until something changes. */
  sync(extra?: { hold?: boolean; more?: object }): Promise<Json>;
  /** Takes up whatever is wanted and not known yet, and says that it runs. */
  takeUp(): Promise<Json>;
  /** Says how a part ended, until the server no longer wants it. */
  end(token: string, end: object): Promise<Json>;
}

export async function joinAgent(
  server: { readonly admin: Caller; as(secret: string): Caller },
  node: string,
  { pool = "cluster", capacity = { gpu: 4 } as Record<string, number>, session = "s1" } = {},
): Promise<ScriptedAgent> {
  const { body: enrolled } = await server.admin("POST", `/v1/nodes/${node}/enrol`, { pool });
  const { body: joined } = await server.as(enrolled.join_token)("POST", `/v1/nodes/${node}/join`, {
    capacity,
  });
  return agentWith(server.as(joined.node_token), node, session);
}

export function agentWith(call: Caller, node: string, session: string): ScriptedAgent {
  const jobs = new Map<string, Json>();
  let seen: string | undefined;
  let wantedLast: Json[] = [];

  async function sync({ hold = false, more = {} }: { hold?: boolean; more?: object } = {}): Promise<Json> {
    const answer = await call("POST", `/v1/nodes/${node}/sync`, {
      ...{ session, boot_id: "boot", agent_version: "test", jobs: [...jobs.values()] },
      ...(hold && { wait_seconds: 5, seen }),
      ...more,
    });
    if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
    seen = answer.body.version;
    wantedLast = answer.body.jobs;
    // What has ended and is not wanted any more is acknowledged.
    const wanted = new Set(answer.body.jobs.map(({ token }: Json) => token));
    for (const token of [...jobs.keys()]) if (!wanted.has(token)) jobs.delete(token);
    return answer.body;
  }

  return {
    node,
    call,
    jobs,
    sync,
    async takeUp() {
      const wanted = await sync();
      for (const { request_id, token } of wanted.jobs) {
        if (!jobs.has(token)) jobs.set(token, { request_id, token, phase: "running" });
      }
      return sync();
    },
    end(token, end) {
      const { request_id } = wantedLast.find((job) => job.token === token);
      jobs.set(token, { ...jobs.get(token), request_id, token, phase: "ended", end });
      return sync();
    },
  };
}
