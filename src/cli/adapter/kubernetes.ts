// berth adapter kubernetes (22).

import { readFileSync } from "node:fs";
import { parseDocument } from "yaml";
import { z } from "zod";
import {
  CLIENT_PACKAGE,
  CLIENT_VERSION,
  ClientMissing,
  type Kubernetes,
  openKubernetes,
  type PodTemplate,
  startKubernetesAdapter,
} from "../../executors/index.ts";
import { type CliContext, CliError } from "../context.ts";
import { type AdapterFlags, runAdapter } from "./common.ts";

export interface KubernetesFlags extends AdapterFlags, ClusterFlags {
  readonly selector?: string;
  readonly image?: string;
  readonly template?: string;
  readonly checkpoints?: string;
  readonly gpuResource: string;
}

/** Which cluster, and where in it. */
export interface ClusterFlags {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly namespace?: string;
}

export async function kubernetes(flags: KubernetesFlags, context: CliContext): Promise<void> {
  if (flags.selector !== undefined && flags.nodes !== true)
    throw new CliError("usage", "--selector chooses among nodes.", "Add --nodes, or leave it out.");
  const template = flags.template === undefined ? undefined : readTemplate(flags.template);
  await runAdapter(flags, context, async (basics) => {
    const { kubernetes, version } = await reachKubernetes(flags);
    const running = startKubernetesAdapter({
      ...basics,
      ...{ kubernetes, template, image: flags.image, gpuResource: flags.gpuResource },
      checkpointClaim: flags.checkpoints,
      nodes: flags.nodes === true ? { selector: flags.selector } : undefined,
    });
    return { running, cluster: `Kubernetes ${version.replace(/^v/, "")}` };
  });
}

/** It has answered once. */
export async function reachKubernetes(
  flags: ClusterFlags,
): Promise<{ readonly kubernetes: Kubernetes; readonly version: string }> {
  try {
    const kubernetes = await openKubernetes(flags);
    return { kubernetes, version: await kubernetes.version() };
  } catch (error) {
    const { message } = error as Error;
    if (error instanceof ClientMissing)
      throw new CliError(
        "unavailable",
        message,
        `Add it: npm install -g ${CLIENT_PACKAGE}@${CLIENT_VERSION}`,
      );
    throw new CliError(
      "unavailable",
      message,
      "Check that kubectl works here, or name another --kubeconfig.",
    );
  }
}

const fields = z.record(z.string(), z.unknown());
const podTemplate = z.strictObject({
  metadata: z.strictObject({ labels: fields.optional(), annotations: fields.optional() }).optional(),
  spec: z
    .looseObject({
      /** The job itself is one container: others would take what nobody has granted. */
      containers: z.array(fields).max(1).optional(),
      volumes: z.array(fields).optional(),
      affinity: z
        .looseObject({
          podAntiAffinity: z
            .looseObject({ requiredDuringSchedulingIgnoredDuringExecution: z.array(fields).optional() })
            .optional(),
        })
        .optional(),
    })
    .optional(),
});

export function readTemplate(path: string): PodTemplate {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch {
    throw new CliError("file_not_found", `There is no file ${path}.`, "Name the template of the pods.");
  }
  const read = parseTemplate(text);
  if (typeof read !== "string") return read;
  throw new CliError(
    "invalid_syntax",
    `${path} is no template of a pod: ${read}.`,
    "It has metadata and spec, and at most one container.",
  );
}

/** A text: why it is none. */
function parseTemplate(text: string): PodTemplate | string {
  const document = parseDocument(text);
  const [mistake] = document.errors;
  if (mistake !== undefined) return mistake.message.split("\n")[0]?.replace(/:$/, "") as string;
  const read = podTemplate.safeParse(document.toJS());
  if (read.success) return read.data as PodTemplate;
  const [issue] = read.error.issues;
  return [...(issue?.path.length ? [issue.path.join(".")] : []), issue?.message].join(": ");
}
