// What people see of a fair-share pool (9.10), against a real server: by API, in metrics, by `berth share` and `berth why`.

import { afterAll, beforeAll, expect, test } from "vitest";
import { createUser } from "./cli-support.ts";
import { openTestServer, type TestServer } from "./server-support.ts";

let server: TestServer;
let user: ReturnType<typeof createUser>;

// Ten units. Research has lent three of its five to hog, whose runs are protected so that nobody is ever preempted:
// what is seen does not depend on the moment. Everybody starves after an hour, the eager at once.
beforeAll(async () => {
  server = await openTestServer();
  const { admin } = server;
  user = createUser({ BERTH_URL: server.url, BERTH_API_TOKEN: server.adminSecret });
  await admin("PUT", "/v1/pools/fair", {
    capacity: { gpu: 10 },
    discipline: "fair_share",
    settings: {
      fair_share_starvation_timeout: 3_600,
      non_preemptible_resource_usage_threshold: { gpu: 100 },
    },
    groups: [
      { name: "research", reserved: { gpu: 5 } },
      { name: "eager", settings: { fair_share_starvation_timeout: 0 } },
    ],
  });
  const attach = (component: string, group?: string) =>
    admin("PUT", `/v1/pools/fair/policies/${component}`, group === undefined ? {} : { group });
  await attach("hog");
  await attach("vision", "research");
  await attach("nlp", "research");
  await attach("quick", "eager");
  const submit = (component: string, gpu: number, rest: object = {}) =>
    admin("POST", "/v1/resource-requests", { component, resources: { gpu }, ...rest });
  for (let i = 0; i < 4; i++) await submit("hog", 2, { operation: "mass", name: `mass${i}` });
  await submit("vision", 2, { operation: "training", name: "first" });
  await submit("vision", 2, { operation: "training", name: "second" });
  await submit("nlp", 1, { name: "parse" });
  await submit("quick", 6, { name: "large" });
});
afterAll(() => server.close());

test("the API tells of every group, policy and operation what it is owed, has, wants, borrows and lends", async () => {
  const { body } = await server.admin("GET", "/v1/pools/fair/shares");
  const shown = Object.fromEntries(
    body.elements.map((each: { element: string }) => [each.element, each]),
  ) as Record<string, unknown>;
  expect(shown.research).toMatchObject({
    kind: "group",
    parent: null,
    fair_share: { gpu: 0.5 },
    usage_share: { gpu: 0.2 },
    demand_share: { gpu: 0.5 },
    guarantee: { gpu: 0.5 },
    borrowed: { gpu: 0 },
    satisfaction: 0.4,
    status: "below_fair_share",
    starves_at: expect.any(String),
    starving_since: null,
    waiting: 2,
  });
  expect((shown.research as { lent: { gpu: number } }).lent.gpu).toBeCloseTo(0.3);
  expect(shown.hog).toMatchObject({ kind: "policy", borrowed: { gpu: 0.8 }, status: "normal" });
  expect(shown.training).toMatchObject({ kind: "operation", parent: "vision", guarantee: null, lent: null });
  expect(shown.quick).toMatchObject({
    parent: "eager",
    status: "starving",
    starves_at: null,
    starving_since: expect.any(String),
  });
  expect(body.elements.at(-1)).toMatchObject({ kind: "operation", exceeds_fair_share: true });
});

test("where a pool hides others, who reaches one component sees its shares and those of the groups", async () => {
  await server.admin("PATCH", "/v1/pools/fair", { settings: { visibility: "own" } });
  const { call } = await server.token("user", { components: ["vision"] });
  const { body } = await call("GET", "/v1/pools/fair/shares");
  expect(body.elements.map(({ element }: { element: string }) => element)).toEqual([
    "eager",
    "research",
    "vision",
    "training",
  ]);
  const { body: mine } = await call("GET", "/v1/resource-requests?status=queued");
  const { body: why } = await call("GET", `/v1/resource-requests/${mine.items[0].id}/explanation`);
  const [{ share }] = why.pools;
  expect(share.ahead).toContainEqual({
    theirs: { kind: "group", element: "eager", satisfaction: 0 },
    mine: { kind: "group", element: "research", satisfaction: 0.4 },
  });
  expect(share.ahead).toContainEqual(
    expect.objectContaining({ theirs: { kind: "policy", element: null, satisfaction: 0 } }),
  );
  await server.admin("PATCH", "/v1/pools/fair", { settings: { visibility: "all" } });
  expect((await call("GET", "/v1/pools/fair/shares")).body.elements.length).toBeGreaterThan(4);
});

