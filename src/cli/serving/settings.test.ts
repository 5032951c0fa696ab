import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { type ServingFlags, type ServingSettings, servingSettings } from "./settings.ts";

const directory = mkdtempSync(join(tmpdir(), "berth-settings-"));
const config = join(directory, "server.yaml");
writeFileSync(config, "data_dir: /file\nlisten: 127.0.0.1:3\ndatabase_url: postgres://file\n");
afterAll(() => rmSync(directory, { recursive: true }));

const cases: Record<
  string,
  { flags?: ServingFlags; env?: Record<string, string>; want: Partial<ServingSettings> }
> = {
  "nothing is said": {
    want: {
      dataDir: join(homedir(), ".local/share/berth"),
      listen: "127.0.0.1:7770",
      databaseUrl: undefined,
    },
  },
  "where XDG says that data is kept": { env: { XDG_DATA_HOME: "/xdg" }, want: { dataDir: "/xdg/berth" } },
  "a file counts before XDG": {
    flags: { config },
    env: { XDG_DATA_HOME: "/xdg" },
    want: { dataDir: "/file", listen: "127.0.0.1:3", databaseUrl: "postgres://file" },
  },
  "the environment counts before a file": {
    flags: { config },
    env: { BERTH_DATA_DIR: "/env", BERTH_LISTEN: "127.0.0.1:2", BERTH_DATABASE_URL: "postgres://env" },
    want: { dataDir: "/env", listen: "127.0.0.1:2", databaseUrl: "postgres://env" },
  },
  "an option counts before everything": {
    flags: { config, dataDir: "/flag", listen: "127.0.0.1:1", databaseUrl: "postgres://flag" },
    env: { BERTH_DATA_DIR: "/env", BERTH_LISTEN: "127.0.0.1:2", BERTH_DATABASE_URL: "postgres://env" },
    want: { dataDir: "/flag", listen: "127.0.0.1:1", databaseUrl: "postgres://flag" },
  },
  "an option accepts the clock": { flags: { acceptClock: true }, want: { acceptClock: true } },
  "a variable accepts the clock": { env: { BERTH_ACCEPT_CLOCK: "1" }, want: { acceptClock: true } },
  "networks that notices may be sent to": {
    flags: { noticeNetwork: ["10.0.0.0/8", "fd00::/8"] },
    want: { noticeNetworks: ["10.0.0.0/8", "fd00::/8"] },
  },
  "the same as a variable": {
    env: { BERTH_NOTICE_NETWORK: "10.0.0.0/8, ::1" },
    want: { noticeNetworks: ["10.0.0.0/8", "::1"] },
  },
  "a port is one of this machine": { flags: { port: "7771" }, want: { listen: "127.0.0.1:7771" } },
};

for (const [name, { flags = {}, env = {}, want }] of Object.entries(cases)) {
  test(name, async () => {
    expect(await servingSettings(flags, env)).toMatchObject(want);
  });
}

test.each(["ten", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8/8", "fd00::/129", "10.0.0.0/x"])(
  "%s is not a network",
  async (network) => {
    const settings = servingSettings({ noticeNetwork: [network] }, {});
    await expect(settings).rejects.toThrow(`"${network}" is not a network.`);
  },
);
