// The job of an attempt in Kubernetes (K1): one for each of its nodes. Pure.

import type { WireWantedPart } from "../../protocol/index.ts";
import { variablesOf } from "../environment.ts";
import { RunAsRefusal } from "../run-as.ts";
import { quoted } from "../slurm/script.ts";
import { CONTAINER, FINALIZER, JOB_LABEL, POOL_LABEL, poolLabel, REQUEST_ANNOTATION } from "./labels.ts";

export interface ManifestSettings {
  readonly pool: string;
  /** For jobs that name none. */
  readonly image: string | undefined;
  /** What the cluster calls a GPU. */
  readonly gpuResource: string;
  /** A claim of a volume that all attempts can reach; undefined: jobs save elsewhere. */
  readonly checkpointClaim: string | undefined;
  /** What every pod has in addition, such as tolerations and volumes. */
  readonly template: PodTemplate | undefined;
}

type Fields = Readonly<Record<string, unknown>>;

export interface Affinity {
  readonly nodeAffinity?: Fields;
  readonly podAffinity?: Fields;
  readonly podAntiAffinity?: Fields & {
    readonly requiredDuringSchedulingIgnoredDuringExecution?: readonly Fields[];
  };
}

/** Of a file that the administrator gives. */
export interface PodTemplate {
  readonly metadata?: { readonly labels?: Fields; readonly annotations?: Fields };
  readonly spec?: Fields & {
    readonly containers?: readonly Fields[];
    readonly volumes?: readonly Fields[];
    readonly affinity?: Affinity;
  };
}

export interface JobManifest {
  readonly metadata: { readonly name: string } & Fields;
  readonly [field: string]: unknown;
}

const CHECKPOINT_DIR = "/berth/checkpoint";
const REPORT_FILE = "/dev/termination-log";
const PREEMPT_FILE = "/tmp/berth-preempt";
/** Of the service by which the pods of one job find each other. */
const SUBDOMAIN = "berth-jobs";

/** `berth-<number>-<attempt>`; of several nodes each has its own. */
export function jobNames({
  number,
  attempt,
  nodes,
}: Pick<WireWantedPart, "number" | "attempt" | "nodes">): string[] {
  const name = `berth-${number}-${attempt}`;
  return nodes.length < 2 ? [name] : nodes.map((_, rank) => `${name}-${rank}`);
}

/** Throws a refusal, in words for the submitter, if the cluster cannot run it. */
export function manifestsOf(part: WireWantedPart, settings: ManifestSettings): JobManifest[] {
  const own = settings.template?.spec?.containers?.[0];
  const image = part.run?.image ?? own?.image ?? settings.image;
  if (typeof image !== "string")
    throw new RunAsRefusal("It names no image, and neither does the adapter: submit it with --image.");
  if (part.run?.user !== undefined)
    throw new RunAsRefusal("In Kubernetes a job runs as the user of its image: submit it without --user.");
  return jobNames(part).map((name, rank) => manifestOf(part, { ...settings, image }, name, rank));
}

function manifestOf(
  part: WireWantedPart,
  settings: ManifestSettings & { readonly image: string },
  name: string,
  rank: number,
): JobManifest {
  const { metadata, spec } = settings.template ?? {};
  const marks = {
    ...{ "app.kubernetes.io/managed-by": "berth", [POOL_LABEL]: poolLabel(settings.pool), [JOB_LABEL]: name },
  };
  const annotations = {
    ...{ [REQUEST_ANNOTATION]: part.request_id, "berth.dev/number": String(part.number) },
    ...{ "berth.dev/attempt": String(part.attempt), "berth.dev/component": part.component },
  };
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name, labels: marks, annotations },
    spec: {
      backoffLimit: 0,
      completions: 1,
      parallelism: 1,
      // Where Kubernetes knows it (1.29), a pod that is taken away is not replaced before it has failed for good.
      podReplacementPolicy: "Failed",
      template: {
        metadata: {
          labels: { ...metadata?.labels, ...marks },
          annotations: { ...metadata?.annotations, ...annotations },
          finalizers: [FINALIZER],
        },
        spec: { automountServiceAccountToken: false, ...spec, ...podOf(part, settings, name, rank) },
      },
    },
  };
}

function podOf(
  part: WireWantedPart,
  { template, image, gpuResource, checkpointClaim }: ManifestSettings & { readonly image: string },
  name: string,
  rank: number,
): Fields {
  const { nodes, run, checkpoint } = part;
  const node = nodes[rank];
  const own = template?.spec?.containers?.[0] ?? {};
  const limits = limitsOf(part, gpuResource);
  const volume = { name: "berth-checkpoint", persistentVolumeClaim: { claimName: checkpointClaim } };
  const mount = { name: volume.name, mountPath: CHECKPOINT_DIR, subPath: part.request_id };
  const isMounted = checkpointClaim !== undefined;
  const listIn = (field: string) => (own[field] as readonly Fields[] | undefined) ?? [];
  return {
    restartPolicy: "Never",
    terminationGracePeriodSeconds: graceOf(part),
    ...(nodes.length > 1 && { hostname: name, subdomain: SUBDOMAIN }),
    affinity: affinityTo(node, name, template?.spec?.affinity),
    volumes: [...(template?.spec?.volumes ?? []), ...(isMounted ? [volume] : [])],
    containers: [
      {
        ...own,
        ...{ name: CONTAINER, image, command: (run?.command ?? []).map(literal), args: [] },
        ...(run?.directory !== undefined && { workingDir: run.directory }),
        env: [...listIn("env"), ...environmentOf(part, name, rank, isMounted)],
        volumeMounts: [...listIn("volumeMounts"), ...(isMounted ? [mount] : [])],
        resources: { requests: limits, limits },
        terminationMessagePath: REPORT_FILE,
        ...(checkpoint !== "none" && own.lifecycle === undefined && { lifecycle: hookOf(part) }),
      },
    ],
  };
}

