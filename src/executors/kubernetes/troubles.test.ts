import { expect, test } from "vitest";
import { KubernetesFailure } from "./client.ts";
import { createClusterTroubles } from "./troubles.ts";

test("what fails for good is said once, though everything else is well again and again", () => {
  const said: string[] = [];
  const troubles = createClusterTroubles((text) => said.push(text));
  for (let look = 0; look < 3; look++) {
    troubles.set("jobs", undefined);
    troubles.set("nodes", "nodes is forbidden");
    troubles.note("#1", new KubernetesFailure("jobs is forbidden"));
  }
  expect(said).toEqual(["nodes is forbidden", "jobs is forbidden"]);
  troubles.set("nodes", undefined);
  expect(said).toHaveLength(2);
  troubles.set("#1", undefined);
  expect(said.at(-1)).toBe("Kubernetes answers again.");
  troubles.set("#1", undefined);
  expect(said).toHaveLength(3);
});

test("one failure of many is said once", () => {
  const said: string[] = [];
  const troubles = createClusterTroubles((text) => said.push(text));
  for (const what of ["#1", "#2"]) troubles.note(what, new KubernetesFailure("no answer"));
  expect(said).toEqual(["no answer"]);
});

test("a mistake of ours is no trouble of the cluster", () => {
  const troubles = createClusterTroubles(() => undefined);
  expect(() => troubles.note("#1", new TypeError("oops"))).toThrow("oops");
});
