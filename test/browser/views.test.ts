// The dashboard in a real browser: every view with data, empty and with an error; the keyboard alone; plans, cancellations, news (B7).

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { seriousFindings } from "./axe.ts";
import { findChromium, openBrowser, openPage, signIn, type WatchedPage } from "./browser.ts";
import { installDashboard } from "./install.ts";
import { openPlayground, type Playground } from "./playground.ts";
import { furnish, live } from "./world.ts";

const chromium = findChromium();

/** What shows that a view has its data. */
const VIEWS: Record<string, { path: string; ready: string }> = {
  overview: { path: "/", ready: "[data-pool=local]" },
  queue: { path: "/queue?pool=local", ready: "[role=row][data-at='0']" },
  timeline: { path: "/timeline?pool=local&lanes=request", ready: ".lane-bar" },
  shares: { path: "/shares?pool=training", ready: "[data-share=vision]" },
  policies: { path: "/policies?pool=local", ready: "[data-policy=carol]" },
  request: { path: "/requests/7", ready: ".steps li" },
};

describe.skipIf(chromium === undefined)("the dashboard", () => {
  let playground: Playground;
  let browser: Browser;
  let page: WatchedPage;

  beforeAll(async () => {
    await installDashboard();
    browser = await openBrowser(chromium as string);
    playground = await openPlayground({ hoursAgo: 6 });
    await furnish(playground);
    await live(playground);
    // The first explanation starts the thread that tries suggestions, which takes long on a busy machine.
    await playground.client.requests.explain("13", {}, { timeoutMs: 100_000 });
    page = await openPage(browser);
    await signIn(page, playground);
  }, 150_000);
  afterAll(async () => {
    await browser?.close();
    await playground?.close();
  });

  const open = async (path: string, ready: string) => {
    await page.goto(playground.url + path);
    await page.locator(ready).first().waitFor();
  };
  const queueRow = (name: string) => page.locator("[role=row][data-at]", { hasText: name });

  describe.each(Object.entries(VIEWS))("%s", (_, { path, ready }) => {
    test.each(["light", "dark"] as const)(
      "has its data, keeps the policy (B3) and is accessible in %s (B7)",
      async (scheme) => {
        await page.emulateMedia({ colorScheme: scheme });
        await open(path, ready);
        expect(await seriousFindings(page)).toEqual([]);
        expect(page.faults).toEqual([]);
      },
    );

    test("says what is wrong when the server fails, and tries again (B15)", async () => {
      await open(path, ready);
      playground.breakReads();
      try {
        await page.goto(playground.url + path);
        const failure = page.locator("[data-state=error]").first();
        await failure.waitFor();
        expect(await failure.innerText()).toContain("internal_error");
        playground.mendReads();
        await failure.getByRole("button", { name: "Try again" }).click();
        // The list of pools is loaded once for all views.
        if (path !== "/") await page.goto(playground.url + path);
        await page.locator(ready).first().waitFor();
      } finally {
        playground.mendReads();
      }
    });

    test("keeps its last state while the server is away, and goes on when it is back (B11)", async () => {
      await open(path, ready);
      await page.locator(".live.live").waitFor();
      await playground.stopServing();
      try {
        await page.getByText(/offline, as of \d\d:\d\d/).waitFor();
        expect(await page.locator(ready).first().isVisible()).toBe(true);
      } finally {
        await playground.serveAgain();
      }
      await page.locator(".live.live").waitFor();
      expect(await page.locator(ready).first().isVisible()).toBe(true);
    });

    test("says which right is missing", async () => {
      const problem = {
        ...{ type: "about:blank", title: "Forbidden", status: 403, code: "forbidden" },
        detail: "This needs the permission pools.read.",
      };
      const denied = /\/v1\/(overview|queue|timeline|pools\/|resource-requests)/;
      await page.route(denied, (route) =>
        route.fulfill({
          status: 403,
          contentType: "application/problem+json",
          body: JSON.stringify(problem),
        }),
      );
      await page.goto(playground.url + path);
      const denial = page.locator("[data-state=forbidden]").first();
      await denial.waitFor();
      expect(await denial.innerText()).toContain("pools.read");
      await page.unroute(denied);
    });
  });

  test("the numbers of the overview are those of the API (B5)", async () => {
    await open("/", VIEWS.overview?.ready as string);
    const { pools } = await playground.client.call("getOverview");
    for (const { name, running, waiting, keys } of pools) {
      const card = page.locator(`[data-pool=${name}]`);
      expect(await card.locator("[data-fact=running]").innerText()).toBe(String(running));
      expect(await card.locator("[data-fact=waiting]").innerText()).toBe(String(waiting));
      for (const use of keys) {
        for (const kind of ["own", "borrowed", "held", "reserved_idle", "free"] as const) {
          const shown = card.locator(`[data-use="${name} ${use.key} ${kind}"] b`);
          expect(await shown.allInnerTexts()).toEqual(use[kind] > 0 ? [String(use[kind])] : []);
        }
      }
    }
  });

  test("the rows of the queue are those of the API, in their order", async () => {
    await open("/queue?pool=local", VIEWS.queue?.ready as string);
    const { rows, matching } = await playground.client.call("getQueue", { query: { pool: "local" } });
    const shown = await page.locator("[role=row][data-at] > :first-child").allInnerTexts();
    const numbers = shown.map(Number);
    expect(numbers).toEqual(rows.map(({ number }) => number));
    expect(await page.locator("[data-count]").getAttribute("data-count")).toBe(String(matching));
  });

  test("shares are those of the API, in the words of the command line", async () => {
    await open("/shares?pool=training", VIEWS.shares?.ready as string);
    const { elements } = await playground.client.pools.shares("training");
    for (const { element, fair_share: fair, usage_share: usage } of elements.filter(
      ({ kind }) => kind !== "operation",
    )) {
      const cells = await page.locator(`[data-share=${element}] td`).allInnerTexts();
      expect(cells.slice(0, 2)).toEqual(
        [(fair.gpu ?? 0) * 64, (usage.gpu ?? 0) * 64].map((units) => String(Math.round(units * 10) / 10)),
      );
    }
  });

  test("filters are in the address and survive a reload (B12)", async () => {
    await open("/queue?pool=local", VIEWS.queue?.ready as string);
    await page.locator("[data-why-code=units]").click();
    await page.waitForURL(/why=units/);
    await queueRow("sweep-5").click();
    await page.waitForURL(/open=\d+/);
    await page.locator("[data-why]").waitFor();
    await page.reload();
    await page.locator("[data-why]").waitFor();
    expect(await page.locator("[data-why-code=units]").getAttribute("aria-pressed")).toBe("true");
    await page.goBack();
  });

  test("the keyboard alone leads everywhere (B13)", async () => {
    await open("/", VIEWS.overview?.ready as string);
    for (const [key, path] of Object.entries({
      q: "/queue",
      t: "/timeline",
      s: "/shares",
      p: "/policies",
      o: "/",
    })) {
      await page.keyboard.press("g");
      await page.keyboard.press(key);
      await page.waitForURL((url) => url.pathname === path);
    }
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.keyboard.press("/");
    await page.keyboard.type("sweep");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/queue\?q=sweep/);
    await queueRow("sweep-4").waitFor();
    await page.keyboard.press("j");
    await page.locator("[role=row][data-at='1'][tabindex='0']").waitFor();
    await page.keyboard.press("k");
    await page.locator("[role=row][data-at='0'][tabindex='0']").waitFor();
    await page.keyboard.press("Enter");
    await page.locator("[data-why]").waitFor();
    await page.keyboard.press("Escape");
    await page.locator("[data-why]").waitFor({ state: "detached" });
    await page.keyboard.press("w");
    await page.locator("[data-why]").waitFor();
  });

  test("news arrives without a reload (B4), and pausing keeps it out (B13)", async () => {
    await open("/queue?pool=local", VIEWS.queue?.ready as string);
    await page.locator(".live.live").waitFor();
    await playground.client.requests.submit({ name: "newcomer", component: "alice", resources: { gpu: 8 } });
    await queueRow("newcomer").waitFor();
    await page.keyboard.press(".");
    await page.locator(".live.paused").waitFor();
    await page.keyboard.press(".");
    await page.locator(".live.live").waitFor();
  });

  test("a cancellation shows its plan first, and is done at that event (B14)", async () => {
    const { id, number } = await playground.client.requests.submit({
      name: "doomed",
      component: "alice",
      resources: { gpu: 8 },
    });
    await open(`/requests/${number}`, "[data-status=queued]");
    await page.keyboard.press("x");
    const dialog = page.getByRole("dialog", { name: /Cancel #\d+ doomed/ });
    await dialog.locator("[data-plan]").waitFor();
    expect(await dialog.locator("[data-plan]").innerText()).toContain("1 request is cancelled");
    expect((await playground.client.requests.get(id)).status).toBe("queued");
    await dialog.getByRole("button", { name: "Cancel the request" }).click();
    await page.locator("[data-status=cancelled]").waitFor();
    expect((await playground.client.requests.get(id)).status).toBe("cancelled");
  });

  test("what would start a request can be planned where it is explained (view 2, B14)", async () => {
    await open("/queue?pool=local&open=13", "[data-why='13'] .suggestions");
    const explanation = page.locator("[data-why='13']");
    const { suggestions } = await playground.client.requests.explain("13");
    expect(await explanation.locator(".suggestions li > span").allInnerTexts()).toEqual(
      suggestions.slice(0, 3).map(({ text }) => text),
    );
    await explanation.getByRole("button", { name: "plan it" }).first().click();
    const dialog = page.getByRole("dialog", { name: /^Make it so that / });
    await dialog.locator("[data-plan]").waitFor();
    expect(await dialog.locator("[data-plan]").innerText()).toContain("preempted");
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    const starts = page.locator("[role=row][data-at='0'] > :nth-child(7)");
    expect(await starts.innerText()).toMatch(/^(unknown|by \d\d:\d\d|after \d\d:\d\d)$/);
  });

  test("two that wait are compared, in the words of the command line (Y7)", async () => {
    await open("/queue?pool=local&open=18", "[data-why='18'] .compare");
    const form = page.locator("[data-why='18'] .compare");
    await form.getByLabel("compare with").fill("#13");
    await form.getByRole("button", { name: "compare" }).click();
    const compared = page.locator("[data-compared='18']");
    await compared.waitFor();
    const { text } = await playground.client.requests.explain("18", { before: "13", suggestions: "false" });
    expect(await compared.locator(".why-first").innerText()).toBe(text[0]?.sentence);
    await form.getByLabel("compare with").fill("#9999");
    await form.getByRole("button", { name: "compare" }).click();
    await page.locator("[data-why='18'] [data-state=error]").waitFor();
  });

  test("a preemption has its receipt, in words and in its own numbers (view 6, D5)", async () => {
    await open("/requests/7", "[data-receipt]");
    await page.getByText(/chosen to make room for #9 llm-base of carol \(\w+\)/).waitFor();
    await page.getByText(/stopped \(preempted\).*checkpoint saved, lost 15m × 2 gpu = 0\.50 gpu-h/).waitFor();
    const receipt = page.locator("[data-receipt]").first();
    await receipt.locator("summary").click();
    await receipt
      .getByText(/of alice, priority 0: .*may be stopped/)
      .first()
      .waitFor();
  });

  test("the timeline folds idle time, and marks checkpoints and warnings (view 3)", async () => {
    await open("/timeline?pool=local&from=-24h&lanes=request", ".lane-bar");
    expect(await page.locator(".fold").count()).toBe(1);
    await page.getByRole("button", { name: "Show idle time" }).click();
    await page.locator(".fold").waitFor({ state: "detached" });
    expect(page.url()).toContain("idle=shown");
    await open("/timeline?pool=local&lanes=request", ".lane-bar");
    expect(await page.locator(".lane-bar", { hasText: "sweep-3" }).locator(".saved").count()).toBe(1);
    expect(await page.locator(".lane-bar .told").count()).toBeGreaterThan(0);
  });

  test("a request that can never start is among the problems, and three were preempted", async () => {
    const { number } = await playground.client.requests.submit({
      ...{ name: "too-large", component: "alice", resources: { gpu: 99 } },
    });
    await open("/", VIEWS.overview?.ready as string);
    await page.getByText(`Request #${number} can never start`).waitFor();
    expect(await page.locator("[data-pool=local] [data-fact='preempted in 24 h']").innerText()).toBe("3");
  });

  test("a policy is planned beside the form, and applied (view 5)", async () => {
    await open("/policies?pool=local", VIEWS.policies?.ready as string);
    await page.getByLabel("limit of ops").fill("gpu 2");
    const plan = page.locator("[data-plan]");
    await plan.waitFor();
    await page.getByRole("button", { name: "Apply" }).click();
    await plan.waitFor({ state: "detached" });
    expect((await playground.client.policies.get("local", "ops")).limit).toEqual({ gpu: 2 });
    await page.getByLabel("limit of ops").fill("two");
    await page.locator("[data-policy=ops] .mistake").waitFor();
  });

  test("YAML says what is wrong at its line, and makes the same plan", async () => {
    await open("/policies?pool=local&as=yaml", ".yaml textarea");
    const field = page.locator(".yaml textarea");
    const text = await field.inputValue();
    await field.fill(`${text}\n  - {pool: elsewhere, component: dave}`);
    await page.getByText(/line \d+: Only pool local is edited here/).waitFor();
    await field.fill(`${text}\n  - {pool: local, component: dave, reserved: {gpu: 1}}`);
    await page.locator("[data-plan]").waitFor();
  });

  test("views without anything say what would be there, and the command that fills them (B15)", async () => {
    const empty = await openPlayground();
    const bare = await openPage(browser);
    try {
      await signIn(bare, empty);
      for (const path of ["/", "/queue", "/timeline", "/shares", "/policies"]) {
        await bare.goto(empty.url + path);
        const state = bare.locator("[data-state=empty]");
        await state.waitFor();
        expect(await state.locator("code").innerText()).toMatch(/^berth /);
        expect(await seriousFindings(bare)).toEqual([]);
      }
      await bare.goto(`${empty.url}/requests/999`);
      await bare.locator("[data-state=error]").waitFor();
      expect(bare.faults).toEqual([]);
    } finally {
      await bare.context().close();
      await empty.close();
    }
  });

  test("10 000 requests: few elements, and the last one can be reached (B6)", async () => {
    const item = { component: "alice", resources: { gpu: 8 } };
    for (let batch = 0; batch < 10; batch++) {
      await playground.client.requests.submitMany(
        Array.from({ length: 1_000 }, (_, at) => ({ ...item, name: `many-${batch * 1_000 + at}` })),
      );
    }
    await open("/queue?pool=local", VIEWS.queue?.ready as string);
    const total = Number(await page.locator("[data-count]").getAttribute("data-count"));
    expect(total).toBeGreaterThan(10_000);
    const scrollToEnd = () => page.evaluate("document.querySelector('.rows').scrollTo(0, 1e9)");
    await expect
      .poll(
        async () => {
          await scrollToEnd();
          return queueRow("many-9999").count();
        },
        { timeout: 100_000 },
      )
      .toBe(1);
    expect(await page.evaluate("document.querySelectorAll('*').length")).toBeLessThan(2_000);
    expect(page.faults).toEqual([]);
  }, 150_000);
});
