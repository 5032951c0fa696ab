// How each kind of thing is shown: its columns, its name, and all of it at length.

import type {
  WireGroupAnswer,
  WireJob,
  WireNodeAnswer,
  WireOperation,
  WirePolicyAnswer,
  WirePoolAnswer,
  WireRequest,
  WireTarget,
  WireToken,
} from "../protocol/index.ts";
import { endText } from "../sdk/index.ts";
import type { Line, Shape } from "./output/print.ts";
import type { Cells, Column } from "./output/table.ts";
import type { Style } from "./output/text.ts";
import { ageOf, amountsText, durationText, labelsText, listed } from "./output/text.ts";
import { titleOf } from "./session.ts";

export { endText } from "../sdk/index.ts";

// --- Requests

export function statusPaint({ status }: { readonly status: string }, style: Style) {
  switch (status) {
    case "allocated":
    case "released":
    case "ready":
      return style.good;
    case "queued":
    case "preempting":
    case "draining":
    case "suspect":
      return style.warn;
    case "cancelled":
    case "drained":
      return style.faint;
    default:
      return style.bad;
  }
}

/** What people want to know at a glance: `allocated`, or `checkpoint` while it is being stopped. */
export function statusText({
  status,
  stop,
  hold,
  phase,
  blocked,
  holder_silent_since: silent,
}: WireRequest): string {
  if (silent !== undefined || phase === "silent") return `${status} (silent)`;
  if (blocked) return `${status} (not yet)`;
  if (stop !== null) return `${status} (${stop.phase})`;
  if (phase === "assigned" || phase === "starting") return `${status} (${phase})`;
  return hold === null ? status : `${status} (promised)`;
}

export const REQUEST: Shape<WireRequest> = {
  nameOf: ({ number }) => String(number),
  columns: [
    {
      name: "number",
      value: ({ number }) => `#${number}`,
      cells: ({ number }) => ({ number }),
      alignsRight: true,
    },
    { name: "name", value: ({ name }) => name || "-" },
    { name: "status", value: statusText, cells: ({ status }) => ({ status }), paint: statusPaint },
    { name: "component", value: ({ component }) => component },
    {
      name: "resources",
      value: ({ resources }) => amountsText(resources),
      cells: ({ resources }) => amountCells("resources", resources),
    },
    { name: "pool", value: ({ pool, hold }) => pool ?? hold?.pool ?? "-" },
    {
      name: "waited",
      value: (request) => secondsText(waitedSeconds(request)),
      cells: (request) => ({ waited_seconds: waitedSeconds(request) }),
      alignsRight: true,
    },
    {
      name: "ran",
      value: (request) => secondsText(ranSeconds(request)),
      cells: (request) => ({ ran_seconds: ranSeconds(request) }),
      alignsRight: true,
    },
    { name: "attempt", value: ({ attempt }) => String(attempt), alignsRight: true, isWide: true },
    {
      name: "class",
      value: ({ preemption_class }) => String(preemption_class),
      alignsRight: true,
      isWide: true,
    },
    { name: "preemptible", value: ({ preemptible }) => String(preemptible), isWide: true },
    { name: "operation", value: ({ operation }) => operation ?? "-", isWide: true },
    { name: "end", value: lastEndText, isWide: true },
    { name: "host", value: ({ origin }) => origin?.host ?? "-", isWide: true },
    { name: "command", value: ({ origin }) => origin?.command ?? "-", isWide: true },
    { name: "submitted_by", value: ({ submitted_by }) => submitted_by, isWide: true },
    { name: "id", value: ({ id }) => id, isWide: true },
    { name: "age", value: ({ submitted_at }) => ageOf(submitted_at), isHidden: true },
    { name: "created", value: ({ submitted_at }) => submitted_at, isHidden: true },
    { name: "state", value: ({ status }) => (status === "queued" ? "queued" : "active"), isHidden: true },
    { name: "step_run", value: ({ name }) => name || "-", isHidden: true },
  ],
  detail: requestLines,
};

function waitedSeconds({ queued_at, started_at, ended_at, attempts }: WireRequest): number {
  return secondsFrom(queued_at, ended_at === null ? started_at : (attempts.at(-1)?.started_at ?? ended_at));
}

