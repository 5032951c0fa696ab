// Who is signed in (B8–B10): by a link that works once, or by a token that is pasted. The cookie is the browser's; no script sees it.

import { signal } from "@preact/signals";
import { type AnswerOf, BerthError, createClient, type Fetch } from "../sdk/index.ts";
import { prefix } from "./address.ts";

export type Identity = AnswerOf<"getSession">;

export type Session =
  | { readonly kind: "checking" }
  | { readonly kind: "signedOut"; readonly why?: BerthError | undefined }
  | { readonly kind: "unreachable"; readonly why: BerthError }
  | { readonly kind: "signedIn"; readonly identity: Identity };

export const session = signal<Session>({ kind: "checking" });

/** The header says that a script of ours asks, which no other site can make a browser do (B10). */
const fetchInSession: Fetch = async (url, init) => {
  const answer = await fetch(url, { ...init, headers: { ...init.headers, "berth-session": "1" } });
  if (answer.status === 401 && session.value.kind === "signedIn") {
    const why = new BerthError("unauthenticated", "Your session has ended.", {
      status: 401,
      hint: "Sign in again.",
    });
    session.value = { kind: "signedOut", why };
  }
  return answer;
};

export const client = createClient({ url: location.origin + prefix, fetch: fetchInSession, retryForMs: 0 });

/** Whether the token behind the session may do it; what it may not is absent from the page (B14). */
export function may(permission: string): boolean {
  return session.value.kind === "signedIn" && session.value.identity.permissions.includes(permission);
}

/** Takes the link out of the address before anything else sees it. */
export async function begin(): Promise<void> {
  const once = /^#once=(.+)$/.exec(location.hash)?.[1];
  if (once !== undefined) {
    history.replaceState(null, "", location.pathname + location.search);
    return signIn({ once });
  }
  session.value = { kind: "checking" };
  try {
    session.value = { kind: "signedIn", identity: await client.call("getSession") };
  } catch (error) {
    const why = toBerthError(error);
    session.value = why.status === 401 ? { kind: "signedOut" } : { kind: "unreachable", why };
  }
}

export async function signIn(body: { once: string } | { token: string }): Promise<void> {
  try {
    session.value = { kind: "signedIn", identity: await client.call("createSession", { body }) };
  } catch (error) {
    session.value = { kind: "signedOut", why: toBerthError(error) };
  }
}

export async function signOut(): Promise<void> {
  await client.call("endSession").catch(() => undefined); // It ends by itself at the latest in an hour.
  session.value = { kind: "signedOut" };
}

export function toBerthError(error: unknown): BerthError {
  if (error instanceof BerthError) return error;
  return new BerthError("internal", `The page has a fault: ${(error as Error).message}`, {
    hint: "Load the page anew, and report this if it happens again.",
    cause: error,
  });
}
