// Which names the server answers to. A web page that makes a browser talk to us by another name gets nowhere.

import type { IncomingMessage } from "node:http";
import { hostname } from "node:os";
import { problemError } from "./problems.ts";

/** Throws for a Host or an Origin that is not ours. */
export type HostCheck = (incoming: IncomingMessage) => void;

export const LOOPBACK_HOSTS = ["localhost", "127.0.0.1", "[::1]"];

export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host);
}

export function createHostCheck(listenHost: string, extraHosts: readonly string[]): HostCheck {
  const own = isLoopback(listenHost) ? [] : [hostname(), withBrackets(listenHost)];
  const allowed = new Set([...LOOPBACK_HOSTS, ...own, ...extraHosts].map((host) => host.toLowerCase()));

  return ({ headers }) => {
    const host = headers.host ?? "";
    if (!allowed.has(nameOf(host))) {
      throw problemError("host_not_allowed", "The server does not answer to this host name.", {
        hint: "Use the address it listens on, or add the name to its allowed hosts.",
      });
    }
    const { origin } = headers;
    if (origin === undefined) return;
    // Our own pages and nobody else's: no origin may differ from the host that was called.
    if (
      !/^https?:\/\//.test(origin) ||
      origin.replace(/^https?:\/\//, "").toLowerCase() !== host.toLowerCase()
    ) {
      throw problemError("host_not_allowed", "Pages of other origins may not call this server.");
    }
  };
}

function nameOf(host: string): string {
  return host.replace(/:\d{1,5}$/, "").toLowerCase();
}

function withBrackets(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