/** Of the attempt that runs, or of the last one. */
function ranSeconds({ started_at, ended_at, attempts, status }: WireRequest): number | null {
  if (started_at !== null) return secondsFrom(started_at, ended_at);
  const last = attempts.at(-1);
  return status === "queued" || last === undefined ? null : secondsFrom(last.started_at, last.ended_at);
}

/** Whole seconds, to now if it goes on. */
function secondsFrom(from: string, to: string | null): number {
  const endMs = to === null ? Date.now() : Date.parse(to);
  return Math.max(0, Math.floor((endMs - Date.parse(from)) / 1000));
}

function secondsText(seconds: number | null): string {
  return seconds === null ? "-" : durationText(seconds);
}

/** Such as `resources.gpu`, as the API would name the field. */
function amountCells(field: string, amounts: Readonly<Record<string, number>>): Cells {
  return Object.fromEntries(Object.entries(amounts).map(([key, amount]) => [`${field}.${key}`, amount]));
}

function inUseCells({ capacity, usage }: Pick<WirePoolAnswer, "capacity" | "usage">): Cells {
  return { ...amountCells("capacity", capacity), ...amountCells("usage", usage) };
}

function lastEndText({ attempts }: WireRequest): string {
  const last = attempts.at(-1);
  return last === undefined ? "-" : endText(last);
}

function requestLines(request: WireRequest): Line[] {
  const { pool, hold, stop, reasons, attempts, placement } = request;
  const lines: Line[] = [
    [titleOf(request), ""],
    ["status", statusText(request)],
    ["component", request.component],
    ["resources", amountsText(request.resources)],
  ];
  if (pool !== null) lines.push(["pool", pool]);
  if (hold !== null) lines.push(["promised", `units in pool ${hold.pool}`]);
  if (placement.length > 0) lines.push(["placed", placement.map(placementText).join("; ")]);
  lines.push(["class", `${request.preemption_class}${request.sensitive ? ", sensitive" : ""}`]);
  lines.push(["preemptible", request.preemptible ? "yes" : "no"]);
  lines.push(["checkpoint", checkpointText(request)]);
  lines.push(["requeue", requeueText(request)]);
  if (request.walltime_seconds !== null) lines.push(["walltime", durationText(request.walltime_seconds)]);
  if (request.operation !== null) lines.push(["operation", request.operation]);
  if (Object.keys(request.labels).length > 0) lines.push(["labels", labelsText(request.labels)]);
  if (request.note !== "") lines.push(["note", request.note]);
  lines.push(["submitted", `${request.submitted_at} by ${request.submitted_by}`]);
  if (request.origin !== null) {
    lines.push(["command", request.origin.command]);
    lines.push(["from", `${request.origin.user} on ${request.origin.host}`]);
  }
  if (request.started_at !== null) lines.push(["started", request.started_at]);
  if (request.ended_at !== null) lines.push(["ended", request.ended_at]);
  if (request.cancelled_because != null)
    lines.push([
      "cancelled",
      `it waited for a request that has not ended well (berth why ${request.number})`,
    ]);
  lines.push(["attempt", `${request.attempt}${request.resume ? ", resumes from a checkpoint" : ""}`]);
  if (stop !== null)
    lines.push(["stopping", `${stop.phase} until ${stop.deadline} (${stop.reason ?? stop.cause})`]);
  const silence = silenceText(request);
  if (silence !== undefined) lines.push(["holder", silence]);
  for (const { pool: where, code, key, asked, allowed } of reasons ?? []) {
    lines.push([
      "rejected",
      `${where ?? "every pool"}: ${code}${key === null ? "" : `, ${asked} ${key} asked, ${allowed} allowed`}`,
    ]);
  }
  for (const each of attempts) {
    const ran = ageOf(each.started_at, Date.parse(each.ended_at));
    const where = each.nodes?.length ? ` on ${listed(each.nodes)}` : "";
    const why = each.reason === null ? "" : ` (${each.reason})`;
    lines.push([`attempt ${each.attempt}`, `${endText(each)} after ${ran}${where}${why}`]);
  }
  lines.push(["id", request.id]);
  return lines;
}

