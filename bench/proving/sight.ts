// Who sees what, on a server where own and foreign work share pools: nothing of what is hidden may be in any answer, in a
// stream read to its end, in a plan or in the metrics, for tokens bound by component alone, by pool alone, and by both.

import type { OpenedServer } from "../../src/server/index.ts";
import { Sight } from "../../src/server/sight.ts";

/** Filters that are taken out one at a time. Each must be missed: a proof that cannot fail proves nothing. */
export const SIGHT_CANARIES: Readonly<Record<string, () => () => void>> = {
  "components are named": () => replace("namesComponent", () => true),
  "ids are given out": () => replace("idOrNull", (id) => id),
  "events are not filtered": () => replace("event", (event) => event),
  "reasons are not filtered": () => replace("reasons", (reasons) => [...reasons]),
  "pools out of reach exist": () => replace("seesPool", () => true),
  "all requests are seen": () => replace("sees", () => true),
  "everything private is shown": () => replace("degreeOf", () => "whole"),
  "objects are not filtered": () => replace("filter", (shown) => shown),
  "bounds do not bind changes": () => replace("reachesMembers", () => true),
};

// Only within this process: a server has nothing that could switch a filter off.
function replace<Name extends keyof Sight>(
  name: Name,
  // biome-ignore lint/suspicious/noExplicitAny: stands in for whichever filter is taken out.
  filter: (...given: any[]) => unknown,
): () => void {
  const prototype = Sight.prototype as unknown as Record<string, unknown>;
  const sound = prototype[name];
  prototype[name] = filter;
  return () => {
    prototype[name] = sound;
  };
}

type Call = (method: string, path: string, body?: unknown) => Promise<{ status: number; text: string }>;

export interface SightProof {
  readonly answers: number;
  readonly leaks: readonly string[];
}

const PRIVATE = "privatemark";
const FOREIGN = "foreignmark";
const FAR = "farmark";

/** Each concerns everybody who uses the pool. */
const SHARED_CHANGES: readonly (readonly [string, ...Parameters<Call>])[] = [
  ["a change of a shared pool", "PATCH", "/v1/pools/half/policies/mine?dry_run=true", { priority: 2 }],
  ["enrolment in a shared pool", "POST", "/v1/nodes/newcomer/enrol", { pool: "farm" }],
];

