// What must hold when inputs of all kinds have been sent: every page of every list is answered, every request that exists
// is listed, and the store finds no damage in itself.

import { ROUTES, type Route } from "../../src/protocol/index.ts";
import type { OpenedServer } from "../../src/server/index.ts";
import type { FuzzWorld } from "./fuzz-world.ts";

const AT_ONCE = 1_000;
const PAGE_ITEMS = 100;

interface Item {
  readonly id?: string;
  readonly name?: string;
}

export interface End {
  /** That exist, and how many of these are listed. */
  readonly requests: number;
  readonly listed: number;
  readonly pages: number;
  readonly failures: readonly string[];
}

export async function lookAtEnd(
  { url, store }: Pick<OpenedServer, "url" | "store">,
  world: FuzzWorld,
): Promise<End> {
  const failures: string[] = [];
  let pages = 0;
  let missing: string[] = [];

  /** All items of a list, as far as it is answered. */
  async function readList(path: string, secret: string): Promise<Item[]> {
    const items: Item[] = [];
    for (let cursor: string | null = null; ; ) {
      const query = `limit=${PAGE_ITEMS}${cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`}`;
      const answer = await fetch(`${url}${path}?${query}`, {
        headers: { authorization: `Bearer ${secret}` },
      });
      const text = await answer.text();
      pages++;
      if (answer.status !== 200) {
        failures.push(`GET ${path} was answered with ${answer.status} at the end: ${text.slice(0, 300)}`);
        return items;
      }
      const page = JSON.parse(text) as { items?: readonly Item[]; next_cursor: string | null };
      items.push(...(page.items ?? []));
      cursor = page.next_cursor;
      if (cursor === null) return items;
    }
  }

  const existing = await requestsIn(store);
  const pools = await readList(ROUTES.listPools.path, world.admin);
  for (const path of listPaths(pools.map(({ name }) => name as string))) {
    const items = await readList(path, world.admin);
    if (path !== ROUTES.listRequests.path) continue;
    const ids = new Set(items.map(({ id }) => id));
    missing = [...existing].filter((id) => !ids.has(id));
    if (missing.length > 0)
      failures.push(`${missing.length} of ${existing.size} requests are not listed, such as ${missing[0]}`);
  }
  for (const secret of world.secrets) await readList(ROUTES.listRequests.path, secret);
  const { damage } = await store.verify();
  for (const found of damage) failures.push(`the store is damaged: ${JSON.stringify(found)}`);
  return { requests: existing.size, listed: existing.size - missing.length, pages, failures };
}

/** Every list of the table, of every pool. */
function listPaths(pools: readonly string[]): string[] {
  const lists = Object.values<Route>(ROUTES).filter(
    ({ query }) => query !== undefined && "cursor" in query.shape,
  );
  return lists.flatMap(({ path }) =>
    path.includes("{pool}") ? pools.map((pool) => path.replace("{pool}", pool)) : [path],
  );
}

/**
 * By the journal, whatever the tables say. A request that has left the memory leaves the store without an event, so that
 * the audit log says of these which were deleted.
 */
async function requestsIn(store: OpenedServer["store"]): Promise<Set<string>> {
  const ids = new Set<string>();
  for (let fromSeq = 1; ; ) {
    const events = await store.readEvents(fromSeq, AT_ONCE);
    for (const { event } of events as readonly {
      event: { kind: string; requestId?: string; spec?: Spec };
    }[]) {
      if (event.kind === "requestSubmitted" && event.spec !== undefined) ids.add(event.spec.id);
      if (event.kind === "requestDeleted" && event.requestId !== undefined) ids.delete(event.requestId);
    }
    const last = events.at(-1);
    if (last === undefined) break;
    fromSeq = last.seq + 1;
  }
  for (let cursor: string | null = ""; cursor !== null; ) {
    const page: Page = await store.listAudit({ limit: AT_ONCE, ...(cursor !== "" && { cursor }) });
    for (const { action, target, outcome } of page.items)
      if (action === "deleteRequest" && outcome === "accepted") ids.delete(target);
    cursor = page.nextCursor;
  }
  return ids;
}

type Page = Awaited<ReturnType<OpenedServer["store"]["listAudit"]>>;

interface Spec {
  readonly id: string;
}
