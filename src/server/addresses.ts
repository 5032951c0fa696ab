// Addresses as the limits count them: of IPv6 the network counts, since one customer has a whole /64.

import { isIPv6 } from "node:net";

const MAPPED_IPV4 = /^::ffff:(\d{1,3}(?:\.\d{1,3}){3})$/i;

export function addressGroup(address: string | undefined): string {
  if (address === undefined) return "";
  const [bare = ""] = address.split("%"); // Without the zone of a link-local address.
  const mapped = MAPPED_IPV4.exec(bare)?.[1];
  if (mapped !== undefined) return mapped;
  if (!isIPv6(bare)) return bare;
  const [head = "", tail] = bare.toLowerCase().split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = Array.from({ length: Math.max(0, 8 - before.length - after.length) }, () => "0");
  const network = [...before, ...zeros, ...after].slice(0, 4).map((part) => part.replace(/^0+(?=.)/, ""));
  return `${network.join(":")}::/64`;
}
