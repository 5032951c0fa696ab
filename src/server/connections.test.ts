import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { addressGroup } from "./addresses.ts";
import { watchConnections } from "./connections.ts";
import { createHttpServer } from "./server.ts";

const opened: { server: Server; clients: Socket[] }[] = [];
afterEach(() => {
  for (const { server, clients } of opened.splice(0)) {
    for (const client of clients) client.destroy();
    server.close();
  }
});

async function listening(server: Server, limits = { perAddressMax: 100, idlePerAddressMax: 100 }) {
  watchConnections(server, limits);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const clients: Socket[] = [];
  opened.push({ server, clients });
  return async (): Promise<{ client: Socket; accepted: Socket }> => {
    const { port } = server.address() as AddressInfo;
    // As a client that never closes its end.
    const client = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    client.on("error", () => undefined);
    clients.push(client);
    const [accepted] = (await once(server, "connection")) as [Socket];
    return { client, accepted };
  };
}

/** Reads without closing. */
async function answerOf(client: Socket): Promise<string> {
  return String((await once(client, "data"))[0]);
}

const GET = "GET / HTTP/1.1\r\nhost: here\r\n\r\n";

test("of too many idle connections the longest idle one goes, and a call is served", async () => {
  const server = createServer((_, response) => response.end("served"));
  const open = await listening(server, { perAddressMax: 100, idlePerAddressMax: 2 });
  const first = await open();
  const gone = once(first.accepted, "close");
  for (let count = 0; count < 2; count++) await open();
  await gone;
  const { client } = await open();
  client.write(GET);
  expect(await answerOf(client)).toContain("200 OK");
});

test("a connection that has its answer is idle again", async () => {
  const server = createServer((_, response) => response.end("served"));
  const open = await listening(server, { perAddressMax: 100, idlePerAddressMax: 1 });
  const served = await open();
  served.client.write(GET);
  await answerOf(served.client);
  const gone = once(served.accepted, "close");
  await open();
  await gone;
});

test("an address may only have so many connections", async () => {
  const open = await listening(createServer(), { perAddressMax: 1, idlePerAddressMax: 100 });
  await open();
  const second = await open();
  expect(second.accepted.destroyed).toBe(true);
});

test("what is not HTTP is answered and let go, though the client does not close", async () => {
  const open = await listening(createServer());
  const { client, accepted } = await open();
  const gone = once(accepted, "close");
  client.write("nonsense\r\n\r\n");
  expect(await answerOf(client)).toContain("400 Bad Request");
  await gone;
});

for (const [what, sent] of Object.entries({
  "headers that never end": "GET / HTTP/1.1\r\nhost: here\r\nx-a",
  "a connection that says nothing": "",
})) {
  test(`${what}: answered with 408 soon after its time, and let go`, async () => {
    const server = createHttpServer(() => new Response("served"));
    server.headersTimeout = 1;
    const open = await listening(server);
    const { client, accepted } = await open();
    const gone = once(accepted, "close");
    if (sent !== "") client.write(sent);
    expect(await answerOf(client)).toContain("408 Request Timeout");
    await gone;
  });
}

test("addresses are grouped by what one client can have many of", () => {
  const cases = {
    "192.0.2.7": "192.0.2.7",
    "::ffff:192.0.2.7": "192.0.2.7",
    "2001:db8:0:1::2": "2001:db8:0:1::/64",
    "2001:DB8:0:1:ffff::3": "2001:db8:0:1::/64",
    "2001:db8::3": "2001:db8:0:0::/64",
    "fe80::1%eth0": "fe80:0:0:0::/64",
    "::1": "0:0:0:0::/64",
  };
  for (const [address, group] of Object.entries(cases)) expect(addressGroup(address)).toBe(group);
});
