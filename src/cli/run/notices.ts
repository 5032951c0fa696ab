// `berth run --notify NAME`: targets of the server get the request's label, names of this machine are shown from here.

import type { NoticeKind, WireRequest } from "../../protocol/index.ts";
import { type Client, NOTIFY_LABEL } from "../../sdk/index.ts";
import { noticeOf, type Show, showerOf } from "../notices/here.ts";

export interface RunNotices {
  /** For the submission; empty where only this machine is to show them. */
  readonly labels: Readonly<Record<string, string>>;
  /** Whether anything is shown from here. */
  readonly isHere: boolean;
  tell(kind: NoticeKind, request: WireRequest): Promise<void>;
}

export async function noticesFor(
  client: Client,
  names: readonly string[],
  tell: (text: string) => void,
): Promise<RunNotices> {
  const shows: Show[] = [];
  const targets: string[] = [];
  for (const name of names) {
    const show = showerOf(name, tell);
    if (show !== undefined) shows.push(show);
    else targets.push((await client.targets.get(name)).name); // One that does not exist is not found out at the end.
  }
  return {
    labels: targets.length === 0 ? {} : { [NOTIFY_LABEL]: targets.join(",") },
    isHere: shows.length > 0,
    async tell(kind, request) {
      if (shows.length === 0) return;
      try {
        const notice = await noticeOf(client, kind, request, request.component);
        for (const show of shows) await show(notice);
      } catch (error) {
        tell(`berth: a notice could not be shown: ${(error as Error).message}\n`);
      }
    },
  };
}