export async function proveSight(server: OpenedServer, admin: string): Promise<SightProof> {
  const as =
    (secret: string): Call =>
    async (method, path, body) => {
      const answer = await fetch(server.url + path, {
        method,
        headers: {
          authorization: `Bearer ${secret}`,
          ...(body !== undefined && { "content-type": "application/json" }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      return { status: answer.status, text: await answer.text() };
    };
  const root = as(admin);
  const must = async (call: Call, method: string, path: string, body?: unknown) => {
    const { status, text } = await call(method, path, body);
    if (status >= 300) throw new Error(`${method} ${path} was answered with ${status}: ${text}`);
    return (text === "" ? {} : JSON.parse(text)) as { id: string; number: number; secret: string };
  };

  const settings = { visibility: "own", priority_preempts: "any" };
  await must(root, "PUT", "/v1/pools/half", { capacity: { half: 2 }, settings });
  await must(root, "PUT", "/v1/pools/even", { capacity: { even: 2 }, settings, discipline: "fair_share" });
  await must(root, "PUT", "/v1/pools/plain", { capacity: { plain: 2 } });
  await must(root, "PUT", "/v1/pools/farm", { settings: { executor: "agents" } });
  await must(root, "PUT", `/v1/pools/${FAR}`, {});
  await must(root, "PUT", `/v1/nodes/${FAR}-node`, { pool: FAR, capacity: { far: 2 } });
  for (const pool of ["half", "even", "plain", "farm"]) {
    await must(root, "PUT", `/v1/pools/${pool}/policies/mine`, { priority: 1 });
    await must(root, "PUT", `/v1/pools/${pool}/policies/${FOREIGN}`, { priority: 9 });
  }
  await must(root, "PUT", `/v1/pools/${FAR}/policies/mine`, { priority: 1 });
  await must(root, "PUT", `/v1/pools/${FAR}/policies/${FAR}-team`, { priority: 9 });

  const make = async (name: string, role: string, scope: object) =>
    (await must(root, "POST", "/v1/tokens", { name, role, ...scope })).secret;
  const near = ["half", "even", "plain"];
  const owner = await make("sight owner", "user", { components: ["mine"] });
  const readers = {
    "component alone": { secret: owner, hidden: [FOREIGN] },
    "operator of a component": {
      secret: await make("sight operator", "operator", { components: ["mine"] }),
      hidden: [FOREIGN],
    },
    "pools alone": { secret: await make("sight pools", "operator", { pools: near }), hidden: [FAR] },
    "component and pools": {
      secret: await make("sight both", "user", { components: ["mine"], pools: near }),
      hidden: [FOREIGN, FAR],
    },
  };

  // The story: own work is preempted by foreign work, waits behind it, and is refused in pools near and far.
  const ask = (call: Call, component: string, key: string, more = {}) =>
    must(call, "POST", "/v1/resource-requests", { component, resources: { [key]: 2 }, ...more });
  const startSeq = server.leader.seq();
  const victim = await ask(as(owner), "mine", "half", { name: "victim", note: PRIVATE });
  const strange = { name: `${FOREIGN} job`, operation: `${FOREIGN}-operation` };
  const taker = await ask(root, FOREIGN, "half", strange);
  await ask(root, FOREIGN, "even", strange);
  await ask(root, FOREIGN, "even", strange);
  const waiting = await ask(as(owner), "mine", "even");
  const refused = await ask(as(owner), "mine", "nowhere");
  const far = await ask(root, `${FAR}-team`, "far", { name: `${FAR} job` });
  await must(root, "POST", `/v1/nodes/${FAR}-node/drain`, {});
  const open = await ask(root, FOREIGN, "plain", {
    name: "seen by all",
    note: PRIVATE,
    labels: { k: PRIVATE },
  });

  let answers = 0;
  const leaks: string[] = [];
  const ids: Record<string, readonly string[]> = { [FOREIGN]: [taker.id], [FAR]: [far.id] };
  for (const [who, { secret, hidden }] of Object.entries(readers)) {
    const call = as(secret);
    const check = (where: string, text: string, marks: readonly string[]) => {
      answers++;
      for (const mark of marks) {
        if (text.includes(mark)) leaks.push(`${where} for ${who} shows ${mark}`);
      }
    };
    const marks = hidden.flatMap((mark) => [`${mark}-`, `${mark} `, ...(ids[mark] ?? [])]);
    const paths = [
      "/v1/resource-requests?limit=1000&pool=half",
      "/v1/resource-requests?limit=1000&status=rejected",
      `/v1/resource-requests?pool=${FAR}`,
      ...[victim, waiting, refused].flatMap(({ id }) =>
        ["", "/explanation", "/decisions"].map((part) => `/v1/resource-requests/${id}${part}`),
      ),
      ...["half", "even"].flatMap((pool) =>
        ["", "/queue", "/shares", "/policies", "/groups", "/history"].map(
          (part) => `/v1/pools/${pool}${part}`,
        ),
      ),
      ...["half", "even", FAR].flatMap((pool) => [
        `/v1/queue?pool=${pool}`,
        `/v1/usage?pool=${pool}&by=team,user`,
        ...["component", "node", "request"].map((by) => `/v1/timeline?pool=${pool}&lanes=${by}`),
      ]),
      ...["/v1/overview", "/v1/queue", "/v1/jobs", "/v1/operations", "/v1/nodes"],
    ];
    for (const path of paths) {
      const { status, text } = await call("GET", path);
      if (status !== 200 && status !== 404) leaks.push(`${path} for ${who} was answered with ${status}`);
      check(path, text, [...marks, ...policyMarks(hidden)]);
    }
    check(
      "a plan",
      (await call("POST", `/v1/resource-requests/${victim.id}/cancel?dry_run=true`)).text,
      marks,
    );
    check("metrics", (await call("GET", "/metrics")).text, hiddenInMetrics(hidden));
    check("the stream", await streamOf(server, secret, startSeq, root), marks);
    check("private data", (await call("GET", `/v1/resource-requests/${open.id}`)).text, privateTo(who));
    check("labels", (await call("GET", `/v1/resource-requests?label=k=${PRIVATE}`)).text, privateTo(who));
    if (hidden.includes(FAR))
      check("a rejection", (await call("GET", `/v1/resource-requests/${refused.id}`)).text, [FAR]);
    if (who.includes("component") && !who.includes("pools")) {
      for (const [what, ...change] of SHARED_CHANGES) {
        const { status } = await call(...change);
        answers++;
        if (status !== 403) leaks.push(`${what} by ${who} was answered with ${status}`);
      }
    }
  }
  return { answers, leaks };
}

/** Where policies and holders are listed, the bare name of the component is looked for. */
function policyMarks(hidden: readonly string[]): string[] {
  return hidden.map((mark) => `"${mark}"`);
}

function hiddenInMetrics(hidden: readonly string[]): string[] {
  return hidden.flatMap((mark) =>
    mark === FAR ? [`pool="${FAR}"`] : [`pool="even",element="${mark}"`, `pool="half",element="${mark}"`],
  );
}

/** Operators see what is private; the others of these have neither submitted it nor do they operate its component. */
function privateTo(who: string): string[] {
  return who === "pools alone" ? [] : [PRIVATE];
}

/** Everything from the beginning of the story to an event that everybody hears. */
async function streamOf(server: OpenedServer, secret: string, afterSeq: number, root: Call): Promise<string> {
  const abort = new AbortController();
  const answer = await fetch(`${server.url}/v1/events?after=${afterSeq}`, {
    headers: { authorization: `Bearer ${secret}` },
    signal: abort.signal,
  });
  await root("PATCH", "/v1/settings", { unmanaged: "allow" });
  await root("PATCH", "/v1/settings", { unmanaged: "reject" });
  let text = "";
  for await (const part of answer.body as unknown as AsyncIterable<Uint8Array>) {
    text += Buffer.from(part).toString("utf8");
    if (/"unmanaged":"reject"/.test(text)) break;
  }
  abort.abort();
  // What happens in the pool that hides nothing is for everybody.
  return text
    .split("\n\n")
    .filter((block) => !block.includes('"pool":"plain"') && !block.includes("seen by all"))
    .join("\n\n");
}
