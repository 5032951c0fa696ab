import { expect, test } from "vitest";
import { aboutTime } from "./doctor.ts";

const serverTime = "Mon, 16 Nov 2026 19:00:00 GMT";
const cases: Record<string, { clusterTime: string | undefined; want: string[] }> = {
  "a cluster that is as late as its server": { clusterTime: "2026-11-16T19:00:00.900Z", want: [] },
  "a cluster that is behind": { clusterTime: "2026-11-16T18:00:00.000Z", want: [] },
  "an older server does not say it": { clusterTime: undefined, want: [] },
  "a cluster that is ahead": {
    clusterTime: "2026-11-26T19:00:00.000Z",
    want: [
      "time in the cluster is 10d ahead of the server's clock: tokens end early, until the clock has caught up",
    ],
  },
};

for (const [name, { clusterTime, want }] of Object.entries(cases)) {
  test(name, () => {
    expect(aboutTime(clusterTime, serverTime).map(({ text }) => text)).toEqual(want);
  });
}