/** K1. A checkpoint may take half as long again if it makes progress, but no pod can say so. */
function graceOf({ checkpoint, checkpoint_seconds, grace_seconds }: WireWantedPart): number {
  return Math.ceil(grace_seconds + (checkpoint === "none" ? 0 : checkpoint_seconds));
}

/**
 * To the node that Berth chose, and to no node that still has a pod of this job: a second one never runs beside the first. What
 * the template asks for beside that stays.
 */
function affinityTo(node: string | undefined, job: string, given: Affinity = {}): Affinity {
  const nodeSelectorTerms = [{ matchFields: [{ key: "metadata.name", operator: "In", values: [node] }] }];
  const same = {
    labelSelector: { matchLabels: { [JOB_LABEL]: job } },
    topologyKey: "kubernetes.io/hostname",
  };
  const { requiredDuringSchedulingIgnoredDuringExecution: others = [] } = given.podAntiAffinity ?? {};
  return {
    ...given,
    ...(node !== undefined && {
      nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } },
    }),
    podAntiAffinity: {
      ...given.podAntiAffinity,
      requiredDuringSchedulingIgnoredDuringExecution: [...others, same],
    },
  };
}

function limitsOf({ resources }: WireWantedPart, gpuResource: string): Record<string, string> {
  const { gpu = 0, mcpu = 0, memory_mb = 0 } = resources;
  return {
    ...(gpu > 0 && { [gpuResource]: String(gpu) }),
    ...(mcpu > 0 && { cpu: `${mcpu}m` }),
    ...(memory_mb > 0 && { memory: `${memory_mb}Mi` }),
  };
}

/** Secrets are the cluster's own: the adapter names them, and reads none. */
function environmentOf(part: WireWantedPart, name: string, rank: number, isMounted: boolean): Fields[] {
  const meeting = part.nodes.length < 2 ? {} : { MASTER_ADDR: `${name.replace(/\d+$/, "0")}.${SUBDOMAIN}` };
  const variables = {
    ...variablesOf({ ...part, rank }, {}),
    ...(part.run?.environment?.MASTER_ADDR === undefined && meeting),
    ...(isMounted && { BERTH_CHECKPOINT_DIR: CHECKPOINT_DIR }),
    ...{ BERTH_PREEMPT_FILE: PREEMPT_FILE, BERTH_REPORT_FILE: REPORT_FILE },
  };
  return [
    ...Object.entries(variables).map(([key, value]) => ({ name: key, value: literal(value) })),
    ...(part.run?.secrets ?? []).map((key) => ({
      name: key,
      valueFrom: { secretKeyRef: { name: secretOf(part.component), key } },
    })),
  ];
}

/** To Kubernetes, $(NAME) is a variable, and two dollar signs are one. */
function literal(text: string): string {
  return text.replaceAll("$", "$$$$");
}

function secretOf(component: string): string {
  const name = `berth-${component}`;
  if (/^[a-z0-9]([a-z0-9.-]{0,240}[a-z0-9])?$/.test(name)) return name;
  throw new RunAsRefusal(
    `Kubernetes can have no Secret of the name ${name}, so ${component} has no secrets there.`,
  );
}

/**
 * Runs in the container when its pod is deleted, before SIGTERM: the notice of Berth, then as long as the job takes to say that
 * it has saved. An image without a shell cannot run it, and gets SIGTERM at once.
 */
function hookOf({ run }: WireWantedPart): Fields {
  const signal = run?.checkpoint_signal?.replace(/^SIG/, "");
  const save = run?.checkpoint_command?.map(quoted).join(" ");
  const script = [
    `d="\${BERTH_CHECKPOINT_DIR:-/tmp}"`,
    `rm -f "$d/done" "$d/finished"`,
    `echo '{"reason":"preempted"}' > "$BERTH_PREEMPT_FILE"`,
    ...(signal === undefined ? [] : [`kill -s ${signal} 1`]),
    ...(save === undefined ? [] : [`${save} && : > "$d/done"`]),
    `until [ -e "$d/done" ] || [ -e "$d/finished" ]; do sleep 0.2; done`,
    `for word in done finished; do [ -e "$d/$word" ] && echo "$word" >> "$BERTH_REPORT_FILE"; done; :`,
  ].join("\n");
  return { preStop: { exec: { command: ["/bin/sh", "-c", script] } } };
}