test("metrics are of groups and policies, not of operations", async () => {
  const { body } = await server.admin("GET", "/metrics");
  const gaugeOf = (name: string, element: string) =>
    Number(
      new RegExp(`^${name}\\{pool="fair",element="${element}"\\} (.*)$`, "m").exec(body as string)?.[1] ??
        Number.NaN,
    );
  expect(gaugeOf("berth_fair_share", "research")).toBeCloseTo(0.5);
  expect(gaugeOf("berth_usage_share", "vision")).toBeCloseTo(0.2);
  expect(gaugeOf("berth_demand_share", "vision")).toBeCloseTo(0.4);
  expect(gaugeOf("berth_borrowed_share", "hog")).toBeCloseTo(0.8);
  expect(gaugeOf("berth_lent_share", "research")).toBeCloseTo(0.3);
  expect(gaugeOf("berth_satisfaction", "research")).toBeCloseTo(0.4);
  expect(["hog", "vision", "quick"].map((name) => gaugeOf("berth_starvation", name))).toEqual([0, 1, 2]);
  expect(gaugeOf("berth_starving_since_timestamp_seconds", "quick")).toBeGreaterThan(1e9);
  expect(gaugeOf("berth_starving_since_timestamp_seconds", "vision")).toBeNaN();
  for (const operation of ["training", "mass"]) expect(gaugeOf("berth_fair_share", operation)).toBeNaN();
});

test("berth share shows components, and with --tree what is above and below them", async () => {
  const flat = await user.berth(["share", "fair"]);
  expect(withoutTimes(flat.stdout)).toBe(FLAT);
  const tree = await user.berth([
    "share",
    "fair",
    "--tree",
    "--columns",
    "who,kind,owed,got,demand,satisfied",
  ]);
  // A request without an operation goes by its id.
  const named = tree.stdout.replaceAll(/^( +)[0-9a-f]{8}\S+/gm, "$1ID").replaceAll(/(?<=\S) +/g, " ");
  expect(named).toBe(TREE);
});

test("berth share has no key that nobody shares", async () => {
  expect(await user.berth(["share", "fair", "--key", "mcpu"])).toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining("Pool fair has no shares of mcpu."),
  });
});

test("berth why says whose share comes first, and when starvation begins", async () => {
  const waiting = await user.berth(["why", "second"]);
  for (const line of [
    "needs     vision is owed gpu 4 and has gpu 2; operation training is owed gpu 4 and has gpu 2\n",
    "first     #8 large of quick: group eager has 0% of what it is owed, and group research has 40% of what it is owed (9.6); 2 operations in all\n",
    "preempts  nobody before it starves, in AGE if nothing changes (9.4): 4 runs of hog are within the fair share, at least in part (9.5); 1 run of vision is of the same operation (9.8)\n",
  ]) {
    expect(withoutTimes(waiting.stdout)).toContain(line);
  }
  const starving = await user.berth(["why", "large"]);
  for (const line of [
    "it asks for more than this request is owed: within its fair share it can never start (9.10)\n",
    "preempts  nobody can be stopped for it: 4 runs of hog are within the fair share, at least in part (9.5)",
  ]) {
    expect(withoutTimes(starving.stdout)).toContain(line);
  }
});

function withoutTimes(text: string): string {
  return text.replaceAll(/\b\d+[hms](\d+[ms])?\b/g, "AGE");
}

const FLAT = `POOL  WHO     KEY  OWED  GOT  DEMAND  BORROWED  LENT  SATISFIED  BAR               STATUS
fair  quick   gpu   2.5    0       6         0     0         0%                    starving for AGE
fair  nlp     gpu     1    0       1         0     0         0%                    below its fair share, starves in AGE
fair  vision  gpu     4    2       4         2     0        50%  ░░░░              below its fair share, starves in AGE
fair  hog     gpu   2.5    8       8         8     0       320%  ░░░░░░░░░░░░░░░░  normal
`;

const TREE = `WHO KIND OWED GOT DEMAND SATISFIED
eager group 2.5 0 6 0%
  quick policy 2.5 0 6 0%
    ID operation 2.5 0 6 0%
research group 5 2 5 40%
  nlp policy 1 0 1 0%
    ID operation 1 0 1 0%
  vision policy 4 2 4 50%
    training operation 4 2 4 50%
hog policy 2.5 8 8 320%
  mass operation 2.5 8 8 320%
`;
