// berth why against a real server: the order of two, and how many changes are shown (Y7, Y11).

import { afterAll, beforeAll, expect, test } from "vitest";
import { createUser } from "./cli-support.ts";
import { openWorld, type World } from "./run-support.ts";

let world: World;
let user: ReturnType<typeof createUser>;

beforeAll(async () => {
  world = await openWorld({ gpu: 4 });
  user = createUser({ BERTH_URL: world.url, BERTH_API_TOKEN: world.token, BERTH_COMPONENT: "research" });
  for (const [name, component, gpu] of [
    ["runs", "urgent", 4],
    ["late", "research", 1],
    ["first", "urgent", 2],
  ] as const) {
    await world.client.requests.submit({ name, component, resources: { gpu } });
  }
});
afterAll(() => world.close());

const why = (...args: string[]) => user.berth(["why", ...args]);

test("--before names the first part of the order on which two requests differ, whichever is asked about", async () => {
  const order = "#3 first of urgent comes before #2 late in pool lab: priority 100 before 1 (G1.2).\n";
  expect(await why("late", "--before", "first")).toMatchObject({ exitCode: 0, stdout: order, stderr: "" });
  expect((await why("first", "--before", "late")).stdout).toBe(
    "#3 first comes before the other one in pool lab: priority 100 before 1 (G1.2).\n",
  );
});

test("three changes are shown, and all of them with --all", async () => {
  const { suggestions } = JSON.parse((await why("late", "-o", "json")).stdout) as {
    suggestions: { text: string }[];
  };
  expect(suggestions.length).toBeGreaterThan(3);
  const shown = suggestions.slice(0, 3).map(({ text }) => text);
  expect((await why("late")).stdout).toContain(`  now if    ${shown.join("; or ")}\n`);
  const all = (await why("late", "--all")).stdout.split("\n").filter((line) => /^ +now if /.test(line));
  expect(all.map((line) => line.replace(/^ +now if +/, ""))).toEqual(suggestions.map(({ text }) => text));
});
