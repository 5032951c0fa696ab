// Next steps as commands to type. The server's own hints are for every client and speak of HTTP calls.

import type { WireRequest } from "../protocol/index.ts";

const AS_COMMANDS: readonly (readonly [RegExp, string])[] = [
  [/GET \/v1\/whoami/, "`berth token whoami`"],
  [
    /^Send the header Authorization.*$/,
    "Save a token with `berth login URL`, or set BERTH_API_TOKEN; an administrator makes tokens.",
  ],
  [/GET \/docs shows what this call takes\./, "Add --help to see what the command takes."],
  [/\bpass force\b/, "add --force"],
];

export function hintAsCommand(hint: string): string {
  return AS_COMMANDS.reduce((text, [pattern, command]) => text.replace(pattern, command), hint);
}

/** `/resources/gpu in the body`, as a person would name the field. */
export function withoutPointers(message: string): string {
  return message.replaceAll(
    /(^|[ (])\/([\w/.-]+)( in the (?:body|query))?(?= )/g,
    (_, before: string, path: string) => {
      return `${before}${path.replaceAll("/", ".")}`;
    },
  );
}

/** Built-in keys as people spell them elsewhere. */
const OTHER_KEYS: Readonly<Record<string, string>> = {
  gpus: "gpu",
  gpu_count: "gpu",
  cpu: "mcpu",
  cpus: "mcpu",
  vcpu: "mcpu",
  cpu_count: "mcpu",
  mem: "memory_mb",
  memory: "memory_mb",
  ram: "memory_mb",
  steps: "step_run",
};

/** What to do about a rejection: the server's reasons name the rule, not the way out. */
export function hintOfRejection({ reasons, component, resources, pools }: WireRequest): string | undefined {
  const codes = new Set((reasons ?? []).map(({ code }) => code));
  const [named] = pools ?? [];
  if (codes.has("no_policy") && named !== undefined) {
    return `${component} has no policy in ${(pools ?? []).join(" or ")}. Attach one with \`berth policy attach ${named} ${component}\`, or name another pool with --pool.`;
  }
  if (codes.has("no_policy")) {
    return `${component} has no policy in any pool. Attach one with \`berth policy attach POOL ${component}\`, or name another component with --component.`;
  }
  const unknown = (reasons ?? []).find(({ code }) => code === "unknown_key")?.key ?? undefined;
  if (unknown !== undefined && resources[unknown] !== undefined) {
    const meant = OTHER_KEYS[unknown];
    return meant === undefined
      ? `No pool of ${component} has ${unknown}; \`berth pool list\` shows what there is.`
      : `Did you mean ${meant}?`;
  }
  return undefined;
}

/** What people type out of habit, and what does it here. */
export const OTHER_VERBS: Readonly<Record<string, string>> = {
  attach: "Berth keeps no terminals; what a command prints goes to the terminal of its `berth run`.",
  delete: "Use `berth cancel REQUEST`, `berth request delete`, `berth pool delete` or `berth policy detach`.",
  describe: "Use `berth show`.",
  get: "Use `berth show`, `berth ps` or `berth pool list`.",
  info: "Use `berth show`, or `berth doctor`.",
  jobs: "Use `berth ps`.",
  kill: "Use `berth cancel`.",
  list: "Use `berth ps` for requests, `berth pool list` for pools.",
  ls: "Use `berth ps` for requests, `berth pool list` for pools.",
  queue: "Use `berth pool queue POOL`, or `berth ps --status queued`.",
  rm: "Use `berth cancel`.",
  sbatch: "Use `berth run`, or `berth submit` for programs that hold the grant themselves.",
  scancel: "Use `berth cancel`.",
  scontrol: "Use `berth show`, `berth pool` or `berth node`.",
  sinfo: "Use `berth pool list` or `berth node list`.",
  squeue: "Use `berth ps`.",
  srun: "Use `berth run`.",
  start: "Use `berth run` for a command, `berth up` for a server.",
  status: "Use `berth ps` for requests, `berth doctor` for the server.",
  stop: "Use `berth cancel` for a request, `berth down` for the server.",
  top: "Use `berth ps --watch`, or `berth share`.",
  whoami: "Use `berth token whoami`.",
};
