// Files for `berth apply`: pools with their groups, nodes, and policies, written exactly as in the API.

import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import {
  BODY_BYTES_MAX,
  group,
  issuesOf,
  node,
  policy,
  pool,
  poolSettings,
  toFieldName,
  type WireNode,
  type WirePolicy,
  type WirePool,
} from "../../protocol/index.ts";
import { CliError } from "../context.ts";
import { nearest } from "../nearest.ts";

export const applyDocument = z
  .strictObject({
    $schema: z.string().optional(),
    pools: z.array(pool).optional().describe("Pools, each with its groups."),
    nodes: z.array(node).optional().describe("Machines of pools without a capacity of their own."),
    policies: z.array(policy).optional().describe("Policies: one component in one pool."),
  })
  .meta({
    title: "Pools, groups, nodes and policies of Berth",
    description: "What `berth apply` makes true and `berth export` writes.",
  });

export interface Wanted {
  readonly pools: readonly WirePool[];
  /** Absent where no file speaks of nodes: then they are nobody's concern. */
  readonly nodes: readonly WireNode[] | undefined;
  readonly policies: readonly WirePolicy[];
}

/** The published schema, with short lists on one line. */
export function applySchema(): string {
  const text = JSON.stringify(z.toJSONSchema(applyDocument, { io: "input" }), null, 2);
  return text.replaceAll(/\[\n\s+([^[\]{}]*?)\n\s+\]/g, (list, inner: string) => {
    const line = `[${inner.replaceAll(/\n\s+/g, " ")}]`;
    return line.length <= LIST_LENGTH_MAX ? line : list;
  });
}

const LIST_LENGTH_MAX = 80;

const NAMES = /\.(ya?ml|json)$/i;

/** Files, directories with all the files in them, or `-` for stdin. */
export async function readWanted(
  paths: readonly string[],
  readStdin: (() => Promise<string>) | undefined,
): Promise<Wanted> {
  const documents: { file: string; text: string }[] = [];
  for (const path of paths) {
    if (path === "-") documents.push({ file: "stdin", text: (await readStdin?.()) ?? "" });
    else for (const file of filesAt(path)) documents.push({ file, text: readText(file) });
  }
  const parsed = await Promise.all(documents.map(({ file, text }) => parseDocuments(file, text)));
  const nodes = parsed.flat().flatMap(({ nodes: some }) => (some === undefined ? [] : [some]));
  const wanted = {
    pools: parsed.flat().flatMap(({ pools = [] }) => pools),
    nodes: nodes.length === 0 ? undefined : nodes.flat(),
    policies: parsed.flat().flatMap(({ policies = [] }) => policies),
  };
  refuseTwice(wanted.pools.map(({ name }) => `pool ${name}`));
  refuseTwice((wanted.nodes ?? []).map(({ name }) => `node ${name}`));
  refuseTwice(wanted.policies.map(({ pool: where, component }) => `policy ${where}/${component}`));
  return wanted;
}

function filesAt(path: string): string[] {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) throw new CliError("file_not_found", `There is no file or directory ${path}.`);
  if (!found.isDirectory()) return [path];
  const files = readdirSync(path, { recursive: true, encoding: "utf8" }).filter((name) => NAMES.test(name));
  return files.sort().map((name) => join(path, name));
}

function readText(file: string): string {
  if (statSync(file).size > BODY_BYTES_MAX)
    throw new CliError("file_too_large", `The file ${file} is larger than 1 MB.`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(readFileSync(file));
  } catch {
    throw new CliError("file_unreadable", `The file ${file} cannot be read, or is not UTF-8 text.`);
  }
}

async function parseDocuments(file: string, text: string) {
  const { LineCounter, parseAllDocuments } = await import("../yaml.ts");
  const lines = new LineCounter();
  const documents = parseAllDocuments(text, { lineCounter: lines });
  return (Array.isArray(documents) ? documents : []).map((document) => {
    const [error] = document.errors;
    if (error !== undefined) {
      // The library goes on with an excerpt; the place and the reason are enough.
      const [reason = ""] = error.message.split(/ at line \d|\n/);
      const { line, col } = lines.linePos(error.pos[0]);
      throw new CliError("invalid_syntax", `${file}:${line}:${col}: ${reason.replace(/\.$/, "")}.`);
    }
    const checked = applyDocument.safeParse(document.toJS() ?? {});
    if (checked.success) return checked.data;
    const issues = issuesOf(checked.error).map(({ path, message, isUnknownField }) => {
      const line = lineOf(document, lines, path);
      const meant = isUnknownField ? nearest(String(path.at(-1)), FIELDS) : undefined;
      const place = line === undefined ? "" : `line ${line}: `;
      return `${place}${toFieldName(path) || "the file"} ${message}${meant === undefined ? "" : ` (did you mean ${meant}?)`}`;
    });
    throw new CliError(
      "invalid_request",
      `${file}: ${issues.slice(0, 5).join("; ")}.`,
      "A file has pools and policies, written as in the API; `berth export` shows yours.",
    );
  });
}

const FIELDS: readonly string[] = [applyDocument, pool, group, node, policy, poolSettings].flatMap(
  ({ shape }) => Object.keys(shape),
);

/** Where a field is written, or what it belongs to, if it is missing. */
function lineOf(
  document: { getIn(path: readonly unknown[], keepScalar: true): unknown },
  lines: { linePos(offset: number): { line: number } },
  path: readonly (string | number)[],
): number | undefined {
  for (let depth = path.length; depth > 0; depth--) {
    const node = document.getIn(path.slice(0, depth), true) as
      | { range?: [number, number, number] }
      | undefined;
    if (node?.range) return lines.linePos(node.range[0]).line;
  }
  return undefined;
}

function refuseTwice(names: readonly string[]): void {
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined)
    throw new CliError("name_taken", `There is more than one ${twice} in these files.`);
}