/** Such as `silent for 2m, given up in 5m`; undefined while renewals come in time. */
export function silenceText({
  holder_silent_since: since,
  given_up_at: until,
}: Pick<WireRequest, "holder_silent_since" | "given_up_at">): string | undefined {
  if (since === undefined || until === undefined) return undefined;
  const left = durationText(Math.max(0, Date.parse(until) - Date.now()) / 1000);
  return `silent for ${ageOf(since)}, given up in ${left} at the latest`;
}

function placementText({ node, devices }: WireRequest["placement"][number]): string {
  return devices.length === 0 ? node : `${node} (devices ${devices.join(", ")})`;
}

function checkpointText({ checkpoint, checkpoint_seconds: seconds }: WireRequest): string {
  return seconds === null ? checkpoint : `${checkpoint}, about ${durationText(seconds)}`;
}

const REQUEUE_WORDS: Readonly<Record<WireRequest["requeue"], string>> = {
  never: "never",
  on_preemption: "after a preemption or a lost holder",
  on_failure: "after a preemption, a lost holder or a failure",
};

function requeueText({ requeue, retries }: WireRequest): string {
  const bound = retries.max === null ? "" : `, at most ${retries.max} times`;
  return `${REQUEUE_WORDS[requeue]}${bound}`;
}

// --- Pools

type Lifetime = Pick<WirePoolAnswer & WirePolicyAnswer, "id" | "created_at" | "updated_at">;

/** As ZenML names them. */
const LIFETIME: readonly Column<Lifetime>[] = [
  { name: "id", value: ({ id }) => id, isHidden: true },
  { name: "created", value: ({ created_at }) => created_at ?? "-", isHidden: true },
  { name: "updated", value: ({ updated_at }) => updated_at ?? "-", isHidden: true },
];

export const POOL: Shape<WirePoolAnswer> = {
  nameOf: ({ name }) => name,
  columns: [
    { name: "name", value: ({ name }) => name },
    { name: "discipline", value: ({ discipline }) => discipline },
    { name: "in_use", value: inUseText, cells: inUseCells },
    { name: "running", value: ({ running }) => String(running), alignsRight: true },
    { name: "queued", value: ({ queued }) => String(queued), alignsRight: true },
    { name: "nodes", value: ({ node_backed }) => (node_backed ? "yes" : "no"), isWide: true },
    { name: "labels", value: ({ labels }) => labelsText(labels), isWide: true },
    { name: "description", value: ({ description }) => description || "-", isWide: true },
    ...LIFETIME,
    { name: "capacity", value: ({ capacity }) => JSON.stringify(capacity), isHidden: true },
    { name: "occupied_resources", value: ({ usage }) => JSON.stringify(usage), isHidden: true },
    { name: "queue_length", value: ({ queued }) => String(queued), isHidden: true },
  ],
  detail: (pool) => [
    [`pool ${pool.name}${pool.closing ? " (being deleted)" : ""}`, ""],
    ...(pool.description === "" ? [] : [["description", pool.description] as const]),
    ["discipline", pool.discipline],
    ["in use", inUseText(pool)],
    ["running", String(pool.running)],
    ["queued", String(pool.queued)],
    ...(pool.expiry_paused === undefined ? [] : [["expiry", pauseText(pool.expiry_paused)] as const]),
    ...(pool.guarantees_scaled === undefined
      ? []
      : [["guarantees", scaledText(pool.guarantees_scaled)] as const]),
    ...(pool.shielded_runs === undefined ? [] : [["shielded", shieldedText(pool.shielded_runs)] as const]),
    ...(pool.node_backed ? [["capacity", "that of its nodes"] as const] : []),
    ...(Object.keys(pool.labels).length > 0 ? [["labels", labelsText(pool.labels)] as const] : []),
    ["settings", ""],
    ...Object.entries(pool.settings).map(
      ([name, value]) =>
        [`  ${name}=${typeof value === "string" ? value : JSON.stringify(value)}`, ""] as const,
    ),
  ],
};

