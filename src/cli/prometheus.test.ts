// What `berth export alerts | grafana` writes is what Prometheus takes, about metrics that there are (H7).

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createMetrics } from "../server/index.ts";
import { toYaml } from "./output/print.ts";
import { alertRules, expressions, grafanaDashboard } from "./prometheus.ts";

/** Not there yet: forecasts are not kept with their outcome. Without it the alert is silent. */
const COMING = new Set(["berth_forecast_coverage"]);

test("every metric that is asked for exists", async () => {
  const text = await createMetrics().text({} as never);
  const named = new Set(expressions().flatMap((expr) => expr.match(/\bberth_\w+/g) ?? []));
  for (const name of named) {
    if (COMING.has(name)) continue;
    expect(text).toContain(`# TYPE ${name.replace(/_(bucket|count|sum)$/, "")} `);
  }
});

test("every alert has a summary and the command to type", () => {
  const { groups } = alertRules() as {
    groups: { rules: { annotations: { summary: string; command: string } }[] }[];
  };
  const [group] = groups;
  expect(group?.rules.length).toBeGreaterThanOrEqual(7);
  for (const { annotations } of group?.rules ?? []) {
    expect(annotations.summary).toMatch(/\.$/);
    expect(annotations.command).toMatch(/^berth /);
  }
});

test("promtool takes the rules; where there is none, at least the brackets match", async () => {
  const directory = mkdtempSync(join(tmpdir(), "berth-rules-"));
  const file = join(directory, "alerts.yaml");
  writeFileSync(file, await toYaml(alertRules()));
  const { error, status, stdout, stderr } = spawnSync("promtool", ["check", "rules", file], {
    encoding: "utf8",
  });
  rmSync(directory, { recursive: true });
  if (error === undefined) expect(status, stdout + stderr).toBe(0);
  for (const expr of expressions()) expect(isBalanced(expr), expr).toBe(true);
  expect(isBalanced("sum(rate(x[1h])")).toBe(false);
});

function isBalanced(expr: string): boolean {
  const open: string[] = [];
  const closing: Record<string, string> = { ")": "(", "]": "[", "}": "{" };
  for (const character of expr.replaceAll(/"(?:[^"\\]|\\.)*"/g, "")) {
    if ("([{".includes(character)) open.push(character);
    else if (character in closing && open.pop() !== closing[character]) return false;
  }
  return open.length === 0;
}

test("the dashboard has a place for each panel", () => {
  const { panels } = grafanaDashboard() as { panels: { id: number; gridPos: { x: number; y: number } }[] };
  const places = panels.map(({ gridPos: { x, y } }) => `${x} ${y}`);
  expect(new Set(places).size).toBe(panels.length);
});
