// What of a Kubernetes works for or against Berth (K1–K4), as findings of `berth doctor --kubernetes`.

import type { Kubernetes, Right } from "../../executors/index.ts";
import type { Finding } from "../doctor.ts";
import { aboutClock } from "./clock.ts";

const WHAT = "kubernetes";
const OLDEST = [1, 20] as const;
/** From here on a pod that is taken away is not replaced before its end. */
const CAREFUL = [1, 29] as const;

/** As `deploy/kubernetes/adapter.yaml` grants them. */
export function rightsIn(namespace: string): Right[] {
  const jobs = { group: "batch", resource: "jobs", namespace };
  const pods = { group: "", resource: "pods", namespace };
  return [
    ...["create", "get", "list", "watch", "delete"].map((verb) => ({ verb, ...jobs })),
    ...["list", "watch", "delete", "patch"].map((verb) => ({ verb, ...pods })),
    { verb: "get", ...pods, subresource: "log" },
    { verb: "list", group: "", resource: "events", namespace },
    ...["nodes", "pods"].flatMap((resource) =>
      ["list", "watch"].map((verb) => ({ verb, group: "", resource })),
    ),
  ];
}

export async function aboutKubernetes(kubernetes: Kubernetes): Promise<Finding[]> {
  try {
    return [
      ...aboutVersion(await kubernetes.version()),
      await aboutRights(kubernetes),
      ...aboutClock("Kubernetes", await kubernetes.time()),
      ...(await aboutSettings(kubernetes)),
    ];
  } catch (error) {
    return [{ what: WHAT, state: "bad", text: (error as Error).message }];
  }
}

function aboutVersion(text: string): Finding[] {
  const version = /(\d+)\.(\d+)/.exec(text)?.slice(1).map(Number) ?? [0, 0];
  const isAtLeast = ([major, minor]: readonly [number, number]) =>
    (version[0] as number) > major || (version[0] === major && (version[1] as number) >= minor);
  if (!isAtLeast(OLDEST)) return [{ what: WHAT, state: "bad", text: `version ${text}, needs 1.20 or newer` }];
  const fine: Finding = { what: WHAT, state: "good", text: `version ${text}` };
  if (isAtLeast(CAREFUL)) return [fine];
  const text129 =
    "before 1.29 it may start a pod again that is evicted while the adapter is away: keep the adapter running";
  return [fine, { what: WHAT, state: "note", text: text129 }];
}

async function aboutRights(kubernetes: Kubernetes): Promise<Finding> {
  const { namespace } = kubernetes;
  const rights = rightsIn(namespace);
  const answers = await Promise.all(rights.map((right) => kubernetes.may(right)));
  const missing = rights.filter((_, index) => answers[index] === false).map(wordsOf);
  if (missing.length === 0)
    return {
      what: WHAT,
      state: "good",
      text: `all rights that the adapter needs, in namespace ${namespace}`,
    };
  const text = `may not ${missing.join(", ")}: apply deploy/kubernetes/adapter.yaml (without --nodes, those everywhere are not needed)`;
  return { what: WHAT, state: "bad", text };
}

function wordsOf({ verb, resource, subresource, namespace }: Right): string {
  const what = subresource === undefined ? resource : `${resource}/${subresource}`;
  return `${verb} ${what} ${namespace === undefined ? "everywhere" : `in ${namespace}`}`;
}

/** What may not be read is not judged: the adapter itself needs none of it. */
async function aboutSettings(kubernetes: Kubernetes): Promise<Finding[]> {
  const { classes, defaults, quotas } = await kubernetes.settings();
  const preempting = classes.filter(
    ({ value, preempts }) => preempts && value > 0 && value < SYSTEM_PRIORITY,
  );
  const namespace = kubernetes.namespace;
  return [
    ...preempting.map(({ name }): Finding => {
      const text = `pods of priority class ${name} push jobs of Berth off their nodes, which counts as lost. Keep them off those nodes, or set preemptionPolicy: Never`;
      return { what: WHAT, state: "note", text };
    }),
    ...defaults.map((name): Finding => {
      const text = `LimitRange ${name} adds requests to jobs in namespace ${namespace} that Berth has not granted: remove its defaults`;
      return { what: WHAT, state: "bad", text };
    }),
    ...quotas.map((name): Finding => {
      const text = `ResourceQuota ${name} may keep jobs that Berth has granted from starting in namespace ${namespace}`;
      return { what: WHAT, state: "note", text };
    }),
  ];
}

/** Those of the cluster itself are above it. */
const SYSTEM_PRIORITY = 1_000_000_000;
