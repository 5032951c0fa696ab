// npm run screenshots: every view, light and dark, wide and narrow, of a server with six hours of history.
// They go to dist/screenshots; with --publish the best of them also to docs/images, for README and guide.

import { copyFileSync, mkdirSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { openPage, signIn } from "../test/browser/browser.ts";
import { withFurnished } from "../test/browser/furnished.ts";
import type { Playground } from "../test/browser/playground.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const { values } = parseArgs({ options: { publish: { type: "boolean" }, only: { type: "string" } } });

const WIDTHS = { wide: { width: 1440, height: 900 }, narrow: { width: 390, height: 844 } };

await withFurnished(async ({ playground, browser }) => {
  const views = await viewsOf(playground);
  const out = `${root}dist/screenshots`;
  mkdirSync(out, { recursive: true });
  for (const colorScheme of ["light", "dark"] as const) {
    for (const [size, viewport] of Object.entries(WIDTHS)) {
      const page = await openPage(browser, { colorScheme, viewport });
      await signIn(page, playground);
      for (const [name, { path, ready }] of Object.entries(views)) {
        const file = `${name}-${colorScheme}-${size}.png`;
        if (values.only !== undefined && !file.includes(values.only)) continue;
        await page.goto(playground.url + path);
        await page.locator(ready).first().waitFor();
        if (name === "policies") {
          await page.getByLabel("reserved of carol").fill("gpu 6");
          await page.locator("[data-plan]").waitFor();
        }
        await page.waitForTimeout(400); // Charts and fonts settle.
        await page.screenshot({ path: `${out}/${file}` });
        process.stdout.write(`${file}  ${Math.round(statSync(`${out}/${file}`).size / 1024)} KB\n`);
      }
      if (page.faults.length > 0) throw new Error(page.faults.join("\n"));
      await page.context().close();
    }
  }
  if (values.publish === true) publish(out);
});

async function viewsOf({ client }: Playground): Promise<Record<string, { path: string; ready: string }>> {
  const { rows } = await client.call("getQueue", { query: { pool: "local" } });
  const { items } = await client.requests.list({ limit: 100 });
  const open = rows.find(({ name }) => name === "sweep-5") ?? rows[0];
  const stopped = items.find(({ preempted_count: count, status }) => count > 0 && status === "allocated");
  return {
    overview: { path: "/", ready: "[data-pool=training] .hours, [data-pool=training]" },
    queue: { path: `/queue?pool=local&open=${open?.number}`, ready: "[data-why]" },
    timeline: { path: "/timeline?pool=local&lanes=request", ready: ".lane-bar" },
    shares: { path: "/shares?pool=training", ready: "[data-share=vision]" },
    policies: { path: "/policies?pool=local", ready: "[data-policy=carol]" },
    request: { path: `/requests/${stopped?.number}`, ready: ".steps li" },
  };
}

function publish(out: string): void {
  const images = `${root}docs/images`;
  mkdirSync(images, { recursive: true });
  for (const name of ["overview-light", "queue-light", "timeline-dark", "policies-light", "request-light"]) {
    copyFileSync(`${out}/${name}-wide.png`, `${images}/dashboard-${name.split("-")[0]}.png`);
  }
}
