import { expect, test } from "vitest";
import { type Finding, type Found, judge } from "./finding.ts";

const findings: Record<string, [Found, Finding]> = {
  "an end is written down": [{ hasEnd: true, bootId: "this", shim: "dead" }, "ended"],
  "an end from before the restart of the machine": [{ hasEnd: true, bootId: "other", shim: "dead" }, "ended"],
  "another boot id": [{ hasEnd: false, bootId: "other", shim: "dead" }, "lost"],
  "another boot id, and a stranger with the shim's pid": [
    { hasEnd: false, bootId: "other", shim: "alive" },
    "lost",
  ],
  "ordered, but no shim has taken it up": [{ hasEnd: false, bootId: "this", shim: "none" }, "start"],
  "its shim lives": [{ hasEnd: false, bootId: "this", shim: "alive" }, "adopt"],
  "its shim has died": [{ hasEnd: false, bootId: "this", shim: "dead" }, "bury"],
};

for (const [name, [found, want]] of Object.entries(findings)) {
  test(`found: ${name}: ${want}`, () => expect(judge(found, "this")).toBe(want));
}