/** Such as `scaled down: members of research are guaranteed more than there is` (9.1). */
export function scaledText(groups: readonly string[]): string {
  const names = groups.map((name) => name || "the pool").join(", ");
  return `scaled down: members of ${names} are guaranteed more than there is`;
}

/** Such as `3 runs were preempted too often lately to be preempted again` (V6). */
export function shieldedText(count: number): string {
  return `${count === 1 ? "1 run was" : `${count} runs were`} preempted too often lately to be preempted again`;
}

/** Such as `paused: 6 of 10 clients fell silent at once, for 12m at the most`. */
export function pauseText({ silent, clients, until }: NonNullable<WirePoolAnswer["expiry_paused"]>): string {
  const left = durationText(Math.max(0, Date.parse(until) - Date.now()) / 1000);
  return `paused: ${silent} of ${clients} clients fell silent at once; for another ${left} at the most`;
}

/** Such as `gpu 2 of 8, mcpu 0 of 64000`. */
export function inUseText({ capacity, usage }: Pick<WirePoolAnswer, "capacity" | "usage">): string {
  return (
    Object.entries(capacity)
      .map(([key, amount]) => `${key} ${usage[key] ?? 0} of ${amount}`)
      .join(", ") || "-"
  );
}

// --- Policies, groups, nodes, tokens

export const POLICY: Shape<WirePolicyAnswer> = {
  nameOf: ({ pool, component }) => `${pool}/${component}`,
  columns: [
    { name: "pool", value: ({ pool }) => pool },
    { name: "component", value: ({ component }) => component },
    { name: "priority", value: ({ priority }) => String(priority), alignsRight: true },
    {
      name: "reserved",
      value: ({ reserved }) => amountsText(reserved),
      cells: ({ reserved }) => amountCells("reserved", reserved),
    },
    {
      name: "limit",
      value: ({ limit }) => amountsText(limit),
      cells: ({ limit }) => amountCells("limit", limit),
    },
    { name: "group", value: ({ group }) => group ?? "-" },
    { name: "weight", value: ({ weight }) => String(weight), alignsRight: true, isWide: true },
    { name: "kind", value: ({ kind }) => kind, isWide: true },
    { name: "max_class", value: ({ max_class }) => String(max_class), alignsRight: true, isWide: true },
    { name: "component_type", value: ({ component_type }) => component_type || "-", isWide: true },
    { name: "home", value: ({ home }) => labelsText(home), isWide: true },
    ...LIFETIME,
  ],
  detail: (policy) => [
    [`policy of ${policy.component} in pool ${policy.pool}${policy.closing ? " (being detached)" : ""}`, ""],
    ["type", policy.component_type || "-"],
    ["priority", String(policy.priority)],
    ["reserved", amountsText(policy.reserved)],
    ["limit", amountsText(policy.limit)],
    ["weight", String(policy.weight)],
    ["kind", policy.kind],
    ["max_class", String(policy.max_class)],
    ["group", policy.group ?? "-"],
    ["home", labelsText(policy.home)],
  ],
};

export const GROUP: Shape<WireGroupAnswer> = {
  nameOf: ({ name }) => name,
  columns: [
    { name: "pool", value: ({ pool }) => pool },
    { name: "name", value: ({ name }) => name },
    { name: "parent", value: ({ parent }) => parent ?? "-" },
    { name: "weight", value: ({ weight }) => String(weight), alignsRight: true },
    {
      name: "reserved",
      value: ({ reserved }) => (reserved === null ? "as its members" : amountsText(reserved)),
    },
    { name: "limit", value: ({ limit }) => amountsText(limit) },
    { name: "mode", value: ({ mode }) => mode },
    { name: "settings", value: ({ settings }) => JSON.stringify(settings), isWide: true },
  ],
};

