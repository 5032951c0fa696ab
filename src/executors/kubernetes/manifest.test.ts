import { expect, test } from "vitest";
import type { WireWantedPart } from "../../protocol/index.ts";
import { type JobManifest, jobNames, type ManifestSettings, manifestsOf } from "./manifest.ts";

const PART: WireWantedPart = {
  ...{ request_id: "0190-r", number: 42, name: "train", component: "vision", submitted_by: "alice" },
  ...{ operation: null, attempt: 2, token: "secret-token", devices: [], rank: 0, nodes: ["gpu-1"] },
  ...{ array_index: null, checkpoint: "none", resume: true, grace_seconds: 30, checkpoint_seconds: 600 },
  ...{ instruction: { do: "carry_on" }, signals: [] },
  resources: { gpu: 2, mcpu: 1_500, memory_mb: 4_096, licences: 1 },
  run: { command: ["python", "train.py", "$(HOME) $5"], environment: { LR: "$(X)" }, secrets: ["KEY"] },
};
const SETTINGS: ManifestSettings = {
  ...{ pool: "lab", image: "python:3.12", gpuResource: "nvidia.com/gpu" },
  ...{ checkpointClaim: undefined, template: undefined },
};
// biome-ignore lint/suspicious/noExplicitAny: a manifest, looked at field by field.
const specOf = (manifest: JobManifest | undefined) => (manifest as any).spec.template.spec;
const only = (part: Partial<WireWantedPart> = {}, settings: Partial<ManifestSettings> = {}) =>
  manifestsOf({ ...PART, ...part }, { ...SETTINGS, ...settings })[0] as JobManifest;
const variable = (manifest: JobManifest, name: string) =>
  specOf(manifest).containers[0].env.findLast((one: { name: string }) => one.name === name)?.value;

test("K1: a job that starts once, on the node that Berth chose, with what was granted", () => {
  const manifest = only();
  expect(manifest.metadata.name).toBe("berth-42-2");
  expect(manifest.spec).toMatchObject({ backoffLimit: 0, completions: 1, parallelism: 1 });
  const spec = specOf(manifest);
  const limits = { "nvidia.com/gpu": "2", cpu: "1500m", memory: "4096Mi" };
  expect(spec.containers[0].resources).toEqual({ requests: limits, limits });
  expect(spec).toMatchObject({ restartPolicy: "Never", terminationGracePeriodSeconds: 30 });
  expect(spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms).toEqual(
    [{ matchFields: [{ key: "metadata.name", operator: "In", values: ["gpu-1"] }] }],
  );
  expect(only({ nodes: [] }).spec).not.toHaveProperty("template.spec.affinity.nodeAffinity");
});

test("K1: the request is in the annotations, and the grant token nowhere", () => {
  const manifest = only();
  expect(manifest.metadata).toMatchObject({ annotations: { "berth.dev/request": "0190-r" } });
  expect(JSON.stringify(manifest)).not.toContain("secret-token");
});

test("J2: words and values arrive as they are: $(NAME) is no variable", () => {
  const manifest = only();
  expect(specOf(manifest).containers[0].command).toEqual(["python", "train.py", "$$(HOME) $$5"]);
  expect(variable(manifest, "LR")).toBe("$$(X)");
  expect(variable(manifest, "BERTH_RESUME")).toBe("1");
});

test("J2: secrets are those of the cluster, by component", () => {
  const { env } = specOf(only()).containers[0];
  expect(env).toContainEqual({
    name: "KEY",
    valueFrom: { secretKeyRef: { name: "berth-vision", key: "KEY" } },
  });
  expect(() => only({ component: "Vision Team" })).toThrow("has no secrets there");
});

