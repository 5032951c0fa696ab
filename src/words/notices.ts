// Notices about requests (H4): what happened, why in one sentence, what comes next, and the command that shows more.
// The server sends them, and the command line shows them on this machine, in the same words.

import type { NoticeKind, WireEvent, WireExplanation, WireRequest } from "../protocol/index.ts";
import { durationText, endText, listed, printable } from "./words.ts";

/** A request with this label names the targets that are to hear of it, with commas between them. */
export const NOTIFY_LABEL = "berth.notify";

export interface NoticeWords {
  readonly what: string;
  readonly why: string;
  readonly next: string;
  readonly command: string;
}

const ENDS: ReadonlySet<string> = new Set(
  ["released", "preempted", "failed", "cancelled", "expired"].map((status) => `request.${status}`),
);

/** What an event means for those who want to know; nothing for most. */
export function noticeKindsOf({ event, outcome }: WireEvent): NoticeKind[] {
  if (event === "request.allocated") return ["started"];
  if (event === "request.rejected") return ["rejected"];
  const kinds: NoticeKind[] = outcome === "preempted" ? ["preempted"] : [];
  if (ENDS.has(event)) kinds.push("ended");
  return kinds;
}

/** What is known beside the request itself. */
export interface Beside {
  /** Why it stands where it stands; absent where it has ended long ago. */
  readonly explanation?: Pick<WireExplanation, "pools" | "text" | "delayed_until"> | undefined;
  /** For whom it was stopped. */
  readonly taker?: Pick<WireRequest, "number" | "name" | "component"> | undefined;
  /** Whose requests the reader expects: of others it is said whose they are. */
  readonly ownComponent?: string | null;
}

export function noticeWords(kind: NoticeKind, request: WireRequest, beside: Beside = {}): NoticeWords {
  const title = titleOf(request, beside.ownComponent);
  const why = `berth why ${request.number}`;
  switch (kind) {
    case "started":
      return { what: startedText(title, request), why: waitedText(request), next: "", command: why };
    case "preempted":
      return {
        what: stoppedText(title, request, beside),
        why: "",
        next: nextText(request, beside),
        command: why,
      };
    case "rejected":
      return { what: `${title} was rejected: it could never start.`, ...rejection(beside), command: why };
    case "ended":
      return { what: endedText(title, request), why: ranText(request), next: "", command: showOf(request) };
  }
}

/** The whole notice in one line. */
export function noticeText({ what, why, next, command }: NoticeWords): string {
  return [what, why, next, command].filter((part) => part !== "").join(" ");
}

function titleOf(
  { number, name, component }: Pick<WireRequest, "number" | "name" | "component">,
  ownComponent: string | null | undefined,
): string {
  const title = name === "" ? `#${number}` : `#${number} ${printable(name)}`;
  return component === ownComponent ? title : `${title} of ${printable(component)}`;
}

function startedText(title: string, { pool, placement }: WireRequest): string {
  const nodes = [...new Set((placement ?? []).map(({ node }) => printable(node)))];
  const shown = nodes.length > 3 ? `${nodes.length} nodes` : listed(nodes);
  const where = pool === null ? " outside all pools" : ` in pool ${printable(pool)}`;
  return `${title} has started${where}${nodes.length === 0 ? "" : ` on ${shown}`}.`;
}

function waitedText({ queued_at, started_at }: WireRequest): string {
  if (started_at === null || queued_at === null) return "";
  return `It waited ${durationText((Date.parse(started_at) - Date.parse(queued_at)) / 1000)}.`;
}

function stoppedText(title: string, { attempts }: WireRequest, { taker }: Beside): string {
  const reason = attempts.findLast(({ outcome }) => outcome === "preempted")?.reason ?? null;
  const whom = taker === undefined ? "" : ` for ${titleOf(taker, undefined)}`;
  return `${title} was stopped${whom}${reason === null ? "" : ` (${reason.replaceAll("_", " ")})`}.`;
}

function nextText({ status }: WireRequest, { explanation }: Beside): string {
  if (status === "allocated" || status === "preempting") return "It has started again.";
  if (status !== "queued") return `It has ended as ${status}.`;
  if (explanation?.delayed_until != null) return "It is tried again after a pause.";
  const pools = explanation?.pools ?? [];
  const [first] = pools;
  if (first === undefined) return "It is back in line.";
  const places = pools.map(({ pool, position }) => `place ${position} of pool ${printable(pool)}`);
  return `It is back in line at ${pools.length === 1 ? `place ${first.position}` : listed(places)}.`;
}

function rejection({ explanation }: Beside): { why: string; next: string } {
  const [lines] = (explanation?.text ?? []).map((text) => text.lines);
  const why = (lines ?? []).map(({ label, text }) => `${printable(label)}: ${printable(text)}`).join("; ");
  return { why: why === "" ? "" : `${why}.`, next: "" };
}

function endedText(title: string, { status, attempts }: WireRequest): string {
  if (status === "cancelled") return `${title} was cancelled.`;
  if (status === "expired") return `${title} was not granted in time.`;
  const last = attempts.at(-1);
  return `${title} has ended: ${last === undefined ? status : endText(last)}.`;
}

function ranText({ attempts }: WireRequest): string {
  const last = attempts.at(-1);
  if (last === undefined) return "";
  const ran = durationText((Date.parse(last.ended_at) - Date.parse(last.started_at)) / 1000);
  return `It ran for ${ran}${attempts.length > 1 ? ` in attempt ${attempts.length}` : ""}.`;
}

function showOf({ number }: WireRequest): string {
  return `berth show ${number}`;
}
