// The template of pods (`berth adapter kubernetes --template`): what is taken, and what is refused with its place.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { readTemplate } from "./kubernetes.ts";

const directory = mkdtempSync(join(tmpdir(), "berth-template-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function read(text: string) {
  const path = join(directory, "pod.yaml");
  writeFileSync(path, text);
  return readTemplate(path);
}

test("metadata and spec are taken as they are", () => {
  const text = `
metadata: { labels: { team: vision }, annotations: { note: x } }
spec:
  tolerations: [{ key: gpu, operator: Exists }]
  containers: [{ securityContext: { runAsUser: 1000 } }]
  volumes: [{ name: data, emptyDir: {} }]`;
  expect(read(text)).toEqual({
    metadata: { labels: { team: "vision" }, annotations: { note: "x" } },
    spec: {
      tolerations: [{ key: "gpu", operator: "Exists" }],
      containers: [{ securityContext: { runAsUser: 1000 } }],
      volumes: [{ name: "data", emptyDir: {} }],
    },
  });
});

const refused: Record<string, { text: string; want: RegExp }> = {
  "two containers": { text: "spec: { containers: [{}, {}] }", want: /spec\.containers/ },
  "a field that pods do not have at the top": { text: "kind: Pod", want: /kind/ },
  "a name": { text: "metadata: { name: x }", want: /metadata/ },
  "volumes that are no list": { text: "spec: { volumes: x }", want: /spec\.volumes/ },
  "an empty file": { text: "", want: /no template of a pod/ },
  "no YAML": { text: "spec: [", want: /no template of a pod/ },
};
for (const [name, { text, want }] of Object.entries(refused)) {
  test(`refused: ${name}`, () => {
    expect(() => read(text)).toThrow(
      expect.objectContaining({ code: "invalid_syntax", message: expect.stringMatching(want) }),
    );
  });
}

test("a file that does not exist", () => {
  expect(() => readTemplate(join(directory, "none.yaml"))).toThrow(
    expect.objectContaining({ code: "file_not_found", message: expect.stringContaining("none.yaml") }),
  );
});
