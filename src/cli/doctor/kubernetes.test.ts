// `berth doctor --kubernetes`: what works for and against Berth.

import { expect, test } from "vitest";
import { type Kubernetes, KubernetesFailure, type Right } from "../../executors/index.ts";
import { aboutKubernetes } from "./kubernetes.ts";

type Settings = Awaited<ReturnType<Kubernetes["settings"]>>;

const NOTHING: Settings = { classes: [], defaults: [], quotas: [] };
const cluster = (more: Partial<Kubernetes> = {}, settings: Partial<Settings> = {}): Kubernetes =>
  ({
    namespace: "berth-jobs",
    version: async () => "v1.31.2",
    may: async () => true,
    time: async () => Date.now(),
    settings: async () => ({ ...NOTHING, ...settings }),
    ...more,
  }) as Kubernetes;
const found = async (...args: Parameters<typeof cluster>) =>
  (await aboutKubernetes(cluster(...args)))
    .filter(({ state }) => state !== "good")
    .map(({ state, text }) => `${state}: ${text}`);

test("a Kubernetes as it should be", async () => {
  expect(await found()).toEqual([]);
});

const preempting = { name: "urgent", value: 1_000, preempts: true };
const cases: Record<string, { given: Parameters<typeof cluster>; want: RegExp }> = {
  "a version before 1.20": {
    given: [{ version: async () => "v1.19.16" }],
    want: /^bad: version v1.19.16, needs 1.20/,
  },
  "before 1.29 a pod that is taken away may be replaced": {
    given: [{ version: async () => "v1.28.0" }],
    want: /^note: before 1.29/,
  },
  "a right that is missing in the namespace": {
    given: [{ may: async ({ verb, resource }: Right) => !(verb === "create" && resource === "jobs") }],
    want: /^bad: may not create jobs in berth-jobs: apply deploy/,
  },
  "a right that is missing everywhere": {
    given: [{ may: async ({ verb, resource }: Right) => !(verb === "watch" && resource === "nodes") }],
    want: /^bad: may not watch nodes everywhere/,
  },
  "a clock that is far off": {
    given: [{ time: async () => Date.now() + 60_000 }],
    want: /^note: the clock of Kubernetes differs from this machine's by 60 s/,
  },
  "a priority class whose pods push others away": {
    given: [{}, { classes: [preempting] }],
    want: /^note: pods of priority class urgent/,
  },
  "defaults that add requests": {
    given: [{}, { defaults: ["mem"] }],
    want: /^bad: LimitRange mem adds requests/,
  },
  "a quota": { given: [{}, { quotas: ["team"] }], want: /^note: ResourceQuota team/ },
  "an API server that does not answer": {
    given: [{ version: () => Promise.reject(new KubernetesFailure("version: connect ECONNREFUSED", 0)) }],
    want: /^bad: version: connect ECONNREFUSED/,
  },
};
for (const [name, { given, want }] of Object.entries(cases)) {
  test(name, async () => expect(await found(...given)).toEqual([expect.stringMatching(want)]));
}

test("classes that preempt nothing, have no weight, or belong to the cluster do no harm", async () => {
  const classes = [
    { ...preempting, preempts: false },
    { ...preempting, value: 0 },
    { ...preempting, value: 2_000_000_000 },
  ];
  expect(await found({}, { classes })).toEqual([]);
});

test("a cluster that does not tell its time is not judged by it", async () => {
  expect(await found({ time: async () => undefined })).toEqual([]);
});
