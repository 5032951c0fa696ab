// A server with six hours of history and a browser to look at it, for programs that measure or take pictures of the page.

import type { Browser } from "playwright-core";
import type { Sizes } from "../../scripts/dashboard.mjs";
import { findChromium, openBrowser } from "./browser.ts";
import { installDashboard } from "./install.ts";
import { openPlayground, type Playground } from "./playground.ts";
import { furnish, live } from "./world.ts";

export interface Furnished {
  readonly sizes: Sizes;
  readonly playground: Playground;
  readonly browser: Browser;
}

/** Everything is closed afterwards, whatever comes of it. Without a Chromium nothing is done, and the program fails. */
export async function withFurnished(work: (furnished: Furnished) => Promise<void>): Promise<void> {
  const sizes = await installDashboard();
  const executable = findChromium();
  if (executable === undefined) {
    process.exitCode = 1;
    return;
  }
  const playground = await openPlayground({ hoursAgo: 6 });
  const browser = await openBrowser(executable);
  try {
    await furnish(playground);
    await live(playground);
    await work({ sizes, playground, browser });
  } finally {
    await browser.close();
    await playground.close();
  }
}
