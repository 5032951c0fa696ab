// Explanations beside the server: a request may go while its own is worked out, and time may pass as a test says.

import { expect, onTestFinished, test } from "vitest";
import { createRig, pool, request, submit } from "../../test/simulation/rig.ts";
import {
  type ComponentName,
  explain as explainState,
  type PoolSettings,
  type RequestId,
} from "../engine/index.ts";
import { ForesightError } from "../foresight/index.ts";
import type { Call, Services } from "./call.ts";
import { explain, explainNow } from "./explanations.ts";
import { createGrants } from "./grants.ts";
import { type Identity, identityOf } from "./identity.ts";
import { openServer } from "./index.ts";
import { locate } from "./locate.ts";

test("a request that is deleted while its explanation is worked out is not found", async () => {
  const server = await openServer({ data: "memory", listen: "127.0.0.1:0", onFatal: () => undefined });
  onTestFinished(() => server.close());
  const { leader, store, firstToken, url } = server;
  const api = async (method: string, path: string, body?: object) => {
    const headers = { authorization: `Bearer ${firstToken?.secret}`, "content-type": "application/json" };
    const answer = await fetch(url + path, { method, headers, body: JSON.stringify(body ?? {}) });
    return (await answer.json().catch(() => ({}))) as { id: string };
  };
  await api("PUT", "/v1/pools/p", { capacity: { gpu: 1 } });
  await api("PUT", "/v1/pools/p/policies/a", { priority: 1 });
  await api("POST", "/v1/resource-requests", { component: "a", resources: { gpu: 1 } });
  const { id } = await api("POST", "/v1/resource-requests", { component: "a", resources: { gpu: 1 } });

  const [token] = await store.listTokens();
  const call = { identity: identityOf(token!), params: { id } } as unknown as Call;
  const ask = async () => {
    const facts = await leader.read(({ state, nowMs }) => explainState(state, id as RequestId, nowMs));
    await api("DELETE", `/v1/resource-requests/${id}?force=true`);
    return { facts, suggestions: { all: [], isTruncated: false }, starts: null, next: null, before: null };
  };
  const grants = createGrants(leader.grantKeys);
  const services = {
    leader,
    store,
    grants,
    foresight: { ask },
    hear: () => undefined,
  } as unknown as Services;
  const asked = { suggestions: false, before: undefined };
  const explained = explain(call, services, await locate(call, services), asked);
  await expect(explained).rejects.toMatchObject({ problem: { code: "not_found" } });
});

test("without the foresight thread an explanation has all its facts, and says that nothing was tried (X4)", async () => {
  const { leader, store, do: perform } = await createRig();
  await perform({ kind: "createPool", name: pool("main"), capacity: { gpu: 1 } });
  await perform({ kind: "attachPolicy", policy: { pool: pool("main"), component: "team" as ComponentName } });
  for (const id of ["runs", "waits"]) await perform(submit(id));
  const grants = createGrants(leader.grantKeys);
  const ask = () => Promise.reject(new ForesightError("foresight_unavailable", "The thread is away."));
  const agents = { reportOf: () => undefined };
  const parts = { leader, store, grants, agents, foresight: { ask }, hear: () => undefined };
  const services = parts as unknown as Services;
  const call = { identity: ANN, params: { id: "waits" } } as unknown as Call;
  const told = async (suggestions: boolean) => {
    const located = await locate(call, services);
    return explain(call, services, located, { suggestions, before: undefined });
  };
  const changesIn = ({ text }: Awaited<ReturnType<typeof told>>) =>
    text[0]?.lines.find(({ label }) => label === "now if")?.text;

  const asked = await told(true);
  expect(asked).toMatchObject({ code: "units", suggestions: [], truncated: true, starts: null });
  expect(changesIn(asked)).toBe("not known: nothing can be tried at the moment");
  const unasked = await told(false);
  expect(unasked).toMatchObject({ code: "units", suggestions: [], truncated: false });
  expect(changesIn(unasked)).toBeUndefined();
});

const ANN: Identity = {
  ...{
    tokenId: "t",
    countsAs: "t",
    name: "ann",
    role: "admin",
    pools: null,
    components: null,
    expiresAtMs: null,
  },
  ...{ permissions: new Set(), extra: new Set() },
};

/** The line about those who went on, as the victim of a late taker reads it (Y6); time passes as the test says. */
async function sparedWords(
  discipline: "priority" | "class",
  { settings = {}, afterMs }: { readonly settings?: Partial<PoolSettings>; readonly afterMs: number },
): Promise<{ readonly older?: string | undefined; readonly newer?: string | undefined }> {
  const rig = await createRig();
  await rig.do({
    kind: "createPool",
    name: pool("main"),
    capacity: { gpu: 2 },
    discipline,
    settings: { leaseMs: 86_400_000, ...settings },
  });
  for (const [name, priority] of Object.entries({ low: 0, top: 9 })) {
    const policy = { pool: pool("main"), component: name as ComponentName, priority };
    await rig.do({ kind: "attachPolicy", policy });
  }
  const low = { component: "low" as ComponentName, preemptionClass: 2 };
  await rig.do(submit("older", low));
  await rig.clock.advance(afterMs);
  await rig.do(submit("newer", low));
  await rig.clock.advance(60_000);
  const top = { component: "top" as ComponentName, preemptionClass: 8, walltimeMs: 360_000_000 };
  await rig.do(submit("taker", top));
  const caller = {
    identity: ANN,
    grants: createGrants(rig.leader.grantKeys),
    said: [],
  };
  const spared = (id: string) =>
    rig.leader.read((view) => {
      const { text } = explainNow(view, request(id), caller).explanation;
      return text[0]?.lines.find(({ label }) => label === "spared")?.text;
    });
  return { older: await spared("older"), newer: await spared("newer") };
}

test("a victim is told that a run was spared because it had not run long enough (V2)", async () => {
  const settings = { minRuntimeMs: 600_000 };
  expect(await sparedWords("priority", { settings, afterMs: 700_000 })).toEqual({
    older: "#2 had not run long enough (V2)",
  });
});

test("a victim is told that a run of its class was spared because it costs more, with both costs (10.5)", async () => {
  expect(await sparedWords("class", { afterMs: 7_200_000 })).toEqual({
    newer: expect.stringMatching(/^#1 costs \S.*, this one \S.* \(10\.5\)$/),
  });
});
