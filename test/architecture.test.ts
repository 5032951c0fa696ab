// Holds the shape of the code: which folder of src may import which, and what the engine must never touch.
// The checker is tried on made-up sources first, so that a rule which can no longer fail is noticed.

import { readdirSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { describe, expect, test } from "vitest";

/** Folder of src → the folders it may import, each through its index.ts. Only `bin` may import them all. */
const allowedFolders: Record<string, readonly string[]> = {
  engine: [],
  protocol: [],
  words: ["protocol"],
  translation: ["engine", "protocol"],
  history: ["engine"],
  store: ["engine"],
  leader: ["engine", "history", "store"],
  replica: ["engine", "store", "leader"],
  foresight: ["engine", "store", "leader"],
  server: [
    ...["engine", "history", "protocol", "translation", "store", "leader", "replica", "foresight", "words"],
  ],
  sdk: ["protocol", "words"],
  cli: ["protocol", "sdk", "runner", "executors", "agent", "simulator"],
  runner: [],
  executors: ["protocol", "sdk", "runner"],
  agent: ["protocol", "sdk", "runner", "executors"],
  dashboard: ["sdk"],
  simulator: ["engine", "protocol", "translation"],
};
allowedFolders.bin = Object.keys(allowedFolders);

/** Folders whose packages are limited, Node's own among them. The others may use whatever is installed. */
const allowedPackages: Record<string, readonly string[]> = {
  engine: [],
  protocol: ["zod"],
};

/** Clocks, randomness and the outside world: with them a replay would not repeat the original. */
const globalsBannedFromEngine = new Set([
  ...["Date", "performance", "setTimeout", "setInterval", "setImmediate", "queueMicrotask", "crypto"],
  ...["process", "globalThis", "require", "fetch", "console", "Intl", "WeakRef", "FinalizationRegistry"],
]);

/** Methods that follow the machine's locale. */
const methodsBannedFromEngine = /^(localeCompare|toLocale\w*)$/;

/** What every runtime computes alike. The language leaves the rounding of exp, pow, log and the like open. */
const mathAllowedInEngine = /^(abs|ceil|floor|imul|clz32|max|min|round|sign|trunc)$/;

const srcDirectory = fileURLToPath(new URL("../src/", import.meta.url));

describe("the source tree", () => {
  const files = readdirSync(srcDirectory, { recursive: true, encoding: "utf8" })
    .map((file) => file.replaceAll("\\", "/"))
    .filter((file) => /\.tsx?$/.test(file) && !/\.(test|d)\.tsx?$/.test(file));

  test("has files to check", () => {
    expect(files).toContain("bin/berth.ts");
  });

  test("keeps to the import map, and the engine to itself", () => {
    expect(files.flatMap((file) => violations(file, readFileSync(srcDirectory + file, "utf8")))).toEqual([]);
  });
});

describe("the checker finds", () => {
  const cases: Record<string, { file: string; source: string; want: string[] }> = {
    "nothing in an allowed import": {
      file: "server/routes/requests.ts",
      source: `import { decide } from "../../engine/index.ts"; import { z } from "zod"; import "../x.ts";`,
      want: [],
    },
    "an import against the arrows": {
      file: "engine/decide.ts",
      source: `import { open } from "../store/index.ts";`,
      want: ["engine/decide.ts:1 engine may not import store"],
    },
    "an import of types only": {
      file: "sdk/client.ts",
      source: `import type { State } from "../engine/index.ts";`,
      want: ["sdk/client.ts:1 sdk may not import engine"],
    },
    "a re-export, a dynamic import and an import in a type": {
      file: "protocol/index.ts",
      source: `export * from "../sdk/index.ts";\nawait import("../cli/index.ts");\ntype T = import("../agent/index.ts").T;`,
      want: [
        "protocol/index.ts:1 protocol may not import sdk",
        "protocol/index.ts:2 protocol may not import cli",
        "protocol/index.ts:3 protocol may not import agent",
      ],
    },
    "a way around index.ts, even from bin": {
      file: "bin/berth.ts",
      source: `import { decide } from "../engine/decide.ts"; import { x } from "../engine/order/index.ts";`,
      want: [
        "bin/berth.ts:1 ../engine/decide.ts is private to engine; import its index.ts",
        "bin/berth.ts:1 ../engine/order/index.ts is private to engine; import its index.ts",
      ],
    },
    "an import from outside src": {
      file: "cli/run.ts",
      source: `import { x } from "../../test/world.ts";`,
      want: ["cli/run.ts:1 ../../test/world.ts is outside src"],
    },
    "a folder that the map does not know": {
      file: "utils/strings.ts",
      source: "",
      want: ["utils/strings.ts:1 the import map does not know this folder"],
    },
    "a file beside the folders": {
      file: "version.ts",
      source: "",
      want: ["version.ts:1 the import map does not know this folder"],
    },
    "packages in the engine": {
      file: "engine/ids.ts",
      source: `import { v7 } from "uuid";\nimport fs from "node:fs";\nconst name = "x";\nimport(name);`,
      want: [
        "engine/ids.ts:1 engine may not import uuid",
        "engine/ids.ts:2 engine may not import node:fs",
        "engine/ids.ts:4 engine may not import a computed name",
      ],
    },
    "packages other than schemas in the protocol": {
      file: "protocol/pools.ts",
      source: `import { z } from "zod";\nimport { z as y } from "zod/v4";\nimport { createHash } from "node:crypto";`,
      want: ["protocol/pools.ts:3 protocol may not import node:crypto"],
    },
    "clocks, randomness and the world in the engine": {
      file: "engine/time.ts",
      source: [
        "Date.now(); new Date();",
        "performance.now();",
        "Math.random(); const { random } = Math;",
        "crypto.randomUUID();",
        "setTimeout(f, 1); setInterval(f, 1);",
        "process.env.X;",
        'a.localeCompare(b); n.toLocaleString(); a["localeCompare"](b);',
        "new Intl.Collator();",
        "Math.exp(1); Math.pow(2, 3); 2 ** 3; x **= 2;",
        "const shorthand = { process };",
        "let when: Date;",
      ].join("\n"),
      want: [
        ...["1 Date", "1 Date", "2 performance", "3 Math.random", "3 Math", "4 crypto"],
        ...["5 setTimeout", "5 setInterval", "6 process", "7 localeCompare", "7 toLocaleString"],
        ...[
          "7 localeCompare",
          "8 Intl",
          "9 Math.exp",
          "9 Math.pow",
          "9 **",
          "9 **=",
          "10 process",
          "11 Date",
        ],
      ].map((found) => `engine/time.ts:${found.replace(" ", " the engine may not use ")}`),
    },
    "nothing in words that only look like them": {
      file: "engine/words.ts",
      source: [
        "// Date.now() and Math.random() would break a replay.",
        'const note = "setTimeout"; const event = { process: 1, Date: 2 }; event.process;',
        "interface Stage { process: number; performance(): number }",
        "Math.max(1, Math.floor(2.5));",
      ].join("\n"),
      want: [],
    },
    "no such limits outside the engine": {
      file: "leader/clock.ts",
      source: "Date.now(); Math.random(); Math.exp(1); a.localeCompare(b);",
      want: [],
    },
  };

  for (const [name, { file, source, want }] of Object.entries(cases)) {
    test(name, () => expect(violations(file, source)).toEqual(want));
  }
});

/** Everything that breaks a rule in one file, named by its path below src. */
function violations(file: string, text: string): string[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const found: string[] = [];
  const report = (node: ts.Node, what: string) => {
    const { line } = source.getLineAndCharacterOfPosition(node.getStart(source));
    found.push(`${file}:${line + 1} ${what}`);
  };

  const folder = file.includes("/") ? file.slice(0, file.indexOf("/")) : "";
  if (allowedFolders[folder] === undefined) report(source, "the import map does not know this folder");
  else visit(source);
  return found;

  function visit(node: ts.Node): void {
    const imported = importedName(node);
    if (imported !== undefined) {
      const complaint = aboutImport(file, folder, imported);
      if (complaint !== undefined) report(node, complaint);
    }
    if (folder === "engine") {
      const banned = bannedFromEngine(node);
      if (banned !== undefined) report(node, `the engine may not use ${banned}`);
    }
    ts.forEachChild(node, visit);
  }
}

/** What the node imports, if it is an import of any form; null stands for a name computed at run time. */
function importedName(node: ts.Node): string | null | undefined {
  if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) {
    return node.moduleSpecifier && literalText(node.moduleSpecifier);
  }
  if (ts.isImportTypeNode(node)) {
    return ts.isLiteralTypeNode(node.argument) ? literalText(node.argument.literal) : null;
  }
  if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
    return node.arguments[0] ? literalText(node.arguments[0]) : null;
  }
  return undefined;
}

