import { describe, expect, test } from "vitest";
import { createDestinations, LOOPBACK } from "./destinations.ts";

const names: Record<string, string[]> = {
  "hooks.example.com": ["93.184.216.34"],
  "six.example.com": ["2606:2800:220:1:248:1893:25c8:1946"],
  "inside.example.com": ["10.1.2.3"],
  "both.example.com": ["93.184.216.34", "10.1.2.3"],
  localhost: ["127.0.0.1", "::1"],
  "nowhere.example.com": [],
};

const resolver = (host: string) =>
  Promise.resolve((names[host] ?? []).map((address) => ({ address, family: address.includes(":") ? 6 : 4 })));

function tried(url: string, networks: readonly string[] = []): Promise<string> {
  const destinations = createDestinations(networks, resolver);
  const fault = destinations.fault(url);
  if (fault !== undefined) return Promise.resolve(`refused: ${fault}`);
  return destinations.resolve(new URL(url)).then(
    ({ address }) => address,
    (error: Error) => `not sent: ${error.message}`,
  );
}

const cases: Record<string, { url: string; networks?: readonly string[]; want: string }> = {
  "a public address": { url: "https://hooks.example.com/x", want: "93.184.216.34" },
  "a public IPv6 address": {
    url: "https://six.example.com",
    want: "2606:2800:220:1:248:1893:25c8:1946",
  },
  "http beyond this machine": {
    url: "http://hooks.example.com",
    want: "refused: it must begin with https",
  },
  "another scheme": { url: "file:///etc/passwd", want: "refused: only https can be called" },
  "no address": {
    url: "hooks",
    want: "refused: it is not an address such as https://example.com/hook",
  },
  "a password": {
    url: "https://a:b@hooks.example.com",
    want: "refused: a name or password in it would be sent openly",
  },
  "a name for a private address": {
    url: "https://inside.example.com",
    want: "not sent: inside.example.com is 10.1.2.3, a private address, which this server may not call",
  },
  "the same where the network is allowed": {
    url: "https://inside.example.com",
    networks: ["10.0.0.0/8"],
    want: "10.1.2.3",
  },
  "a name for a public and a private address": {
    url: "https://both.example.com",
    want: "not sent: both.example.com is 10.1.2.3, a private address, which this server may not call",
  },
  "a name for nothing": {
    url: "https://nowhere.example.com",
    want: "not sent: nowhere.example.com has no address",
  },
  "this machine, where that is not allowed": {
    url: "http://localhost:1",
    want: "not sent: localhost is 127.0.0.1, a private address, which this server may not call",
  },
  "this machine, where it is": { url: "http://localhost:1", networks: LOOPBACK, want: "127.0.0.1" },
  "this machine by its IPv6 address": { url: "http://[::1]:1", networks: LOOPBACK, want: "::1" },
};

for (const [name, { url, networks, want }] of Object.entries(cases)) {
  test(name, async () => expect(await tried(url, networks)).toBe(want));
}

describe("no disguise of a private address passes", () => {
  const disguises = [
    ...["127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "0", "10.0.0.1", "172.31.255.255"],
    ...["169.254.169.254", "100.64.0.1", "192.168.1.1", "224.0.0.1", "255.255.255.255", "192.0.2.1"],
    ...["[::1]", "[::]", "[::ffff:10.0.0.1]", "[::ffff:a00:1]", "[64:ff9b::a00:1]", "[fe80::1]"],
    ...["[fc00::1]", "[ff02::1]", "[2002:a00:1::]", "[2001::1]", "[2001:db8::1]"],
  ];
  test.each(disguises)("%s", async (host) => {
    expect(await tried(`https://${host}/`)).toMatch(/private address/);
  });
});
