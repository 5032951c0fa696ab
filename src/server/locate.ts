// Which request is meant: by id, by small number, or by an unambiguous beginning of an id; and whether the
// caller reaches it.

import type { RequestId } from "../engine/index.ts";
import type { View } from "../leader/index.ts";
import type { RequestRecord } from "../store/index.ts";
import { toRequestId } from "../translation/index.ts";
import type { Call, Denial, Services } from "./call.ts";
import { denial } from "./call.ts";
import { type Identity, reachesAll } from "./identity.ts";
import { forbidden, hidden, NOT_FOUND_HINT, notFound, problemError } from "./problems.ts";
import { type Owned, ownedOf, ownedOfRecord, type Sight, sightOf } from "./sight.ts";

export interface Located {
  readonly id: RequestId;
  readonly owned: Owned;
  /** Absent: the request is in memory. */
  readonly record?: RequestRecord;
}

const FULL_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const NUMBER = /^#?(\d{1,15})$/;
const ID_PREFIX = /^[0-9a-f][0-9a-f-]{3,34}$/;
const CANDIDATES_MAX = 10;

/** A request that the caller sees. */
export async function locate(
  call: Call,
  services: Services,
  text = call.params.id as string,
): Promise<Located> {
  return find(call, services, text, "see");
}

/** A request on which the caller may act, as far as the bounds of its token say. */
export async function locateOwn(
  call: Call,
  services: Services,
  text = call.params.id as string,
): Promise<Located> {
  return find(call, services, text, "act");
}

async function find(call: Call, services: Services, text: string, purpose: "see" | "act"): Promise<Located> {
  const { identity } = call;
  const judge = (sight: Sight, located: Located) => {
    if (!sight.sees(located.owned)) return hidden("request", text);
    return purpose === "see" || sight.reaches(located.owned) ? located : notYours(text);
  };
  const found = await services.leader.read((view) => {
    const located = inMemory(view, text);
    return located && judge(sightOf(identity, view), located);
  });
  if (found instanceof Error) throw found;
  if (found !== undefined) {
    if (found.owned.submittedBy === identity.name) services.hear(call, found.id);
    return found;
  }

  const record = await inStore(call, services, text);
  if (record === undefined) throw notFound("request", text);
  const located = { id: toRequestId(record.id), owned: ownedOfRecord(record), record };
  const judged = await services.leader.read((view) => judge(sightOf(identity, view), located));
  if (judged instanceof Error) throw judged;
  return judged;
}

function notYours(text: string) {
  return forbidden(`The request "${text}" is not in the reach of this token.`, NOT_YOURS_HINT);
}

const NOT_YOURS_HINT = "You see it because you may use its pool; only those of its component act on it.";

/** For calls that are made often: a full id needs no look before the decision, where `reachGuard` judges it. */
export async function idOf(
  call: Call,
  services: Services,
  text = call.params.id as string,
): Promise<RequestId> {
  return FULL_ID.test(text) ? toRequestId(text) : (await locateOwn(call, services, text)).id;
}

export function reachGuard(identity: Identity, id: RequestId): (view: View) => Denial | undefined {
  if (reachesAll(identity)) return () => undefined;
  return (view) => {
    const owned = ownedOf(view, id);
    if (owned === undefined) return undefined; // The engine says so itself.
    const sight = sightOf(identity, view);
    if (sight.reaches(owned)) return undefined;
    return sight.sees(owned)
      ? denial("forbidden", notYours(id).message, NOT_YOURS_HINT)
      : denial("not_found", `There is no request "${id}".`, NOT_FOUND_HINT);
  };
}

function inMemory(view: View, text: string): Located | undefined {
  const number = NUMBER.exec(text)?.[1];
  const id = number === undefined ? toRequestId(text) : view.idOf(Number(number));
  const owned = id === undefined ? undefined : ownedOf(view, id);
  return id === undefined || owned === undefined ? undefined : { id, owned };
}

async function inStore(
  { identity }: Call,
  { store, leader }: Services,
  text: string,
): Promise<RequestRecord | undefined> {
  if (FULL_ID.test(text)) return store.getRequest(text);
  const number = NUMBER.exec(text)?.[1];
  const byNumber = number === undefined ? undefined : await store.getRequestByNumber(Number(number));
  if (byNumber !== undefined) return byNumber;
  if (!ID_PREFIX.test(text)) return undefined;

  const { items } = await store.listRequests({ idPrefix: text, limit: CANDIDATES_MAX });
  const reached = await leader.read((view) => {
    const sight = sightOf(identity, view);
    return items.filter((record) =>
      sight.sees(ownedOf(view, toRequestId(record.id)) ?? ownedOfRecord(record)),
    );
  });
  if (reached.length <= 1) return reached[0];
  throw problemError("ambiguous", `Several requests begin with "${text}".`, {
    hint: `One of ${reached.map(({ number, id }) => `${number} (${id})`).join(", ")}.`,
  });
}