function literalText(node: ts.Node): string | null {
  return ts.isStringLiteralLike(node) ? node.text : null;
}

function aboutImport(file: string, folder: string, imported: string | null): string | undefined {
  if (imported === null || !imported.startsWith(".")) {
    const packages = allowedPackages[folder];
    const isAllowed = packages?.some((name) => imported === name || imported?.startsWith(`${name}/`)) ?? true;
    return isAllowed ? undefined : `${folder} may not import ${imported ?? "a computed name"}`;
  }
  const target = posix.join(posix.dirname(file), imported);
  const [targetFolder = "", ...rest] = target.split("/");
  if (targetFolder === folder) return undefined;
  if (allowedFolders[targetFolder] === undefined) return `${imported} is outside src`;
  if (!allowedFolders[folder]?.includes(targetFolder)) return `${folder} may not import ${targetFolder}`;
  if (rest.join("/") !== "index.ts") return `${imported} is private to ${targetFolder}; import its index.ts`;
  return undefined;
}

function bannedFromEngine(node: ts.Node): string | undefined {
  if (node.kind === ts.SyntaxKind.AsteriskAsteriskToken) return "**";
  if (node.kind === ts.SyntaxKind.AsteriskAsteriskEqualsToken) return "**=";

  const isElementName = ts.isStringLiteralLike(node) && ts.isElementAccessExpression(node.parent);
  if (isElementName && methodsBannedFromEngine.test(node.text)) return node.text;

  if (!ts.isIdentifier(node)) return undefined;
  if (isMemberName(node)) return methodsBannedFromEngine.test(node.text) ? node.text : undefined;
  if (node.text === "Math") return bannedUseOfMath(node);
  return globalsBannedFromEngine.has(node.text) ? node.text : undefined;
}

/** Whether the identifier names a member of something, as in `event.process` or `{ process: 1 }`. */
function isMemberName(node: ts.Identifier): boolean {
  const { parent } = node;
  return (
    (ts.isPropertyAccessExpression(parent) && parent.name === node) ||
    (ts.isQualifiedName(parent) && parent.right === node) ||
    (ts.isBindingElement(parent) && parent.propertyName === node) ||
    ((ts.isPropertyAssignment(parent) || ts.isTypeElement(parent) || ts.isClassElement(parent)) &&
      parent.name === node)
  );
}

/** Math is fine as the left side of a function that is exact everywhere; anything else could hide another. */
function bannedUseOfMath(node: ts.Identifier): string | undefined {
  const { parent } = node;
  if (!ts.isPropertyAccessExpression(parent) || parent.expression !== node) return "Math";
  return mathAllowedInEngine.test(parent.name.text) ? undefined : `Math.${parent.name.text}`;
}
