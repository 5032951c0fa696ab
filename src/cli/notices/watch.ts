// Follows the events of the server and shows what they mean for those who watch (H2), until Ctrl-C.

import type { NoticeKind, WireEvent } from "../../protocol/index.ts";
import { type Client, isBerthError, noticeKindsOf } from "../../sdk/index.ts";
import type { CliContext } from "../context.ts";
import { noticeOf, type Show } from "./here.ts";

export interface Watched {
  readonly on: readonly NoticeKind[];
  readonly component?: string;
  readonly pool?: string;
  readonly show: Show;
}

export async function watchNotices(
  client: Client,
  watched: readonly Watched[],
  context: CliContext,
): Promise<void> {
  const { components } = await client.whoami();
  const own = components?.length === 1 ? (components[0] as string) : null;
  const isOwn = ({ component }: WireEvent) =>
    components === null || (component !== undefined && components.includes(component));
  const options = context.signal === undefined ? {} : { signal: context.signal };
  for await (const event of client.events.stream({}, options)) {
    const kinds = noticeKindsOf(event);
    if (kinds.length === 0 || event.request_id === undefined || !isOwn(event)) continue;
    for (const each of watched) {
      const kind = kinds.find((one) => each.on.includes(one));
      if (kind === undefined || !isMeant(each, event)) continue;
      try {
        const request = await client.requests.get(event.request_id);
        const notice = await noticeOf(client, kind, request, each.component ?? own);
        context.write(`${notice.text}\n`);
        await each.show(notice);
      } catch (error) {
        if (!isBerthError(error, "not_found")) throw error; // Deleted meanwhile.
      }
    }
  }
}

function isMeant({ component, pool }: Watched, event: WireEvent): boolean {
  if (component !== undefined && event.component !== component) return false;
  return pool === undefined || event.pool === pool;
}
