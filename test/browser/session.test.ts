// Signing in and out, and what happens to a page that loses its session or its server (B8–B11).

import { createServer, request as forward, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { seriousFindings } from "./axe.ts";
import { findChromium, openBrowser, openPage, signIn, type WatchedPage } from "./browser.ts";
import { installDashboard } from "./install.ts";
import { openPlayground, type Playground } from "./playground.ts";
import { furnish } from "./world.ts";

const chromium = findChromium();

describe.skipIf(chromium === undefined)("a session of the dashboard", () => {
  let playground: Playground;
  let browser: Browser;

  beforeAll(async () => {
    await installDashboard();
    browser = await openBrowser(chromium as string);
    playground = await openPlayground();
    await furnish(playground);
  });
  afterAll(async () => {
    await browser?.close();
    await playground?.close();
  });

  const withPage = async (work: (page: WatchedPage) => Promise<void>) => {
    const page = await openPage(browser);
    try {
      await work(page);
      expect(page.faults).toEqual([]);
    } finally {
      await page.context().close();
    }
  };

  test("a link signs in, leaves the address, and works once (B8)", () =>
    withPage(async (page) => {
      const { once } = await playground.client.call("createLink");
      await page.goto(`${playground.url}/queue?pool=local#once=${once}`);
      await page.locator("header.top").waitFor();
      expect(page.url()).toBe(`${playground.url}/queue?pool=local`);
      await withPage(async (second) => {
        await second.goto(`${playground.url}/#once=${once}`);
        expect(await second.getByRole("alert").innerText()).toContain("used already");
        expect(second.url()).toBe(`${playground.url}/`);
        expect(await seriousFindings(second)).toEqual([]);
      });
    }));

  test("a pasted token signs in, and no script can read the cookie (B9)", () =>
    withPage(async (page) => {
      await page.goto(playground.url);
      await page.getByLabel("Or paste a token").fill("nonsense");
      await page.getByRole("button", { name: "Sign in" }).click();
      expect(await page.getByRole("alert").innerText()).toContain("unauthenticated");
      await page.getByLabel("Or paste a token").fill(playground.adminSecret);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.locator("header.top").waitFor();
      expect(await page.evaluate("document.cookie")).toBe("");
      const [cookie] = await page.context().cookies();
      expect(cookie).toMatchObject({ name: "berth", httpOnly: true, sameSite: "Strict" });
    }));

  test("signing out ends the session", () =>
    withPage(async (page) => {
      await signIn(page, playground);
      await page.getByRole("button", { name: "admin" }).click();
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByLabel("Or paste a token").waitFor();
      await page.reload();
      await page.getByLabel("Or paste a token").waitFor();
    }));

  test("revoking its parent throws a session out", () =>
    withPage(async (page) => {
      const { client, id } = await playground.as("operator");
      await signIn(page, { url: playground.url, client });
      await page.locator(".live.live").waitFor();
      await playground.client.tokens.revoke(id);
      await page.getByLabel("Or paste a token").waitFor();
      expect(await page.getByRole("alert").innerText()).toContain("Your session has ended");
    }));

  test("a session that nobody uses ends after an hour, and the page says so (B9)", async () => {
    const older = await openPlayground({ hoursAgo: 2 });
    try {
      await furnish(older);
      await withPage(async (page) => {
        await signIn(page, older);
        await page.locator("[data-pool=local]").waitFor();
        await page.goto("about:blank"); // Nobody looks at it.
        await older.pass(50);
        await page.goto(older.url);
        await page.locator("[data-pool=local]").waitFor(); // In time: that was a use of it.
        await page.goto("about:blank");
        await older.pass(61);
        await page.goto(older.url);
        await page.getByLabel(/token/i).waitFor();
      });
    } finally {
      await older.close();
    }
  });

  test("a token without the right to look is refused with the right that is missing (B15)", () =>
    withPage(async (page) => {
      const made = await playground.client.tokens.create({
        name: "adapter",
        role: "executor",
        pools: ["local"],
      });
      await page.goto(playground.url);
      await page.getByLabel(/token/i).fill(made.secret ?? "");
      await page.getByRole("button", { name: /sign in/i }).click();
      await page.getByText(/self\.read|pools\.read/).waitFor();
    }));

  test("what the token may not do is absent (B14)", () =>
    withPage(async (page) => {
      const { client } = await playground.as("viewer");
      const { number } = await playground.client.requests.submit({
        component: "alice",
        resources: { gpu: 1 },
      });
      await signIn(page, { url: playground.url, client });
      await page.goto(`${playground.url}/requests/${number}`);
      await page.locator("[data-status]").waitFor();
      expect(await page.getByRole("button", { name: /cancel/ }).count()).toBe(0);
      await page.goto(`${playground.url}/policies?pool=local`);
      await page.locator("[data-policy=carol]").waitFor();
      expect(await page.locator(".form input, .beside").count()).toBe(0);
    }));

  test("the cookie does not count across sites (B10)", () =>
    withPage(async (page) => {
      await signIn(page, playground);
      const other = await serve((_, response) => response.end("<!doctype html><title>elsewhere</title>"));
      const [cookie] = await page.context().cookies();
      const headers = { cookie: `${cookie?.name}=${cookie?.value}` };
      const status = async (extra: Record<string, string>, method = "GET") => {
        const path = method === "GET" ? "/v1/overview" : "/v1/sessions/links";
        const answer = await fetch(playground.url + path, { method, headers: { ...headers, ...extra } });
        return answer.status;
      };
      expect(await status({ "sec-fetch-site": "same-origin" })).toBe(200);
      expect(await status({ "sec-fetch-site": "cross-site" })).toBe(401);
      expect(await status({ "sec-fetch-site": "same-site" })).toBe(401);
      expect(
        await status({ "sec-fetch-site": "same-origin", origin: "http://evil.example" }, "POST"),
      ).not.toBe(201);
      // And a page of another site in the same browser: its call goes out without the cookie.
      await page.goto(other.url);
      const sent = page.waitForRequest((request) => request.url().endsWith("/v1/overview"));
      const address = JSON.stringify(`${playground.url}/v1/overview`);
      await page.evaluate(
        `void fetch(${address}, { credentials: "include", mode: "no-cors" }).catch(() => undefined)`,
      );
      expect((await (await sent).allHeaders()).cookie).toBeUndefined();
      await other.close();
    }));

  test("offline, the last state stays and nothing can be done; back again, it goes on (B11)", () =>
    withPage(async (page) => {
      await signIn(page, playground);
      await page.goto(`${playground.url}/policies?pool=local`);
      await page.getByLabel("limit of ops").fill("gpu 3");
      await page.locator("[data-plan]").waitFor();
      await page.locator(".live.live").waitFor();
      await playground.stopServing();
      await page.getByText(/offline, as of \d\d:\d\d/).waitFor();
      expect(await page.getByRole("button", { name: "Apply" }).isDisabled()).toBe(true);
      expect(await page.locator("[data-policy=carol]").isVisible()).toBe(true);
      await playground.serveAgain();
      await page.locator(".live.offline, .live.interrupted, .live.live").click({ trial: true });
      await page
        .getByText(/^live$/)
        .or(page.locator(".live.live"))
        .first()
        .waitFor({ timeout: 45_000 });
      await page.getByRole("button", { name: "Apply" }).isEnabled();
    }));

  test("it works below a path prefix (B3)", () =>
    withPage(async (page) => {
      const target = new URL(playground.url);
      const proxy = await serve((incoming, response) => {
        const path = incoming.url?.startsWith("/berth/") ? incoming.url.slice("/berth".length) : "/nowhere";
        const options = { host: target.hostname, port: target.port, path, method: incoming.method };
        const onward = forward({ ...options, headers: incoming.headers }, (answer) => {
          response.writeHead(answer.statusCode ?? 502, answer.headers);
          answer.pipe(response);
        });
        onward.on("error", () => response.destroy());
        incoming.pipe(onward);
      });
      await page.goto(`${proxy.url}/berth/`);
      await page.getByLabel("Or paste a token").waitFor();
      await page.getByLabel("Or paste a token").fill(playground.adminSecret);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.locator("[data-pool=local] h2 a").click();
      await page.waitForURL(`${proxy.url}/berth/queue?pool=local`);
      const { number } = await playground.client.requests.submit({
        component: "alice",
        resources: { gpu: 1 },
      });
      await page.goto(`${proxy.url}/berth/requests/${number}`);
      await page.locator("[data-status]").waitFor();
      await proxy.close();
    }));
});

type Handler = Parameters<typeof createServer>[1];

async function serve(handler: Handler): Promise<{ url: string; close(): Promise<void> }> {
  const server: Server = createServer(handler as NonNullable<Handler>);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://localhost:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
