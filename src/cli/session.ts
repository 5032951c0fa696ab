// A command's talk with the server: the client, and things named the way people name them.

import type { WireNodeAnswer, WirePoolAnswer, WireRequest } from "../protocol/index.ts";
import { type Client, createClient, type Fetch, isBerthError } from "../sdk/index.ts";
import { type Connection, type ConnectionFlags, resolveConnection } from "./connection.ts";
import { CliError } from "./context.ts";
import { fetchLightly } from "./http.ts";
import { nearest, suggestion } from "./nearest.ts";
import { printable } from "./output/text.ts";

export interface Session extends Connection {
  readonly client: Client;
}

/** Interactive: give up soon on a server that does not answer. */
const RETRY_FOR_MS = 2_000;

let fetchUsed: Fetch = fetchLightly;

/** Everything that `run` sends goes through a fetch of the caller's choice: `berth plan` collects changes that way. */
export async function withFetch<T>(fetch: Fetch, run: () => Promise<T>): Promise<T> {
  fetchUsed = fetch;
  try {
    return await run();
  } finally {
    fetchUsed = fetchLightly;
  }
}

export function connect(flags: ConnectionFlags = {}): Session {
  const connection = resolveConnection(flags);
  const client = createClient({
    urls: connection.urls,
    ...(connection.token !== undefined && { token: connection.token }),
    fetch: (...call) => fetchUsed(...call),
    retryForMs: RETRY_FOR_MS,
  });
  return { ...connection, client };
}

const ID_LENGTH_MIN = 4;

/** A pool by its name or id, or by an unambiguous beginning of one of them. */
export async function findPool(client: Client, text: string): Promise<WirePoolAnswer> {
  try {
    return await client.pools.get(text);
  } catch (error) {
    if (!isBerthError(error, "not_found", "invalid_request")) throw error;
    const pools = await gather(client.pools.all());
    const isName = text.length < ID_LENGTH_MIN || pools.some(({ name }) => name.startsWith(text));
    const [byId, ...others] = isName ? [] : pools.filter(({ id }) => id.startsWith(text));
    if (byId !== undefined && others.length === 0) return byId;
    const names = pools.map(({ name }) => name);
    return client.pools.get(choose("pool", text, names));
  }
}

export async function findNode(client: Client, text: string): Promise<WireNodeAnswer> {
  try {
    return await client.nodes.get(text);
  } catch (error) {
    if (!isBerthError(error, "not_found", "invalid_request")) throw error;
    const name = choose("node", text, await namesOf(client.nodes.all()));
    return client.nodes.get(name);
  }
}

/** The component of a policy in a pool, by its name or the beginning of it. */
export async function findPolicy(client: Client, pool: string, text: string) {
  try {
    return await client.policies.get(pool, text);
  } catch (error) {
    if (!isBerthError(error, "not_found")) throw error;
    const components = (await gather(client.policies.all(pool))).map(({ component }) => component);
    return client.policies.get(pool, choose(`policy in pool "${pool}" for component`, text, components));
  }
}

export async function findGroup(client: Client, pool: string, text: string) {
  try {
    return await client.groups.get(pool, text);
  } catch (error) {
    if (!isBerthError(error, "not_found")) throw error;
    const { items } = await client.groups.list(pool, { limit: 1000 });
    const names = items.map(({ name }) => name);
    return client.groups.get(pool, choose("group", text, names));
  }
}

/** A request by number, `#number`, id, beginning of an id, or by its name or the beginning of that. */
export async function findRequest(client: Client, text: string): Promise<WireRequest> {
  try {
    return await client.requests.get(text);
  } catch (error) {
    if (!isBerthError(error, "not_found")) throw error;
    const found = await requestsNamed(client, text);
    if (found !== undefined) return found;
    throw error;
  }
}

const RECENT_MAX = 1000;

/** Live ones first: of two that are called alike, the one that ended is hardly meant. */
async function requestsNamed(client: Client, text: string): Promise<WireRequest | undefined> {
  const names: string[] = [];
  for (const status of ["queued,allocated,preempting", undefined]) {
    const { items } = await client.requests.list({ limit: RECENT_MAX, ...(status && { status }) });
    const named = items.filter(({ name }) => name !== "");
    const exact = named.filter(({ name }) => name === text);
    const matching = exact.length > 0 ? exact : named.filter(({ name }) => name.startsWith(text));
    if (matching.length === 1 || (matching.length > 0 && status === undefined && exact.length > 0)) {
      return matching[0]; // Of ended ones with the same name, the latest.
    }
    if (matching.length > 1) throw ambiguous("requests", text, matching.map(titleOf));
    names.push(...named.map(({ name }) => name));
  }
  const meant = nearest(text, names);
  if (meant === undefined) return undefined;
  throw new CliError("not_found", `There is no request "${text}".`, `Did you mean ${meant}?`);
}

/** Such as `#1 train`. */
export function titleOf({ number, name }: { readonly number: number; readonly name: string }): string {
  return name === "" ? `#${number}` : `#${number} ${printable(name)}`;
}

function choose(kind: string, text: string, names: readonly string[]): string {
  const exact = names.find((name) => name === text);
  if (exact !== undefined) return exact;
  const matching = names.filter((name) => name.startsWith(text));
  if (matching.length === 1) return matching[0] as string;
  if (matching.length > 1) throw ambiguous(`${kind}s`, text, matching);
  throw new CliError("not_found", `There is no ${kind} "${text}".`, suggestion(text, names));
}

function ambiguous(kinds: string, text: string, candidates: readonly string[]): CliError {
  const shown = candidates.slice(0, 10).join(", ");
  return new CliError("ambiguous", `Several ${kinds} begin with "${text}".`, `One of ${shown}.`);
}

async function namesOf(things: AsyncIterable<{ readonly name: string }>): Promise<string[]> {
  return (await gather(things)).map(({ name }) => name);
}

/** All pages of a list. */
export async function gather<Item>(
  items: AsyncIterable<Item>,
  countMax = Number.POSITIVE_INFINITY,
): Promise<Item[]> {
  const gathered: Item[] = [];
  for await (const item of items) {
    if (gathered.push(item) >= countMax) break;
  }
  return gathered;
}

/** Who asks: what the command line or the context says, or the only component of the token. */
export async function componentOf({
  client,
  component,
  componentGuess,
}: Pick<Session, "client" | "component" | "componentGuess">): Promise<string> {
  if (component !== undefined) return component;
  const { components } = await client.whoami();
  if (components?.length === 1) return components[0] as string;
  if (componentGuess !== undefined && (components?.includes(componentGuess) ?? true)) return componentGuess;
  const choices = components === null ? "" : ` The token may ask for ${components.join(", ")}.`;
  throw new CliError(
    "usage",
    "It is not clear which component asks.",
    `Add --component NAME, or set BERTH_COMPONENT.${choices}`,
  );
}