export const NODE: Shape<WireNodeAnswer> = {
  nameOf: ({ name }) => name,
  columns: [
    { name: "name", value: ({ name }) => name },
    { name: "pool", value: ({ pool }) => pool },
    {
      name: "state",
      value: ({ state }) => state,
      paint: ({ state }, style) => statusPaint({ status: state }, style),
    },
    { name: "in_use", value: inUseText, cells: inUseCells },
    { name: "topology", value: ({ topology }) => topology || "-" },
    {
      name: "heard",
      value: ({ heard_at: at }) => (at === null ? "-" : `${ageOf(at)} ago`),
      isWide: true,
    },
    { name: "running", value: ({ requests }) => String(requests.length), alignsRight: true, isWide: true },
    { name: "labels", value: ({ labels }) => labelsText(labels), isWide: true },
  ],
  detail: (node) => [
    [`node ${node.name} of pool ${node.pool}`, ""],
    ["state", node.state],
    ...(node.drain_deadline === null ? [] : [["stops work at", node.drain_deadline] as const]),
    ["in use", inUseText(node)],
    ["topology", node.topology || "-"],
    ["labels", labelsText(node.labels)],
    ...(node.heard_at === null ? [] : [["last heard of", node.heard_at] as const]),
    ...(node.agent_version === null ? [] : [["agent", node.agent_version] as const]),
    ...node.devices.map((device) => [`GPU ${device.index}`, deviceText(device)] as const),
    ...node.requests.map(
      ({ number, devices }) =>
        ["running", `#${number}${devices.length === 0 ? "" : ` on GPU ${devices.join(", ")}`}`] as const,
    ),
  ],
};

export function strangersText(count: number): string {
  return `${count} ${count === 1 ? "process" : "processes"} that Berth did not start`;
}

/** A GPU, and who uses it beside Berth. */
export function deviceText({ model, strangers = 0, kept_out }: WireNodeAnswer["devices"][number]): string {
  const others = strangers > 0 ? [strangersText(strangers)] : [];
  const facts = [model ?? "-", ...others, ...(kept_out ? ["kept out of use"] : [])];
  return facts.join(" · ");
}

// --- Jobs and operations

export const JOB: Shape<WireJob> = {
  nameOf: ({ number }) => String(number),
  columns: REQUEST.columns as Shape<WireJob>["columns"],
  detail: (job) => [
    ...requestLines(job),
    ...(job.run === null ? [] : [["runs", job.run.command.join(" ")] as const]),
    ...(job.run?.directory === undefined ? [] : [["in", job.run.directory] as const]),
    ...(job.phase === null ? [] : [["phase", job.phase] as const]),
    ...job.where.map(({ node, devices, progress }) => {
      const gpus = devices.length === 0 ? "" : ` on GPU ${devices.join(", ")}`;
      return ["on node", `${node}${gpus}${progress === null ? "" : ` · ${progress}`}`] as const;
    }),
    ...(job.exit === null ? [] : [["last end", exitText(job.exit)] as const]),
  ],
};

function exitText({ reason, exit_code, signal, message }: NonNullable<WireJob["exit"]>): string {
  const how = signal !== null ? ` by ${signal}` : exit_code === null ? "" : ` with ${exit_code}`;
  return `${reason}${how}${message === null ? "" : ` · ${message}`}`;
}

/** What lives first. */
const STATUS_ORDER = ["allocated", "preempting", "queued", "blocked", "released"];

export const OPERATION: Shape<WireOperation> = {
  nameOf: ({ operation }) => operation,
  columns: [
    { name: "operation", value: ({ operation }) => operation },
    { name: "component", value: ({ component }) => component },
    { name: "requests", value: ({ statuses }) => statusesText(statuses) },
    { name: "in_use", value: ({ usage }) => amountsText(usage) },
    { name: "pools", value: ({ pools }) => pools.join(",") || "-" },
    { name: "share", value: ({ shares }) => percentText(shares), alignsRight: true },
    {
      name: "waited",
      value: ({ waited_seconds }) => secondsText(waited_seconds),
      cells: ({ waited_seconds }) => ({ waited_seconds }),
      alignsRight: true,
    },
    { name: "age", value: ({ submitted_at }) => ageOf(submitted_at), alignsRight: true },
  ],
  detail: (operation) => [
    [`operation ${operation.operation} of ${operation.component}`, ""],
    ["requests", statusesText(operation.statuses)],
    ["in use", amountsText(operation.usage)],
    ["pools", operation.pools.join(", ") || "-"],
    ...operation.shares.map((share) => [`share of ${share.pool}`, shareText(share)] as const),
    ["waited on average", secondsText(operation.waited_seconds)],
    ["longest wait now", secondsText(operation.waiting_seconds_max)],
    ["submitted", operation.submitted_at],
    ...(operation.ended_at === null ? [] : [["ended", operation.ended_at] as const]),
  ],
};

