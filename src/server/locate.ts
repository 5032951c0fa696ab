// Which request is meant: by id, by small number, or by an unambiguous beginning of an id; and whether the
// caller reaches it.

import { type RequestId, requestOf } from "../engine/index.ts";
import type { View } from "../leader/index.ts";
import type { RequestRecord } from "../store/index.ts";
import { toRequestId } from "../translation/index.ts";
import type { Call, Denial, Services } from "./call.ts";
import { denial } from "./call.ts";
import { clientOf } from "./holders.ts";
import { type Identity, type Owned, requestReach } from "./identity.ts";
import { ownedOf, ownedOfRecord } from "./presentation.ts";
import { hidden, NOT_FOUND_HINT, notFound, problemError } from "./problems.ts";

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

export async function locate(
  call: Call,
  services: Services,
  text = call.params.id as string,
): Promise<Located> {
  const { identity } = call;
  const found = await services.leader.read((view) => inMemory(view, identity, text));
  if (found?.isReached) {
    const { located } = found;
    if (located.owned.submittedBy === identity.name) services.leader.hear(located.id, clientOf(call));
    return located;
  }
  if (found !== undefined) throw hidden("request", text);

  const record = await inStore(call, services, text);
  if (record === undefined) throw notFound("request", text);
  const owned = ownedOfRecord(record);
  const isReached = await services.leader.read((view) => requestReach(identity, view)(owned));
  if (!isReached) throw hidden("request", text);
  return { id: toRequestId(record.id), owned, record };
}

/** For calls that are made often: a full id needs no look before the decision, where `reachGuard` judges it. */
export async function idOf(
  call: Call,
  services: Services,
  text = call.params.id as string,
): Promise<RequestId> {
  return FULL_ID.test(text) ? toRequestId(text) : (await locate(call, services, text)).id;
}

export function reachGuard(identity: Identity, id: RequestId): (view: View) => Denial | undefined {
  return (view) => {
    const request = requestOf(view.state, id);
    if (request === undefined) return undefined; // The engine says so itself.
    const isReached = requestReach(identity, view)(ownedOf(request.spec, request.progress));
    return isReached ? undefined : denial("not_found", `There is no request "${id}".`, NOT_FOUND_HINT);
  };
}

function inMemory(view: View, identity: Identity, text: string) {
  const number = NUMBER.exec(text)?.[1];
  const id = number === undefined ? toRequestId(text) : view.idOf(Number(number));
  const request = id === undefined ? undefined : requestOf(view.state, id);
  if (request === undefined) return undefined;
  const { spec, progress } = request;
  const located: Located = { id: spec.id, owned: ownedOf(spec, progress) };
  return { located, isReached: requestReach(identity, view)(located.owned) };
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
    const reaches = requestReach(identity, view);
    return items.filter((record) => reaches(ownedOfRecord(record)));
  });
  if (reached.length <= 1) return reached[0];
  throw problemError("ambiguous", `Several requests begin with "${text}".`, {
    hint: `One of ${reached.map(({ number, id }) => `${number} (${id})`).join(", ")}.`,
  });
}
