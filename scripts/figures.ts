// Figures of the source tree: lines per folder, the longest functions, cycles of value imports, and comparisons with the
// name of a discipline outside its folder. `npm run figures -- [DIRECTORY of a checkout]`

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import ts from "typescript";

const root = resolve(process.argv[2] ?? ".");
const files = sourceFiles(join(root, "src"));
const sources = new Map(
  files.map((file) => [
    file,
    ts.createSourceFile(file, readFileSync(file, "utf8"), ts.ScriptTarget.Latest, true),
  ]),
);

printLines();
printLongestFunctions();
printCycles();
printNameComparisons();

function sourceFiles(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) return sourceFiles(path);
    return /\.tsx?$/.test(entry.name) && !/\.(test|fixture)\.tsx?$/.test(entry.name) ? [path] : [];
  });
}

function nameOf(file: string): string {
  return relative(join(root, "src"), file);
}

function printLines(): void {
  const perFolder = new Map<string, { lines: number; files: number }>();
  for (const [file, source] of sources) {
    const parts = nameOf(file).split("/");
    const depth = parts[0] === "engine" && parts[1] === "disciplines" ? 3 : parts[0] === "engine" ? 2 : 1;
    const folder = parts.slice(0, Math.min(depth, parts.length - 1)).join("/");
    const sum = perFolder.get(folder) ?? { lines: 0, files: 0 };
    sum.lines += source.getLineStarts().length - 1;
    sum.files += 1;
    perFolder.set(folder, sum);
  }
  console.log("lines without tests, by folder");
  let engine = 0;
  for (const [folder, { lines, files: count }] of [...perFolder].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (folder === "engine" || folder.startsWith("engine/")) engine += lines;
    console.log(`  ${folder.padEnd(34)} ${String(lines).padStart(6)} in ${count} files`);
  }
  console.log(`  ${"engine in all".padEnd(34)} ${String(engine).padStart(6)}`);
}

function printLongestFunctions(): void {
  const found: { name: string; lines: number }[] = [];
  for (const [file, source] of sources) {
    const lineOf = (position: number) => source.getLineAndCharacterOfPosition(position).line;
    const visit = (node: ts.Node): void => {
      if (ts.isFunctionLike(node) && "body" in node && node.body !== undefined) {
        const lines = lineOf(node.end) - lineOf(node.getStart(source)) + 1;
        found.push({ name: `${nameOf(file)}:${lineOf(node.getStart(source)) + 1}`, lines });
      }
      ts.forEachChild(node, visit);
    };
    visit(source);
  }
  found.sort((a, b) => b.lines - a.lines);
  const show = (title: string, some: typeof found) => {
    console.log(title);
    for (const { name, lines } of some.slice(0, 5)) console.log(`  ${String(lines).padStart(4)}  ${name}`);
  };
  show("longest functions", found);
  show(
    "longest functions of the engine",
    found.filter(({ name }) => name.startsWith("engine/")),
  );
}

/** Files that import each other, directly or through others, by what exists at run time. */
function printCycles(): void {
  const imports = new Map<string, string[]>();
  for (const [file, source] of sources) {
    const targets = source.statements.flatMap((statement) => {
      const isImport = ts.isImportDeclaration(statement) || ts.isExportDeclaration(statement);
      if (!isImport || statement.moduleSpecifier === undefined || isTypeOnly(statement)) return [];
      const { text } = statement.moduleSpecifier as ts.StringLiteral;
      return text.startsWith(".") ? [resolve(dirname(file), text)] : [];
    });
    imports.set(file, targets);
  }
  const cycles = stronglyConnected(imports).filter(({ length }) => length > 1);
  console.log(`cycles of value imports: ${cycles.length}`);
  for (const cycle of cycles) console.log(`  ${cycle.map(nameOf).sort().join(", ")}`);
}

function isTypeOnly(statement: ts.ImportDeclaration | ts.ExportDeclaration): boolean {
  if (ts.isExportDeclaration(statement)) return statement.isTypeOnly;
  const clause = statement.importClause;
  if (clause === undefined) return false;
  if (clause.isTypeOnly) return true;
  const { namedBindings } = clause;
  if (clause.name !== undefined || namedBindings === undefined || !ts.isNamedImports(namedBindings))
    return false;
  return namedBindings.elements.every(({ isTypeOnly: isType }) => isType);
}

/** Tarjan's algorithm. */
function stronglyConnected(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const open: string[] = [];
  const components: string[][] = [];
  const visit = (file: string): void => {
    order.set(file, order.size);
    lowest.set(file, order.get(file) as number);
    open.push(file);
    for (const target of graph.get(file) ?? []) {
      if (!order.has(target)) visit(target);
      else if (!open.includes(target)) continue;
      lowest.set(file, Math.min(lowest.get(file) as number, lowest.get(target) as number));
    }
    if (lowest.get(file) === order.get(file)) components.push(open.splice(open.indexOf(file)));
  };
  for (const file of graph.keys()) if (!order.has(file)) visit(file);
  return components;
}

function printNameComparisons(): void {
  const names = new Set(["priority", "class", "fair_share"]);
  const found: string[] = [];
  for (const [file, source] of sources) {
    if (nameOf(file).startsWith("engine/disciplines/") && nameOf(file).split("/").length > 3) continue;
    const visit = (node: ts.Node): void => {
      if (ts.isBinaryExpression(node) && isComparison(node)) {
        const sides = [node.left, node.right];
        const isName = sides.some((side) => ts.isStringLiteral(side) && names.has(side.text));
        const isDiscipline = sides.some((side) => /discipline/i.test(side.getText(source)));
        const { line } = source.getLineAndCharacterOfPosition(node.getStart(source));
        if (isName && isDiscipline) found.push(`${nameOf(file)}:${line + 1}  ${node.getText(source)}`);
      }
      ts.forEachChild(node, visit);
    };
    visit(source);
  }
  console.log(`comparisons with the name of a discipline outside its folder: ${found.length}`);
  for (const each of found) console.log(`  ${each}`);
}

function isComparison({ operatorToken: { kind } }: ts.BinaryExpression): boolean {
  return [
    ts.SyntaxKind.EqualsEqualsEqualsToken,
    ts.SyntaxKind.ExclamationEqualsEqualsToken,
    ts.SyntaxKind.EqualsEqualsToken,
    ts.SyntaxKind.ExclamationEqualsToken,
  ].includes(kind);
}
