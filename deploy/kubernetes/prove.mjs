#!/usr/bin/env node
// Holds the manifests against Kubernetes' own schemas: values by the validators that the npm package kubernetes-models
// makes from its OpenAPI description, names of fields by the types of the same package. No cluster is needed.
//
//   node deploy/kubernetes/prove.mjs [FILE…]     default: the manifests of this folder
//
// Ends with 2 if that package or the checkout's TypeScript cannot be had, 1 if a manifest is wrong or a planted fault is not found.

import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseAllDocuments } from "yaml";

const SCHEMAS = "kubernetes-models@4.5.1";
const here = dirname(fileURLToPath(import.meta.url));
const tsc = join(here, "..", "..", "node_modules", "typescript", "bin", "tsc");
const CANARIES = {
  "a value of the wrong type": ["containerPort: 7770", 'containerPort: "http"'],
  "a field that is missing": ["  selector: { matchLabels: { app: berth } }\n  template:", "  template:"],
  "a misspelt field": ["readOnlyRootFilesystem:", "readOnlyRootFileSystem:"],
  "a word that is none": ["type: Recreate", "type: Replace"],
};

const work = mkdtempSync(join(tmpdir(), "berth-manifests-"));
try {
  process.exitCode = main();
} finally {
  rmSync(work, { recursive: true, force: true });
}

function main() {
  if (!existsSync(tsc)) {
    console.error("Not proven: TypeScript is missing; run npm ci in a checkout.");
    return 2;
  }
  writeFileSync(join(work, "package.json"), '{ "type": "module" }');
  const install = ["install", "--loglevel=error", "--no-audit", "--no-fund", "--ignore-scripts", SCHEMAS];
  if (spawnSync("npm", install, { cwd: work, stdio: ["ignore", "ignore", "inherit"] }).status !== 0) {
    console.error(`Not proven: npm could not fetch ${SCHEMAS}.`);
    return 2;
  }
  const given = process.argv.slice(2);
  const files = given.length > 0 ? given : readdirSync(here).filter((name) => name.endsWith(".yaml"));
  let failures = 0;
  for (const file of files) {
    const text = readFileSync(given.length > 0 ? file : join(here, file), "utf8");
    const faults = faultsOf(text);
    console.log(
      `${faults.length === 0 ? "ok  " : "FAIL"}  ${file}${faults.map((fault) => `\n      ${fault}`).join("")}`,
    );
    failures += faults.length === 0 ? 0 : 1;
  }
  const sound = readFileSync(join(here, "berth.yaml"), "utf8");
  for (const [name, [from, to]] of Object.entries(CANARIES)) {
    const isFound = sound.includes(from) && faultsOf(sound.replace(from, to)).length > 0;
    console.log(`${isFound ? "ok  " : "FAIL"}  finds ${name}`);
    failures += isFound ? 0 : 1;
  }
  return failures === 0 ? 0 : 1;
}

/** @param {string} text */
function faultsOf(text) {
  const things = parseAllDocuments(text).map((document) => document.toJS());
  return [...things.flatMap(valueFaults), ...fieldFaults(things)];
}

function valueFaults(thing) {
  const title = `${thing.kind} ${thing.metadata?.name}`;
  const Model = modelsOf(thing.apiVersion)[thing.kind];
  if (Model === undefined) return [`${title}: Kubernetes has no ${thing.apiVersion} ${thing.kind}`];
  try {
    new Model(thing).validate();
    return [];
  } catch (error) {
    return [`${title}: ${error instanceof Error ? error.message : error}`];
  }
}

/** @param {string} apiVersion */
function modelsOf(apiVersion) {
  try {
    return createRequire(join(work, "package.json"))(`kubernetes-models/${apiVersion}`);
  } catch (error) {
    if (error?.code === "MODULE_NOT_FOUND" || error?.code === "ERR_PACKAGE_PATH_NOT_EXPORTED") return {};
    throw error;
  }
}

/** Schemas let unknown fields pass, as a cluster does; a literal of a type has no others. */
function fieldFaults(things) {
  const lines = things.map(
    ({ apiVersion, kind, ...rest }, index) =>
      `import type { I${kind} as I${index} } from "kubernetes-models/${apiVersion}";\n` +
      `export const thing${index}: I${index} = ${JSON.stringify({ apiVersion, kind, ...rest })};\n`,
  );
  writeFileSync(join(work, "things.ts"), lines.join(""));
  const options = "--noEmit --strict --skipLibCheck --module nodenext --target es2022 --ignoreConfig".split(
    " ",
  );
  const { stdout, status } = spawnSync(process.execPath, [tsc, ...options, "things.ts"], {
    cwd: work,
    encoding: "utf8",
  });
  return status === 0 ? [] : stdout.trim().split("\n").slice(0, 5);
}
