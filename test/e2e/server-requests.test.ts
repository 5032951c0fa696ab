// Requests over HTTP: their whole life, on a store that forgets and on one that does not.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openTestServer, smallWorld, type TestServer, temporaryDirectory } from "./server-support.ts";

for (const kind of ["memory", "sqlite"] as const) {
  describe(`requests on the ${kind} store`, () => {
    let server: TestServer;
    let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
    beforeAll(async () => {
      directory = await temporaryDirectory();
      server = await openTestServer(kind === "memory" ? "memory" : { directory: directory.path });
      await smallWorld(server);
    });
    afterAll(async () => {
      await server.close();
      await directory.remove();
    });

    const submit = (wanted: object, headers = {}) =>
      server.admin(
        "POST",
        "/v1/resource-requests",
        { component: "vision", resources: { gpu: 1 }, ...wanted },
        headers,
      );
    const release = ({ id, token }: { id: string; token: string }, outcome = "succeeded") =>
      server.admin("POST", `/v1/resource-requests/${id}/release`, { token, outcome });

    test("what is free is granted at once, with a token and a lease", async () => {
      const { status, body, headers } = await submit({ name: "train", labels: { run: "7" } });
      expect(status).toBe(201);
      expect(headers.get("location")).toBe(`/v1/resource-requests/${body.id}`);
      expect(body).toMatchObject({
        status: "allocated",
        pool: "gpus",
        attempt: 1,
        resources: { gpu: 1, step_run: 1 },
      });
      expect(body.token).toMatch(/^\d+\.[\w-]{43}$/);
      expect(Date.parse(body.lease_expires_at)).toBeGreaterThan(Date.parse(body.submitted_at));
      expect((await release(body)).body).toMatchObject({ status: "released", id: body.id });
    });

    test("settings are read as resources", async () => {
      const { body } = await submit({
        resources: undefined,
        settings: { gpu_count: 1, cpu_count: 2.5, memory: "16GiB" },
      });
      expect(body.resources).toEqual({ gpu: 1, mcpu: 2500, memory_mb: 17180, step_run: 1 });
      await release(body);
    });

    test("settings are read as ZenML 0.96 writes them out, with null for what was not set", async () => {
      const settings = {
        ...{ cpu_count: null, gpu_count: 1, memory: "16GiB", pool_resources: null, preemptible: true },
        ...{ min_replicas: null, max_replicas: null, max_concurrency: null },
        ...{ autoscaling_metric: null, autoscaling_target: null },
      };
      const { body } = await submit({ resources: undefined, settings });
      expect(body.resources).toEqual({ gpu: 1, memory_mb: 17180, step_run: 1 });
      expect(body.preemptible).toBe(true);
      await release(body);
      // As another version does: what was not set says nothing, what was set is not passed over.
      const later = await submit({ resources: undefined, settings: { ...settings, accelerator: null } });
      expect(later.body.resources).toEqual(body.resources);
      await release(later.body);
      const unknown = await submit({ resources: undefined, settings: { ...settings, accelerator: "A100" } });
      expect(unknown).toMatchObject({
        status: 400,
        body: { errors: [{ pointer: "/settings/accelerator" }] },
      });
    });

    test("what no pool admits is stored as rejected, with the reason per pool", async () => {
      const { status, body } = await submit({ resources: { gpu: 3 } });
      expect(status).toBe(201);
      expect(body).toMatchObject({ status: "rejected" });
      expect(body.reasons).toEqual([
        { pool: "gpus", code: "over_capacity", key: "gpu", asked: 3, allowed: 2 },
      ]);
    });

    test("what does not fit waits, and the next release grants it", async () => {
      const first = (await submit({ resources: { gpu: 2 } })).body;
      const second = (await submit({ resources: { gpu: 1 } })).body;
      expect(second).toMatchObject({ status: "queued", pool: null });
      expect(second.token).toBeUndefined();
      const waiting = server.admin("GET", `/v1/resource-requests/${second.id}?wait=30&until=allocated`);
      await release(first);
      const granted = (await waiting).body;
      expect(granted).toMatchObject({ status: "allocated", id: second.id });
      await release(granted);
    });

    test("a long poll ends when its time is up, with what is there", async () => {
      const first = (await submit({ resources: { gpu: 2 } })).body;
      const second = (await submit({})).body;
      const answer = await server.admin("GET", `/v1/resource-requests/${second.id}`, undefined, {
        prefer: "wait=0",
      });
      expect(answer.body.status).toBe("queued");
      expect(answer.headers.get("preference-applied")).toBe("wait=0");
      await server.admin("POST", `/v1/resource-requests/${second.id}/cancel`);
      await release(first);
    });

    test("a long poll for something that can no longer happen ends with the end", async () => {
      const first = (await submit({ resources: { gpu: 2 } })).body;
      const second = (await submit({})).body;
      const waiting = server.admin("GET", `/v1/resource-requests/${second.id}?wait=30&until=allocated`);
      await server.admin("POST", `/v1/resource-requests/${second.id}/cancel`);
      expect((await waiting).body.status).toBe("cancelled");
      await release(first);
    });

    test("small numbers, ids and beginnings of ids name the same request", async () => {
      const { body } = await submit({});
      for (const name of [body.number, `%23${body.number}`, body.id, body.id.slice(0, 30)]) {
        expect((await server.admin("GET", `/v1/resource-requests/${name}`)).body.id).toBe(body.id);
      }
      const shared = await server.admin("GET", `/v1/resource-requests/${body.id.slice(0, 4)}`);
      expect(shared.body).toMatchObject({ status: 409, code: "ambiguous" });
      await release(body);
    });

    test("the same idempotency key gives the same answer, and another body is refused", async () => {
      const key = { "idempotency-key": `key-${kind}` };
      const first = await submit({}, key);
      const again = await submit({}, { "x-idempotency-key": `key-${kind}` });
      expect(again.body).toEqual(first.body);
      expect(again.headers.get("idempotency-replayed")).toBe("true");
      const other = await submit({ resources: { gpu: 2 } }, key);
      expect(other.body).toMatchObject({ status: 422, code: "idempotency_conflict" });
      await release(first.body);
    });

    test("a renewal answers what to do; another token is stale", async () => {
      const { body } = await submit({});
      const path = `/v1/resource-requests/${body.id}/renew`;
      const renewed = await server.admin("POST", path, {
        token: body.token,
        phase: "running",
        progress: 0.5,
      });
      expect(renewed.body).toMatchObject({ status: "allocated", instruction: { do: "carry_on" } });
      const [engineToken, signature] = body.token.split(".");
      const forged = [
        `${Number(engineToken) + 1}.${signature}`,
        `${engineToken}.${"A".repeat(43)}`,
        engineToken,
        `${body.token}x`,
      ];
      for (const token of forged) {
        expect((await server.admin("POST", path, { token })).body).toMatchObject({
          status: 409,
          code: "stale_token",
        });
        expect(
          (await server.admin("POST", path.replace("renew", "release"), { token, outcome: "succeeded" })).body
            .code,
        ).toBe("stale_token");
      }
      await release(body);
      expect((await server.admin("POST", path, { token: body.token })).body.code).toBe("stale_token");
    });

    test("the same release sent again has one effect and the same answer; another one is stale", async () => {
      const { body } = await submit({});
      const first = await release(body);
      expect((await release(body)).body).toEqual(first.body);
      expect((await release(body, "failed")).body).toMatchObject({ status: 409, code: "stale_token" });
    });

    test("a cancelled run is told to stop, and frees its units when it has", async () => {
      const { body } = await submit({ resources: { gpu: 2 } });
      const taken = { token: body.token };
      await server.admin("POST", `/v1/resource-requests/${body.id}/renew`, taken);
      const cancelled = await server.admin("POST", `/v1/resource-requests/${body.id}/cancel`);
      expect(cancelled.body).toMatchObject({
        status: "allocated",
        stop: { cause: "cancellation", phase: "terminate" },
      });
      const renewed = await server.admin("POST", `/v1/resource-requests/${body.id}/renew`, taken);
      expect(renewed.body.instruction).toMatchObject({ do: "stop", reason: "cancellation" });
      expect((await release(body, "stopped")).body).toMatchObject({ status: "cancelled" });
      expect((await server.admin("POST", `/v1/resource-requests/${body.id}/cancel`)).body.status).toBe(400);
    });

    test("the plan of a cancellation says who would start", async () => {
      const running = (await submit({ resources: { gpu: 2 }, checkpoint: "none" })).body;
      const waiting = (await submit({})).body;
      const plan = await server.admin("POST", `/v1/resource-requests/${waiting.id}/cancel?dry_run=true`);
      expect(plan.body).toMatchObject({
        dry_run: true,
        cancelled: [{ id: waiting.id, number: waiting.number }],
      });
      expect((await server.admin("GET", `/v1/resource-requests/${waiting.id}`)).body.status).toBe("queued");
      await server.admin("POST", `/v1/resource-requests/${waiting.id}/cancel`);
      await release(running);
    });

    test("preemption: the victim is asked to checkpoint, reports, stops and is queued again", async () => {
      await server.admin("PUT", "/v1/pools/gpus/policies/boss", { priority: 100, reserved: { gpu: 1 } });
      const victim = (await submit({ resources: { gpu: 2 }, checkpoint: "auto" })).body;
      const boss = (await submit({ component: "boss" })).body;
      expect(boss).toMatchObject({ status: "queued", hold: { pool: "gpus" } });
      const path = `/v1/resource-requests/${victim.id}`;
      const renewed = await server.admin("POST", `${path}/renew`, { token: victim.token });
      expect(renewed.body.instruction).toMatchObject({ do: "checkpoint", reason: "priority" });
      const deferred = await server.admin("POST", `${path}/checkpoint`, {
        token: victim.token,
        report: "defer",
        seconds: 60,
      });
      expect(Date.parse(deferred.body.stop.deadline) - Date.parse(renewed.body.instruction.deadline)).toBe(
        60_000,
      );
      expect(
        (await server.admin("POST", `${path}/checkpoint`, { token: victim.token, report: "defer" })).status,
      ).toBe(400);
      await server.admin("POST", `${path}/checkpoint`, { token: victim.token, report: "done" });
      const stopped = (await release(victim, "stopped")).body;
      expect(stopped).toMatchObject({ status: "queued", attempt: 2, preempted_count: 1, resume: true });
      expect(stopped.attempts).toMatchObject([
        { attempt: 1, outcome: "preempted", preempted_for: boss.id, reason: "priority" },
      ]);
      const decisions = await server.admin("GET", `${path}/decisions`);
      expect(decisions.body.items).toHaveLength(1);
      expect(decisions.body.items[0].decision).toMatchObject({ role: "victim" });
      await server.admin("POST", `${path}/cancel`);
      await release((await server.admin("GET", `/v1/resource-requests/${boss.id}`)).body);
    });

    test("lists are filtered, newest first, page by page", async () => {
      const made: { id: string; token: string }[] = [];
      for (const operation of ["nightly", "nightly", "weekly"]) {
        const { body } = await submit({
          component: "speech",
          resources: { step_run: 1 },
          operation,
          labels: { team: operation },
        });
        made.unshift(body);
      }
      const ids = async (query: string) =>
        (await server.admin("GET", `/v1/resource-requests?${query}`)).body.items.map(
          ({ id }: { id: string }) => id,
        );
      expect(await ids("component=speech")).toEqual(made.map(({ id }) => id));
      expect(await ids("operation=nightly")).toEqual(made.slice(1).map(({ id }) => id));
      expect(await ids("label=team%3Dweekly")).toEqual([made[0]?.id]);
      expect(await ids("status=allocated,queued&component=speech")).toHaveLength(3);
      expect(await ids("status=queued&component=speech")).toEqual([]);
      expect(await ids(`id=${made[1]?.id}`)).toEqual([made[1]?.id]);
      const page = await server.admin("GET", "/v1/resource-requests?component=speech&limit=2");
      expect(page.body.items).toHaveLength(2);
      expect(await ids(`component=speech&limit=2&cursor=${page.body.next_cursor}`)).toEqual([made[2]?.id]);
      for (const one of made) await release(one);
    });

    test("bulk: each item stands for itself", async () => {
      const { status, body } = await server.admin("POST", "/v1/resource-requests/bulk", {
        items: [
          { component: "vision", resources: { gpu: 1 } },
          { component: "vision", resources: { gpu: -1 } },
          { component: "vision", nonsense: true },
          { component: "vision", resources: { gpu: 9 } },
          { component: "vision", resources: { gpu: 1 } },
        ],
      });
      expect(status).toBe(200);
      expect(body.results).toMatchObject([
        { status: "allocated", pool: "gpus" },
        { problem: { code: "invalid_amount" } },
        { problem: { code: "invalid_request" } },
        { status: "rejected", reasons: [{ code: "over_capacity" }] },
        { status: "allocated" },
      ]);
      const granted = [body.results[0], body.results[4]];
      for (const one of granted) {
        const single = await server.admin("GET", `/v1/resource-requests/${one.id}`);
        expect(Object.keys(one).toSorted()).toEqual(Object.keys(single.body).toSorted());
        expect(one.resources).toEqual(single.body.resources);
      }
      const renewed = await server.admin("POST", "/v1/resource-requests/bulk-renew", {
        items: [
          { id: granted[0].id, token: granted[0].token },
          { id: String(granted[1].number), token: granted[1].token, progress: "half" },
          { id: granted[0].id, token: granted[1].token },
          { id: "999999", token: granted[1].token },
          { token: granted[0].token },
        ],
      });
      expect(renewed.body.results).toMatchObject([
        { status: "allocated", instruction: { do: "carry_on" } },
        { status: "allocated", instruction: { do: "carry_on" } },
        { problem: { code: "stale_token" } },
        { problem: { code: "not_found" } },
        { problem: { code: "invalid_request" } },
      ]);
      const released = await server.admin("POST", "/v1/resource-requests/bulk-release", {
        items: [
          { id: granted[0].id, token: granted[0].token, outcome: "succeeded" },
          { id: String(granted[1].number), token: granted[1].token, outcome: "failed" },
          { id: granted[0].id, token: granted[1].token, outcome: "succeeded" },
          { id: "999999", token: granted[1].token, outcome: "succeeded" },
          { outcome: "succeeded" },
        ],
      });
      expect(released.body.results).toMatchObject([
        { status: "released" },
        { status: "failed" },
        { problem: { code: "stale_token" } },
        { problem: { code: "not_found" } },
        { problem: { code: "invalid_request" } },
      ]);
    });

    test("bulk: a release that is sent again has one effect and the same answer; another report is stale", async () => {
      const items = [1, 2].map(() => ({ component: "vision", resources: { gpu: 1 } }));
      const { results } = (await server.admin("POST", "/v1/resource-requests/bulk", { items })).body;
      const ends = (outcome: string) => ({
        items: results.map(({ id, token }: { id: string; token: string }) => ({ id, token, outcome })),
      });
      const path = "/v1/resource-requests/bulk-release";
      const first = (await server.admin("POST", path, ends("succeeded"))).body;
      expect(first.results).toMatchObject([{ status: "released" }, { status: "released" }]);
      expect((await server.admin("POST", path, ends("succeeded"))).body).toEqual(first);
      expect((await server.admin("POST", path, ends("failed"))).body.results).toMatchObject([
        { problem: { code: "stale_token" } },
        { problem: { code: "stale_token" } },
      ]);
    });

    test("bulk: keys of items and of the call make it repeatable", async () => {
      const items = [
        { component: "vision", resources: { gpu: 1 }, idempotency_key: `own-${kind}` },
        { component: "vision", resources: { gpu: 1 } },
      ];
      const key = { "idempotency-key": `bulk-${kind}` };
      const first = await server.admin("POST", "/v1/resource-requests/bulk", { items }, key);
      const again = await server.admin("POST", "/v1/resource-requests/bulk", { items }, key);
      expect(again.body).toEqual(first.body);
      for (const one of first.body.results) await release(one);
    });

    test("a record is deleted when it has ended; force cancels first", async () => {
      const ended = (await submit({ resources: { gpu: 9 } })).body;
      expect((await server.admin("DELETE", `/v1/resource-requests/${ended.id}`)).status).toBe(204);
      expect((await server.admin("GET", `/v1/resource-requests/${ended.id}`)).status).toBe(404);
      const running = (await submit({ resources: { gpu: 2 } })).body;
      const waiting = (await submit({})).body;
      const path = `/v1/resource-requests/${waiting.id}`;
      expect((await server.admin("DELETE", path)).body).toMatchObject({ status: 409, code: "in_use" });
      expect((await server.admin("DELETE", `${path}?force=true`)).status).toBe(204);
      expect((await server.admin("GET", path)).status).toBe(404);
      await release(running);
    });

    test("an explanation says what is short, who holds it, and what would start the request now", async () => {
      const running = (await submit({ name: "train", resources: { gpu: 1 }, walltime_seconds: 600 })).body;
      const waiting = (await submit({ resources: { gpu: 2 } })).body;
      const { body } = await server.admin("GET", `/v1/resource-requests/${waiting.number}/explanation`);
      expect(body).toMatchObject({
        request_id: waiting.id,
        number: waiting.number,
        status: "queued",
        reasons: null,
      });
      expect(body.pools).toMatchObject([
        {
          pool: "gpus",
          position: 1,
          queue_length: 1,
          blocked_by: {
            rule: "units",
            short: [{ key: "gpu", asked: 2, free: 1, promised: 0, coming_free: 0 }],
            head: waiting.id,
          },
          holders: [{ request_id: running.id, number: running.number, name: "train", units: { gpu: 1 } }],
          holder_count: 1,
        },
      ]);
      expect(Date.parse(body.pools[0].could_start_at) - Date.parse(running.started_at)).toBe(600_000);
      expect(body.suggestions).toMatchObject([
        { change: "fewer_units", pool: "gpus", resources: { gpu: 1 } },
        { change: "more_capacity", pool: "gpus", capacity: { gpu: 3 }, by: "operator", starts: "now" },
        { change: "run_ends", pool: "gpus", request: { id: running.id }, by: "time" },
      ]);
      const rejected = (await submit({ resources: { gpu: 9 } })).body;
      const why = await server.admin("GET", `/v1/resource-requests/${rejected.id}/explanation`);
      expect(why.body).toMatchObject({
        status: "rejected",
        reasons: [{ code: "over_capacity" }],
        suggestions: [],
      });
      await server.admin("POST", `/v1/resource-requests/${waiting.id}/cancel`);
      await release(running);
    });

    test.each(["gpus", "", "2026-02-30T00:00:00Z", "2026-11-17", "+275760-09-13T00:00:00Z"])(
      "an end at %j is refused, and the grant stays as it is",
      async (endedAt) => {
        const run = (await submit({})).body;
        const end = { token: run.token, outcome: "succeeded", ended_at: endedAt };
        const { status, body } = await server.admin("POST", `/v1/resource-requests/${run.id}/release`, end);
        expect([status, body.code]).toEqual([400, "invalid_request"]);
        expect((await server.admin("GET", `/v1/resource-requests/${run.id}`)).body.status).toBe("allocated");
        await release(run);
      },
    );

    test("a request with new labels is found by them, now and after its end (Q9)", async () => {
      const run = (await submit({ labels: { team: "vision" } })).body;
      const changed = await server.admin("PATCH", `/v1/resource-requests/${run.id}`, {
        labels: { team: "speech" },
      });
      expect(changed).toMatchObject({ status: 200, body: { labels: { team: "speech" } } });
      const find = () => server.admin("GET", "/v1/resource-requests?label=team=speech");
      expect((await find()).body.items).toMatchObject([{ id: run.id }]);
      await release(run);
      expect((await find()).body.items).toMatchObject([{ id: run.id, status: "released" }]);
    });

    test("a request that asks for more while it waits is listed, now and after its end (Q9)", async () => {
      const running = (await submit({ resources: { gpu: 2 } })).body;
      const waiting = (await submit({ labels: { team: "growing" } })).body;
      const more = { resources: { gpu: 2 } };
      const changed = await server.admin("PATCH", `/v1/resource-requests/${waiting.id}`, more);
      expect(changed).toMatchObject({ status: 200, body: { status: "queued", ...more } });
      const find = () => server.admin("GET", "/v1/resource-requests?label=team=growing");
      expect((await find()).body.items).toMatchObject([{ id: waiting.id, status: "queued" }]);
      await server.admin("POST", `/v1/resource-requests/${waiting.id}/cancel`);
      expect((await find()).body.items).toMatchObject([{ id: waiting.id, status: "cancelled" }]);
      await release(running);
    });

    test("of many other pools one is suggested, and only one that has room", async () => {
      const others = ["b-full", "c-roomy", "d-roomy"];
      for (const name of others) await server.admin("POST", "/v1/pools", { name, capacity: { gpu: 2 } });
      await server.admin("POST", "/v1/pools/b-full/policies", { component: "filler" });
      const filler = (await submit({ component: "filler", resources: { gpu: 2 } })).body;
      const running = (await submit({ resources: { gpu: 2 } })).body;
      const waiting = (await submit({ resources: { gpu: 1 } })).body;
      const { body } = await server.admin("GET", `/v1/resource-requests/${waiting.id}/explanation`);
      expect(body.suggestions).toMatchObject([
        { change: "more_capacity", pool: "gpus", capacity: { gpu: 3 } },
        { change: "another_pool", pool: "c-roomy" },
        { change: "run_ends", pool: "gpus" },
      ]);
      await server.admin("POST", `/v1/resource-requests/${waiting.id}/cancel`);
      for (const run of [filler, running]) await release(run);
      for (const name of others) await server.admin("DELETE", `/v1/pools/${name}?force=true`);
    });

    test("a gang where it has no effect is accepted with a warning, and without one where it has", async () => {
      await server.admin("POST", "/v1/pools", {
        name: "fair",
        capacity: { gpu: 2 },
        discipline: "fair_share",
      });
      await server.admin("POST", "/v1/pools/fair/policies", { component: "ganging" });
      const plain = (await submit({ gang: true, operation: "run" })).body;
      expect(plain.warnings).toEqual([
        'gang has no effect in pool "gpus" (priority): requests of one operation start one by one there. ' +
          "Ask for nodes to get several nodes at once.",
      ]);
      const fair = (await submit({ component: "ganging", gang: true, operation: "run" })).body;
      expect(fair).toMatchObject({ status: "allocated", pool: "fair" });
      expect(fair.warnings).toBeUndefined();
      for (const run of [plain, fair]) await release(run);
      await server.admin("DELETE", "/v1/pools/fair?force=true");
    });

    test("what its limit blocks is told so, and the limit that would do", async () => {
      await server.admin("PUT", "/v1/pools/gpus/policies/capped", { limit: { gpu: 1 } });
      const running = (await submit({ component: "capped" })).body;
      const waiting = (await submit({ component: "capped" })).body;
      const { body } = await server.admin("GET", `/v1/resource-requests/${waiting.id}/explanation`);
      expect(body.pools[0].blocked_by).toEqual({
        rule: "limit",
        key: "gpu",
        asked: 1,
        used: 1,
        allowed: 1,
        group: null,
      });
      expect(body.suggestions).toMatchObject([
        { change: "higher_limit", pool: "gpus", limit: { gpu: 2 }, by: "operator", minimal: true },
        { change: "run_ends", pool: "gpus", by: "time", request: { id: running.id } },
      ]);
      expect(body).toMatchObject({ code: "limit", starts: { basis: "unknown" } });
      expect(body.text[0].lines[0]).toEqual({
        label: "needs",
        text: "1 gpu: capped may hold 1 and uses 1; with 1 more it would be 2 (G3)",
      });
      const raised = await server.admin("PATCH", "/v1/pools/gpus/policies/capped?dry_run=true", {
        limit: { gpu: 2 },
      });
      expect(raised.body.granted).toMatchObject([{ id: waiting.id }]);
      await server.admin("POST", `/v1/resource-requests/${waiting.id}/cancel`);
      await release(running);
    });
  });
}

test("what was acknowledged is there after a restart, and the holder goes on with its token", async () => {
  const directory = await temporaryDirectory();
  const first = await openTestServer({ directory: directory.path });
  await smallWorld(first);
  const wanted = { component: "vision", resources: { gpu: 2 } };
  const { body } = await first.admin("POST", "/v1/resource-requests", wanted, { "idempotency-key": "once" });
  await first.close();

  const second = await openTestServer({ directory: directory.path });
  expect(second.firstToken).toBeUndefined();
  const admin = second.as(first.adminSecret);
  const again = await admin("POST", "/v1/resource-requests", wanted, { "idempotency-key": "once" });
  expect(again.body).toEqual(body);
  const released = await admin("POST", `/v1/resource-requests/${body.id}/release`, {
    token: body.token,
    outcome: "succeeded",
  });
  expect(released.body.status).toBe("released");
  await second.close();
  await directory.remove();
});
