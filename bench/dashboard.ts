// npm run bench:dashboard: what the page costs, beside the numbers of B2 and B6: sizes, script at load, events, scrolling
// 10 000 rows, and the server's processor time with many open pages.
//
// The server runs in this process and the browser in others, so that its processor time can be told from theirs. Playwright's
// own part of it is counted, too: the figure is an upper bound.

import { loadavg } from "node:os";
import { parseArgs } from "node:util";
import type { CDPSession } from "playwright-core";
import { openPage, signIn, type WatchedPage } from "../test/browser/browser.ts";
import { type Furnished, withFurnished } from "../test/browser/furnished.ts";
import type { Playground } from "../test/browser/playground.ts";

const { values } = parseArgs({
  options: {
    pages: { type: "string", default: "50" },
    seconds: { type: "string", default: "10" },
    requests: { type: "string", default: "10000" },
  },
});
const SCROLL_STEPS = 100;
const NOTCH_PX = 120;
const EVENTS = 200;
const BATCH = 250;

const rows: [string, string, string][] = [];
const report = (what: string, value: string, aim = "") => rows.push([what, value, aim]);

await withFurnished(async (furnished) => {
  const { first, all } = furnished.sizes;
  report("first view, script and style, gzipped", kilobytes(first), "45.0 KB (B2)");
  report("all views, gzipped", kilobytes(all), "110.0 KB (B2)");
  await measureLoad(furnished);
  await measureRows(furnished);
  await measurePages(furnished);
  for (const [what, value, aim] of rows) {
    process.stdout.write(`${what.padEnd(52)}${value.padStart(14)}   ${aim && `aim ${aim}`}\n`);
  }
  process.stdout.write(`load of the machine ${loadavg()[0]?.toFixed(1)}\n`);
});
process.exit();

async function measureLoad({ playground, browser }: Furnished): Promise<void> {
  const page = await openPage(browser);
  await signIn(page, playground);
  const metrics = await metricsOf(page);
  await page.reload();
  await page.locator("[data-pool=local]").waitFor();
  report("script at load, overview", `${((await metrics()).script * 1000).toFixed(0)} ms`, "50 ms (B6)");
  const paint = await page.evaluate(
    "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1",
  );
  report("first paint", `${Number(paint).toFixed(0)} ms`, "300 ms (B6)");
  await measureEvents(playground, page, metrics);
  await page.context().close();
}

type Metrics = Awaited<ReturnType<typeof metricsOf>>;

async function measureEvents({ client }: Playground, page: WatchedPage, metrics: Metrics): Promise<void> {
  await page.locator(".live.live").waitFor();
  const before = await metrics();
  const items = Array.from({ length: EVENTS }, () => ({ component: "alice", resources: { gpu: 8 } }));
  await client.requests.submitMany(items);
  await page.waitForTimeout(5_000);
  const after = await metrics();
  report(
    `script and layout per event, ${EVENTS} at once`,
    `${(((after.task - before.task) * 1000) / EVENTS).toFixed(2)} ms`,
    "1 ms: 100 events/s in 10 % of a core (B6)",
  );
}

async function measureRows({ playground, browser }: Furnished): Promise<void> {
  const count = Number(values.requests);
  for (let at = 0; at < count; at += BATCH) {
    const items = Array.from({ length: BATCH }, (_, n) => ({
      ...{ component: "alice", resources: { gpu: 8 } },
      name: `many-${at + n}`,
    }));
    await playground.client.requests.submitMany(items);
  }
  const page = await openPage(browser);
  await signIn(page, playground);
  let bytes = 0;
  page.on("response", async (response) => {
    if (response.url().includes("/v1/queue"))
      bytes += (await response.body().catch(() => Buffer.of())).length;
  });
  await page.goto(`${playground.url}/queue?pool=local`);
  await page.locator("[data-at='0']").waitFor();
  const scroll = (part: number) =>
    page.evaluate(
      `document.querySelector('.rows').scrollTop = ${part} * document.querySelector('.rows').scrollHeight`,
    );
  await scroll(1);
  await page.locator(`text=many-${count - 1}`).waitFor({ timeout: 120_000 });
  report(`rows of ${count} requests, uncompressed`, kilobytes(bytes), "1500.0 KB (B6)");
  const metrics = await metricsOf(page);
  /** So many steps, each seen on the screen; what one costs, in milliseconds. */
  const scrolled = async (step: (at: number) => string) => {
    const before = await metrics();
    for (let at = 0; at < SCROLL_STEPS; at++) {
      await page.evaluate(`document.querySelector('.rows').scrollTop = ${step(at)}`);
      await page.evaluate("new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))");
    }
    return (((await metrics()).task - before.task) * 1000) / SCROLL_STEPS;
  };
  const whole = "document.querySelector('.rows').scrollHeight";
  const still = await scrolled(() => "0"); // What driving the browser costs.
  const notch = (await scrolled((at) => String(at * NOTCH_PX))) - still;
  const far = (await scrolled((at) => `${at / SCROLL_STEPS} * ${whole}`)) - still;
  report("one step of scrolling, a notch of the wheel", `${notch.toFixed(1)} ms`, "8 ms (B6)");
  report("one step of scrolling, to rows far away", `${far.toFixed(1)} ms`, "8 ms (B6)");
  report("elements", String(await page.evaluate("document.querySelectorAll('*').length")), "2000 (B6)");
  await page.context().close();
}

/** Pages that look at the overview while something happens ten times a second. */
async function measurePages({ playground, browser }: Furnished): Promise<void> {
  const count = Number(values.pages);
  const pages: WatchedPage[] = [];
  for (let at = 0; at < count; at++) {
    const page = await openPage(browser, { viewport: { width: 800, height: 600 } });
    await signIn(page, playground);
    pages.push(page);
  }
  const idle = await processorShare(async () => undefined);
  const busy = await processorShare(() =>
    playground.client.requests.submit({ component: "alice", resources: { gpu: 8 } }),
  );
  report(`server, ${count} pages, nothing happens`, `${(idle * 100).toFixed(1)} %`, "of one core");
  report(`server, ${count} pages, 10 submissions/s`, `${(busy * 100).toFixed(1)} %`, "of one core");
  for (const page of pages) await page.context().close();
}

async function processorShare(act: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  const startMs = performance.now();
  const endMs = startMs + Number(values.seconds) * 1_000;
  while (performance.now() < endMs) {
    await act();
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000 / (performance.now() - startMs);
}

/** Seconds of script, and of all work on the page's thread, since the page was opened. */
async function metricsOf(page: WatchedPage): Promise<() => Promise<{ script: number; task: number }>> {
  const session: CDPSession = await page.context().newCDPSession(page);
  // Processor time of the thread: other programs on the machine are not counted.
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  return async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    const value = (name: string) => metrics.find((one) => one.name === name)?.value ?? 0;
    return { script: value("ScriptDuration"), task: value("TaskDuration") };
  };
}

function kilobytes(bytes: number): string {
  return `${(bytes / 1024).toFixed(1)} KB`;
}
