// The system's Chromium, driven by playwright-core. Pages note every breach of the policy and every fault of a script.

import { existsSync } from "node:fs";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import type { Playground } from "./playground.ts";

const PLACES = [
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/snap/bin/chromium",
];

const ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-dev-shm-usage",
  "--no-first-run",
  "--no-default-browser-check",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-extensions",
  "--hide-scrollbars",
];

/** Undefined where there is none; under CI that is an error. */
export function findChromium(): string | undefined {
  const path = [process.env.BERTH_CHROMIUM, ...PLACES].find((one) => one !== undefined && existsSync(one));
  if (path !== undefined) return path;
  const missing =
    "There is no Chromium here, so the page cannot be tried. Install it: apt-get install chromium";
  if (process.env.CI === "true") throw new Error(missing);
  process.stderr.write(`${missing}\nThe tests in a browser are left out.\n`);
  return undefined;
}

export function openBrowser(executablePath: string): Promise<Browser> {
  return chromium.launch({ executablePath, args: ARGUMENTS, chromiumSandbox: false });
}

export interface WatchedPage extends Page {
  /** What went wrong so far: breaches of the policy, errors of scripts. */
  readonly faults: string[];
}

export async function openPage(browser: Browser, options: BrowserContextOptions = {}): Promise<WatchedPage> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  const faults: string[] = [];
  await context.exposeBinding("noteFault", (_, text: string) => void faults.push(text));
  await context.addInitScript(
    `addEventListener("securitypolicyviolation", (event) => noteFault("policy: " + event.violatedDirective + " " + event.blockedURI + " " + event.sample))`,
  );
  const page = await context.newPage();
  page.on("pageerror", (error) => faults.push(`script: ${error.message}`));
  page.setDefaultTimeout(55_000);
  return Object.assign(page, { faults });
}

/** By a link that works once (B8), as `berth dashboard` prints it. */
export async function signIn(
  page: Page,
  { url, client }: Pick<Playground, "url" | "client">,
  path = "/",
): Promise<void> {
  const { once } = await client.call("createLink");
  await page.goto(`${url}${path}#once=${once}`);
  await page.locator("header.top").waitFor();
}
