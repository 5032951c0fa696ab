// Where notices may be sent. A target is an address that a user of the server gives, and the server calls it from inside:
// without bounds it would be a way to whatever the server reaches and its users do not (H3).
//
// Invariants
//   1. Only https, and http to this machine itself.
//   2. What counts is the address that a name stands for when a message is sent, and exactly that one is called.
//   3. Addresses of private networks only if the person who runs the server has named the network.

import { lookup } from "node:dns/promises";
import { BlockList, isIP, isIPv6 } from "node:net";

const SPECIAL_IPV4 = [
  ...["0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"],
  ...["192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"],
  ...["198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"],
];
const GLOBAL_IPV6 = ["2000::/3"];
/** In the global range, but they carry another address inside, or lead nowhere. */
const SPECIAL_IPV6 = ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"];
export const LOOPBACK = ["127.0.0.0/8", "::1/128"];

const specialIpv4 = listOf(SPECIAL_IPV4);
const globalIpv6 = listOf(GLOBAL_IPV6);
const specialIpv6 = listOf(SPECIAL_IPV6);
const loopback = listOf(LOOPBACK);

export interface Destinations {
  /** What is wrong with an address as it is written; undefined: nothing. */
  fault(url: string): string | undefined;
  /** The address to call now. Throws a `DestinationError` where none may be called. */
  resolve(url: URL): Promise<{ readonly address: string; readonly family: 4 | 6 }>;
}

/** Why nothing may be sent there, as a sentence. */
export class DestinationError extends Error {}

type Resolver = (host: string) => Promise<readonly { address: string; family: number }[]>;

const systemResolver: Resolver = (host) => lookup(host, { all: true, verbatim: true });

/** `networks`: private ones that may be reached, such as `10.0.0.0/8`. */
export function createDestinations(
  networks: readonly string[],
  resolver: Resolver = systemResolver,
): Destinations {
  const allowed = listOf(networks);
  const faultOf = (url: URL, address: string): string | undefined => {
    if (!isPublic(address) && !contains(allowed, address)) {
      return `${url.hostname} is ${address}, a private address, which this server may not call`;
    }
    if (url.protocol === "http:" && !contains(loopback, address)) {
      return `${url.hostname} is not this machine: notices go there by https only`;
    }
    return undefined;
  };
  return {
    fault(text) {
      const url = URL.canParse(text) ? new URL(text) : undefined;
      if (url === undefined) return "it is not an address such as https://example.com/hook";
      if (url.protocol !== "https:" && url.protocol !== "http:") return "only https can be called";
      if (url.username !== "" || url.password !== "") return "a name or password in it would be sent openly";
      if (url.protocol === "http:" && !isThisMachine(url)) return "it must begin with https";
      const host = bareHost(url);
      return isIP(host) === 0 ? undefined : faultOf(url, host);
    },
    async resolve(url) {
      const host = bareHost(url);
      const found = isIP(host) === 0 ? await resolver(host) : [{ address: host, family: isIP(host) }];
      const [first] = found;
      if (first === undefined) throw new DestinationError(`${host} has no address`);
      // One private address among public ones is enough: which one is called must not be a matter of luck.
      for (const { address } of found) {
        const fault = faultOf(url, address);
        if (fault !== undefined) throw new DestinationError(fault);
      }
      return { address: first.address, family: first.family === 6 ? 6 : 4 };
    },
  };
}

function isThisMachine(url: URL): boolean {
  const host = bareHost(url);
  return host === "localhost" || (isIP(host) !== 0 && contains(loopback, host));
}

function bareHost({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, "$1");
}

function isPublic(address: string): boolean {
  if (!isIPv6(address)) return !contains(specialIpv4, address);
  return contains(globalIpv6, address) && !contains(specialIpv6, address);
}

/** An IPv4 address in the clothes of an IPv6 one is judged as what it is: `BlockList` does so by itself. */
function contains(list: BlockList, address: string): boolean {
  return list.check(address, isIPv6(address) ? "ipv6" : "ipv4");
}

function listOf(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = "", bits, ...rest] = network.split("/");
    const family = isIPv6(address) ? "ipv6" : "ipv4";
    const length = bits === undefined ? (family === "ipv6" ? 128 : 32) : Number(bits);
    if (isIP(address) === 0 || rest.length > 0 || bits === "" || !Number.isInteger(length))
      throw new RangeError(`"${network}" is not a network.`);
    list.addSubnet(address, length, family);
  }
  return list;
}