test("K2: who can save gets time for it, a hook, and a volume where there is one", () => {
  const run = { ...PART.run, command: ["x"], checkpoint_signal: "SIGUSR1" };
  const spec = specOf(only({ checkpoint: "auto", run }, { checkpointClaim: "scratch" }));
  expect(spec.terminationGracePeriodSeconds).toBe(630);
  expect(spec.volumes).toEqual([
    { name: "berth-checkpoint", persistentVolumeClaim: { claimName: "scratch" } },
  ]);
  expect(spec.containers[0].volumeMounts).toEqual([
    { name: "berth-checkpoint", mountPath: "/berth/checkpoint", subPath: "0190-r" },
  ]);
  expect(spec.containers[0].lifecycle.preStop.exec.command.at(-1)).toContain("kill -s USR1 1");
  expect(specOf(only()).containers[0]).not.toHaveProperty("lifecycle");
});

test("the image: of the job, else of the template, else of the adapter, else it cannot start", () => {
  const template = { spec: { containers: [{ image: "of-template" }] } };
  const imageOf = (manifest: JobManifest) => specOf(manifest).containers[0].image;
  expect(imageOf(only({ run: { command: ["x"], image: "of-job" } }, { template }))).toBe("of-job");
  expect(imageOf(only({}, { template }))).toBe("of-template");
  expect(imageOf(only())).toBe("python:3.12");
  expect(() => only({}, { image: undefined })).toThrow("--image");
});

test("a template adds to pods, and changes nothing that Berth has decided", () => {
  const template = {
    metadata: { labels: { team: "x", "berth.dev/pool": "another" } },
    spec: {
      ...{ tolerations: [{ operator: "Exists" }], restartPolicy: "Always", volumes: [{ name: "data" }] },
      containers: [
        {
          env: [{ name: "A", value: "1" }],
          resources: { limits: { cpu: "64" } },
          volumeMounts: [{ name: "data" }],
        },
      ],
    },
  };
  const spec = specOf(only({}, { template, checkpointClaim: "scratch" }));
  expect(spec).toMatchObject({ restartPolicy: "Never", tolerations: [{ operator: "Exists" }] });
  expect(spec.volumes.map(({ name }: { name: string }) => name)).toEqual(["data", "berth-checkpoint"]);
  expect(spec.containers[0].resources.limits.cpu).toBe("1500m");
  expect(spec.containers[0].env[0]).toEqual({ name: "A", value: "1" });
  expect(only({}, { template }).spec).toMatchObject({
    template: { metadata: { labels: { team: "x", "berth.dev/pool": "lab" } } },
  });
});

test("affinities of a template stay, beside those to the chosen node and away from a first pod", () => {
  const apart = { topologyKey: "rack" };
  const nodeAffinity = { preferredDuringSchedulingIgnoredDuringExecution: [] };
  const podAntiAffinity = { requiredDuringSchedulingIgnoredDuringExecution: [apart] };
  const template = { spec: { affinity: { nodeAffinity, podAntiAffinity } } };
  const { affinity } = specOf(only({}, { template }));
  expect(affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution).toMatchObject([
    apart,
    { topologyKey: "kubernetes.io/hostname" },
  ]);
  expect(affinity.nodeAffinity).toEqual(specOf(only()).affinity.nodeAffinity);
  expect(specOf(only({ nodes: [] }, { template })).affinity.nodeAffinity).toEqual(nodeAffinity);
});

test("E7: of several nodes each has a job, and they meet at the first", () => {
  expect(jobNames({ ...PART, nodes: ["a", "b"] })).toEqual(["berth-42-2-0", "berth-42-2-1"]);
  const manifests = manifestsOf({ ...PART, nodes: ["a", "b"] }, SETTINGS);
  expect(manifests.map((one) => variable(one, "BERTH_NODE_RANK"))).toEqual(["0", "1"]);
  expect(manifests.map((one) => variable(one, "MASTER_ADDR"))).toEqual([
    "berth-42-2-0.berth-jobs",
    "berth-42-2-0.berth-jobs",
  ]);
  expect(specOf(manifests[1])).toMatchObject({ hostname: "berth-42-2-1", subdomain: "berth-jobs" });
});

test("as another user it does not run", () => {
  expect(() => only({ run: { command: ["x"], user: "alice" } })).toThrow("--user");
});
