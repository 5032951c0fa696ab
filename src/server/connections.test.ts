import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { addressGroup } from "./addresses.ts";
import { type ConnectionLimits, watchConnections } from "./connections.ts";
import { createHttpServer } from "./server.ts";

const opened: { server: Server; clients: Socket[] }[] = [];
afterEach(() => {
  for (const { server, clients } of opened.splice(0)) {
    for (const client of clients) client.destroy();
    server.close();
  }
});

const LIMITS: ConnectionLimits = { connectionsMax: 100, perAddressMax: 100, idlePerAddressMax: 100 };

async function listening(server: Server, limits: Partial<ConnectionLimits> = {}) {
  watchConnections(server, { ...LIMITS, ...limits });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const clients: Socket[] = [];
  opened.push({ server, clients });
  return async (localAddress = "127.0.0.1"): Promise<{ client: Socket; accepted: Socket }> => {
    const { port } = server.address() as AddressInfo;
    // As a client that never closes its end.
    const client = connect({ port, host: "127.0.0.1", localAddress, allowHalfOpen: true });
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
  const open = await listening(server, { idlePerAddressMax: 2 });
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
  const open = await listening(server, { idlePerAddressMax: 1 });
  const served = await open();
  served.client.write(GET);
  await answerOf(served.client);
  const gone = once(served.accepted, "close");
  await open();
  await gone;
});

// Only on Linux is every 127.x.y.z an address of this machine.
test.runIf(process.platform === "linux")(
  "when there are as many as there may be, the longest idle one goes, whatever its address",
  async () => {
    const server = createServer((_, response) => response.end("served"));
    const open = await listening(server, { connectionsMax: 3 });
    const silent = [await open("127.0.1.1"), await open("127.0.1.2"), await open("127.0.1.3")];
    const gone = once((silent[0] as { accepted: Socket }).accepted, "close");
    const { client } = await open("127.0.1.4");
    client.write(GET);
    expect(await answerOf(client)).toContain("200 OK");
    await gone;
    expect(silent.slice(1).map(({ accepted }) => accepted.destroyed)).toEqual([false, false]);
  },
);

test("a connection whose body has not arrived is idle, one whose call is served is not", async () => {
  const server = createServer((request, response) => {
    request.resume();
    if (request.url === "/quick") response.end("served");
  });
  const open = await listening(server, { connectionsMax: 3 });
  const served = await open();
  served.client.write("POST /slow HTTP/1.1\r\nhost: here\r\ncontent-length: 2\r\n\r\n{}");
  await once(server, "request");
  const unfinished = await open();
  unfinished.client.write("POST /slow HTTP/1.1\r\nhost: here\r\ncontent-length: 2\r\n\r\n{");
  await once(server, "request");
  const answered = await open();
  answered.client.write("GET /quick HTTP/1.1\r\nhost: here\r\n\r\n");
  await answerOf(answered.client);
  const gone = once(unfinished.accepted, "close");
  await open();
  await gone;
  expect([served.accepted.destroyed, answered.accepted.destroyed]).toEqual([false, false]);
});

test("an address may only have so many connections", async () => {
  const open = await listening(createServer(), { perAddressMax: 1 });
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
