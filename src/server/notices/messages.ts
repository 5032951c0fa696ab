// A notice as it is sent: what happened, why, what next, the command (H4); as JSON for programs, as text for people.

import type { RequestId } from "../../engine/index.ts";
import type { Leader } from "../../leader/index.ts";
import type { NoticeKind, WireExplanation, WireRequest } from "../../protocol/index.ts";
import type { Store } from "../../store/index.ts";
import { type NoticeWords, noticeText, noticeWords } from "../../words/index.ts";
import { explainNow } from "../explanations.ts";
import type { Grants } from "../grants.ts";
import type { Identity } from "../identity.ts";
import { presentRecord } from "../presentation.ts";
import { ownedOf, sightOf } from "../sight.ts";
import type { Gathered, Pending } from "./outbox.ts";
import type { Target } from "./target.ts";

/** Something that a target is to hear of. */
export interface Notice {
  readonly kind: NoticeKind;
  readonly requestId: RequestId;
  readonly seq: number;
  readonly at: string;
}

export interface Sources {
  readonly leader: Leader;
  readonly store: Store;
  readonly grants: Grants;
}

interface Told {
  readonly notice: Notice;
  readonly request: WireRequest;
  readonly words: NoticeWords;
}

/** Undefined: all that it would be about is gone, or no longer to be seen. */
export async function writeMessage(
  { listed, count, firstSeq, lastSeq }: Gathered<Notice>,
  { target, identity }: { readonly target: Target; readonly identity: Identity },
  sources: Sources,
): Promise<Pick<Pending, "id" | "body"> | undefined> {
  const told: Told[] = [];
  for (const notice of listed) {
    const one = await tell(notice, { target, identity, sources });
    if (one !== undefined) told.push(one);
  }
  const [first] = told;
  if (first === undefined) return undefined;
  const { incarnation } = sources.store.meta;
  if (count === 1) {
    const id = eventId(incarnation, first.notice.seq);
    return { id, body: bodyOf(target, noticeText(first.words), single(first, id)) };
  }
  const id = `${eventId(incarnation, firstSeq)}-${lastSeq}`;
  const text = summaryText(told, count);
  const at = told.at(-1)?.notice.at;
  const data = {
    ...{ text, count },
    notices: told.map((one) => single(one, eventId(incarnation, one.notice.seq)).data),
  };
  return { id, body: bodyOf(target, text, { type: "notices.summary", timestamp: at, data }) };
}

export function testMessage(target: Target, id: string, at: string): Pick<Pending, "id" | "body"> {
  const text = `This is a test of the target ${target.name}. Notices of Berth arrive here.`;
  return { id, body: bodyOf(target, text, { type: "notices.test", timestamp: at, data: { text } }) };
}

/** Of one history: after a restored backup the same position is another event. */
function eventId(incarnation: string, seq: number): string {
  return `evt_${incarnation.slice(0, 8)}_${seq}`;
}

/** Slack and what is compatible with it takes a text, in which three characters mean something. */
function bodyOf({ kind }: Target, text: string, payload: object): string {
  if (kind === "webhook") return JSON.stringify(payload);
  const escaped = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return JSON.stringify({ text: escaped });
}

function single({ notice, request, words }: Told, eventId: string) {
  const { id, number, name, component, pool, status, attempt } = request;
  return {
    type: `request.${notice.kind}`,
    timestamp: notice.at,
    data: {
      ...{ event_id: eventId, seq: notice.seq, kind: notice.kind },
      text: noticeText(words),
      ...words,
      request: { id, number, name, component, pool, status, attempt },
    },
  };
}

const KINDS = ["rejected", "preempted", "ended", "started"] as const;

function summaryText(told: readonly Told[], count: number): string {
  const parts = KINDS.flatMap((kind) => {
    const some = told.filter(({ notice }) => notice.kind === kind).length;
    return some === 0 ? [] : `${some} ${kind}`;
  });
  const lines = told.map(({ words }) => `• ${words.what}`);
  const more = count - told.length;
  if (more > 0) lines.push(`and ${more} more: berth events`);
  return [`${count} notices (${parts.join(", ")}):`, ...lines].join("\n");
}

async function tell(
  notice: Notice,
  {
    target,
    identity,
    sources: { leader, store, grants },
  }: { readonly target: Target; readonly identity: Identity; readonly sources: Sources },
): Promise<Told | undefined> {
  const { kind, requestId } = notice;
  const ownComponent = target.component ?? onlyOf(identity.components);
  const said = (request: WireRequest, taker?: Party, explanation?: WireExplanation): Told => ({
    ...{ notice, request },
    words: noticeWords(kind, request, { ownComponent, explanation, taker }),
  });
  const live = await leader.read((view) => {
    if (ownedOf(view, requestId) === undefined) return undefined;
    const { request, explanation } = explainNow(view, requestId, { identity, grants, said: [] });
    const takerId = kind === "preempted" ? takerOf(request) : null;
    const taker = takerId === null ? undefined : view.state.requests.get(takerId);
    const party = taker && {
      ...{ number: view.numberOf(taker.spec.id) ?? 0, name: taker.spec.name },
      component: taker.spec.component as string,
    };
    return said(request, party, explanation);
  });
  if (live !== undefined) return live;
  const record = await store.getRequest(requestId);
  if (record === undefined) return undefined;
  return leader.read((view) => said(presentRecord(record, sightOf(identity, view))));
}

type Party = Pick<WireRequest, "number" | "name" | "component">;

function takerOf({ attempts }: WireRequest): RequestId | null {
  const stopped = attempts.findLast(({ outcome }) => outcome === "preempted");
  return (stopped?.preempted_for ?? null) as RequestId | null;
}

function onlyOf(components: ReadonlySet<string> | null): string | null {
  return components?.size === 1 ? ([...components][0] as string) : null;
}
