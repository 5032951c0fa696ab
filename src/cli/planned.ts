// Changes on their way to a plan: a command runs as far as the call that it would make, and that call is kept instead of sent.

import type { WirePlanRequest } from "../protocol/index.ts";
import type { Answer, Fetch } from "../sdk/index.ts";
import { fetchLightly } from "./http.ts";
import { withFetch } from "./session.ts";

export type PlannedChange = WirePlanRequest["changes"][number];

/** The changes that `run` would make. It ends at the first of them, since nothing answers it. */
export async function changesOf(run: () => Promise<unknown>): Promise<PlannedChange[]> {
  const changes: PlannedChange[] = [];
  const collect: Fetch = async (url, init) => {
    if (init.method === "GET") return fetchLightly(url, init);
    changes.push(toChange(url, init));
    return NOT_SENT;
  };
  try {
    await withFetch(collect, run);
  } catch (error) {
    if (changes.length === 0) throw error; // It did not get as far.
  }
  return changes;
}

function toChange(address: string, { method, body }: { method: string; body?: string }): PlannedChange {
  const url = new URL(address);
  url.searchParams.delete("dry_run");
  const path = `${url.pathname}${url.search}`;
  return {
    method: method as PlannedChange["method"],
    path,
    ...(body !== undefined && { body: JSON.parse(body) as unknown }),
  };
}

/** An answer that no command goes on after. */
const NOT_SENT: Answer = {
  status: 409,
  ok: false,
  headers: { get: (name) => (name === "content-type" ? "application/problem+json" : null) },
  body: null,
  text: async () =>
    JSON.stringify({
      type: "about:blank",
      title: "",
      status: 409,
      code: "cancelled",
      detail: "Only planned.",
    }),
};
