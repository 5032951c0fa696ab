// A request may go while its explanation is worked out.

import { expect, onTestFinished, test } from "vitest";
import { explain as explainState, type RequestId } from "../engine/index.ts";
import type { Call, Services } from "./call.ts";
import { explain } from "./explanations.ts";
import { createGrants } from "./grants.ts";
import { identityOf } from "./identity.ts";
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
