// What a real API server answers, played through the adapter's own client, which is the official one (K1–K4).
// `record-kubernetes.ts` records it anew.

import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, test } from "vitest";
import { type Kubernetes, KubernetesFailure, reportedKubernetesNodes } from "../../src/executors/index.ts";
import { openMirror } from "../../src/executors/kubernetes/mirror.ts";
import { factsOf } from "../../src/executors/kubernetes/states.ts";
import { JOB, NAMESPACE, openPlayed, type Recorded } from "./kubernetes-support.ts";

const directory = new URL("./", import.meta.url);
const versions = readdirSync(directory).flatMap(
  (name) => /^kubernetes-([\d.]+)\.json$/.exec(name)?.[1] ?? [],
);

test("the oldest version that is supported was recorded", () => {
  expect(versions).toContain("1.20");
});

test("J6: a log whose connection breaks is a failure, after which it is read again", async () => {
  const server = createServer((_, response) => {
    response.writeHead(200, { "content-type": "text/plain" });
    response.write("2026-01-01T00:00:00Z one\n", () => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const client = await openPlayed((server.address() as AddressInfo).port);
  const following = client.followLog("p", undefined, () => undefined, new AbortController().signal);
  await expect(following).rejects.toThrow(KubernetesFailure);
  server.close();
});

describe.each(versions)("Kubernetes %s", (version) => {
  const text = readFileSync(new URL(`kubernetes-${version}.json`, directory), "utf8");
  const recorded = JSON.parse(text) as Record<string, Recorded[]>;

  /** A server that plays these answers, one after the other, and a client of it. */
  async function opened<T>(
    answers: readonly Recorded[],
    use: (client: Kubernetes, asked: readonly string[]) => Promise<T>,
  ): Promise<T> {
    const left = [...answers];
    const asked: string[] = [];
    const server = createServer((request, response) => {
      const next = left.shift();
      asked.push(`${request.method} ${request.url}`);
      request.resume().once("end", () => {
        response.writeHead(next?.status ?? 501, { "content-type": "application/json" });
        response.end(next?.answer ?? "{}");
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    try {
      return await use(await openPlayed((server.address() as AddressInfo).port), asked);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  }

  /** The client asks exactly what it asked when the answers were recorded. */
  function play<T>(label: string, ask: (client: Kubernetes) => Promise<T>): Promise<T> {
    const answers = recorded[label] ?? [];
    return opened(answers, async (client, asked) => {
      const answer = await ask(client);
      expect(asked).toEqual(answers.map(({ method, path }) => `${method} ${path}`));
      expect(answers.length).toBeGreaterThan(0);
      return answer;
    });
  }
  const pods = (label: string) => play(label, (one) => one.pods("berth.dev/pool=lab").list());

  test("says which it is", async () => {
    expect(await play("version", (one) => one.version())).toMatch(new RegExp(`^v${version}\\.`));
  });

  test("K1: a job is made; 409 means that it is there, and whose it is is looked up", async () => {
    expect(await play("make", (one) => one.makeJob(JOB, "0190-a"))).toBe("made");
    expect(await play("make again", (one) => one.makeJob(JOB, "0190-a"))).toBe("there");
    expect(await play("make another's", (one) => one.makeJob(JOB, "0190-b"))).toBe("taken");
    const { items } = await play("jobs", (one) => one.jobs("berth.dev/pool=lab").list());
    expect(items.map(({ metadata }) => metadata?.name)).toEqual(["berth-1-1"]);
  });

  test("K3: a pod runs, fails with its exit code, and is kept while it is deleted (J5)", async () => {
    expect((await pods("no pods")).items).toEqual([]);
    expect((await pods("pods running")).items.map(factsOf)).toMatchObject([
      { job: "berth-1-1", stage: "running" },
    ]);
    const failed = { stage: "over", end: { kind: "exited", exitCode: 3 } };
    expect((await pods("pods failed")).items.map(factsOf)).toMatchObject([{ ...failed, isDeleted: false }]);
    expect((await pods("pods deleted")).items.map(factsOf)).toMatchObject([{ ...failed, isDeleted: true }]);
  });

  test("K4: nodes with what they have", async () => {
    const { items: nodes } = await play("nodes", (one) => one.nodes("berth.dev/proof=1").list());
    const capacity = { gpu: 2, mcpu: 4_000, memory_mb: 2_000 };
    expect(
      reportedKubernetesNodes({ nodes, pods: [], isOwn: () => false, gpuResource: "nvidia.com/gpu" }),
    ).toEqual(["n1", "n2"].map((name) => ({ name, capacity, state: "ready" })));
  });

  test("a watch brings what was changed since, in its order", async () => {
    const from = (recorded["no pods"]?.[0]?.answer.match(/"resourceVersion":"(\d+)"/) ?? [])[1] as string;
    const stages: string[] = [];
    await play("watch", (one) =>
      one
        .pods("berth.dev/pool=lab")
        .watch(
          from,
          ({ type, object }) => stages.push(`${type} ${factsOf(object).stage}`),
          AbortSignal.timeout(10_000),
        ),
    );
    expect(stages[0]).toBe("ADDED waiting");
    expect(stages.at(-1)).toBe("MODIFIED over");
    expect(stages).toContain("MODIFIED running");
  });

  test("410: everything is listed again", async () => {
    const answers = ["pods running", "watch too old", "pods failed"].flatMap(
      (label) => recorded[label] ?? [],
    );
    await opened(answers, async (client) => {
      const mirror = openMirror(client.pods("berth.dev/pool=lab"), {
        ...{ onChange: () => undefined, onTrouble: () => undefined },
      });
      const stages = () => mirror.items()?.map((pod) => factsOf(pod).stage);
      await expect.poll(stages, { timeout: 10_000 }).toEqual(["over"]);
      mirror.close();
    });
  });

  test("J6: a log comes with times", async () => {
    const name = /"name":"(berth-1-1-\w+)"/.exec(recorded["pods failed"]?.[0]?.answer ?? "")?.[1] as string;
    let log = "";
    const take = (data: Buffer) => {
      log += data.toString();
    };
    await play("log", (one) => one.followLog(name, undefined, take, AbortSignal.timeout(10_000)));
    expect(log).toMatch(/^\d{4}-\S+Z one\n\d{4}-\S+Z two\n$/);
    const events = await play("events", (one) => one.events(name));
    expect(events.map(({ reason }) => reason)).toContain("Scheduled");
  });

  test("K2: deletion in the foreground; what is gone is deleted; a pod is let go by a patch", async () => {
    await play("delete", (one) => one.deleteJob("berth-1-1"));
    expect(recorded.delete?.[0]?.path).toContain("propagationPolicy=Foreground");
    await play("delete what is gone", (one) => one.deleteJob("berth-9-9"));
    const [pod] = (await pods("pods deleted")).items;
    await play("release", (one) => one.releasePod(pod as NonNullable<typeof pod>));
    expect(recorded.release?.[0]).toMatchObject({ status: 200, type: "application/merge-patch+json" });
  });

  test("rights are asked for, and what is refused is a failure with the cluster's words", async () => {
    const right = (verb: string, group: string, resource: string) => ({
      verb,
      group,
      resource,
      namespace: NAMESPACE,
    });
    expect(await play("may create jobs", (one) => one.may(right("create", "batch", "jobs")))).toBe(true);
    expect(await play("may get secrets", (one) => one.may(right("get", "", "secrets")))).toBe(false);
    await opened((recorded.forbidden ?? []).slice(-1), async (client) => {
      const refused = client.jobs("a=b").list();
      await expect(refused).rejects.toThrow(KubernetesFailure);
      await expect(refused).rejects.toThrow(/cannot list resource "jobs"/);
    });
  });
});