type OperationShare = WireOperation["shares"][number];

const percent = (part: number) => `${Math.round(part * 100)} %`;

function percentText(shares: readonly OperationShare[]): string {
  return shares.length === 0 ? "-" : percent(Math.max(...shares.map(({ usage_share }) => usage_share)));
}

function shareText({ usage_share, fair_share, satisfaction, status }: OperationShare): string {
  const standing = [
    ...(fair_share === null ? [] : [`fair share ${percent(fair_share)}`]),
    ...(satisfaction === null ? [] : [`satisfaction ${satisfaction.toFixed(2)}`]),
    ...(status === null ? [] : [status.replaceAll("_", " ")]),
  ];
  return [`uses ${percent(usage_share)}`, ...standing].join(" · ");
}

function statusesText(statuses: Readonly<Record<string, number>>): string {
  const rank = (status: string) =>
    STATUS_ORDER.includes(status) ? STATUS_ORDER.indexOf(status) : STATUS_ORDER.length;
  return Object.entries(statuses)
    .sort(([a], [b]) => rank(a) - rank(b))
    .map(([status, count]) => `${count} ${status}`)
    .join(", ");
}

export const TOKEN: Shape<WireToken> = {
  nameOf: ({ name }) => name,
  columns: [
    { name: "name", value: ({ name }) => name },
    { name: "role", value: ({ role }) => role },
    { name: "components", value: ({ components }) => components?.join(",") ?? "all" },
    { name: "pools", value: ({ pools }) => pools?.join(",") ?? "all" },
    {
      name: "age",
      value: ({ created_at }) => ageOf(created_at),
      cells: ({ created_at }) => ({ created_at }),
      alignsRight: true,
    },
    {
      name: "ends",
      value: endsText,
      cells: ({ expires_at, revoked_at }) => ({ expires_at, revoked_at }),
    },
    { name: "permissions", value: ({ permissions }) => permissions.join(",") || "-", isWide: true },
    { name: "run_as", value: ({ run_as }) => run_as?.join(",") ?? "-", isWide: true },
    { name: "id", value: ({ id }) => id, isWide: true },
  ],
};

export const TARGET: Shape<WireTarget> = {
  nameOf: ({ name }) => name,
  columns: [
    { name: "name", value: ({ name }) => name },
    { name: "kind", value: ({ kind }) => kind },
    { name: "to", value: ({ url }) => url },
    { name: "on", value: ({ on }) => (on.length === 4 ? "all" : on.join(",")) },
    { name: "component", value: ({ component }) => component ?? "all" },
    { name: "pool", value: ({ pool }) => pool ?? "all" },
    { name: "state", value: ({ state }) => state },
    { name: "sent", value: ({ sent }) => String(sent), alignsRight: true },
    { name: "pending", value: ({ pending }) => String(pending), alignsRight: true },
    { name: "lost", value: ({ lost }) => String(lost), alignsRight: true },
    { name: "problem", value: ({ problem }) => problem ?? "-" },
    { name: "owner", value: ({ owner }) => owner, isWide: true },
    {
      name: "last_sent",
      value: ({ last_sent_at }) => ageOf(last_sent_at),
      cells: ({ last_sent_at }) => ({ last_sent_at }),
      isWide: true,
    },
  ],
};

function endsText({ revoked_at, expires_at }: WireToken): string {
  if (revoked_at !== null) return `revoked ${ageOf(revoked_at)} ago`;
  if (expires_at === null) return "never";
  const seconds = (Date.parse(expires_at) - Date.now()) / 1000;
  return seconds > 0 ? `in ${durationText(seconds)}` : `${durationText(-seconds)} ago`;
}
