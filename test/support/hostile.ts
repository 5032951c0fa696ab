// Hostile commands, environments, directories and output: each reaches its job, or its reader, byte for byte, or is refused (J2, J6).
// What the job was given it writes down itself, as the system shows it; nothing here shares code with the product.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { HOSTILE_PIECES } from "./hostile-words.ts";

/** Where jobs can be run; the tests and the proof each have their own. */
export interface Place {
  /** Where jobs may read and write. */
  readonly scratch: string;
  /** The id of the job; undefined: it was refused. Anything else that goes wrong is thrown. */
  submit(run: Run): Promise<string | undefined>;
  /** Resolves when it has ended: whether it ran. */
  hasRun(id: string): Promise<boolean>;
  output(id: string): Promise<Buffer>;
}

interface Run {
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly directory: string;
}

type Case =
  | { readonly kind: "word"; readonly text: string }
  | { readonly kind: "variable"; readonly name: string; readonly text: string }
  | { readonly kind: "directory"; readonly text: string }
  | { readonly kind: "output"; readonly bytes: Buffer };

export interface HostileResult {
  readonly cases: number;
  readonly arrived: number;
  readonly refused: number;
  readonly jobs: number;
  readonly altered: readonly string[];
}

/** Many cases travel in one job: starting one for each would take hours. */
const CASES_PER_JOB = 180;
const JOBS_AT_ONCE = 4;

/** Writes its arguments, its environment and its directory down as the system shows them, and repeats a file to its output. */
const PROBE = `
  my ($to, $output) = splice(@ARGV, 0, 2);
  my ($arguments, $environment, $file);
  for (["cmdline", \\$arguments], ["environ", \\$environment]) {
    open(my $in, "<:raw", "/proc/self/$_->[0]") or die; local $/; \${$_->[1]} = <$in>;
  }
  open(my $out, ">:raw", "$to.new") or die;
  print $out pack("N/a* N/a* N/a*", $arguments, $environment, readlink("/proc/self/cwd"));
  close($out); rename("$to.new", $to);
  open($file, "<:raw", $output) or die; binmode(STDOUT);
  while (read($file, my $piece, 65536)) { print STDOUT $piece }`;

export async function tryHostile(place: Place, count: number, random: () => number): Promise<HostileResult> {
  const cases = Array.from({ length: count }, () => drawCase(random));
  const counts = { arrived: 0, refused: 0, jobs: 0 };
  const altered: string[] = [];

  /** Those that are refused together are tried in halves: one that is refused alone was refused for itself. */
  async function tryTogether(some: readonly Case[]): Promise<void> {
    const number = ++counts.jobs;
    const prepared = prepare(place, number, some);
    const id = prepared && (await place.submit(prepared.run));
    if (prepared !== undefined && id !== undefined && (await place.hasRun(id))) {
      const found = await compare(place, id, prepared, some);
      altered.push(...found);
      counts.arrived += some.length - found.length;
    } else if (some.length === 1) counts.refused += 1;
    else {
      await tryTogether(some.slice(0, some.length >> 1));
      await tryTogether(some.slice(some.length >> 1));
    }
  }

  const plain = cases.filter((one) => !isOdd(one));
  const groups = [
    ...cases.filter(isOdd).map((one) => [one]),
    ...Array.from({ length: Math.ceil(plain.length / CASES_PER_JOB) }, (_, index) =>
      plain.slice(index * CASES_PER_JOB, (index + 1) * CASES_PER_JOB),
    ),
  ];
  const worker = async () => {
    for (let group = groups.pop(); group !== undefined; group = groups.pop()) await tryTogether(group);
  };
  await Promise.all(Array.from({ length: JOBS_AT_ONCE }, worker));
  return { cases: count, ...counts, altered };
}

interface Prepared {
  readonly run: Run;
  readonly evidence: string;
  readonly output: Buffer;
}

/** Undefined: not even this system can make a directory of that name. */
function prepare({ scratch }: Place, number: number, some: readonly Case[]): Prepared | undefined {
  const evidence = join(scratch, `evidence-${number}`);
  const outputFile = join(scratch, `output-${number}`);
  const output = Buffer.concat(some.flatMap((one) => (one.kind === "output" ? [one.bytes] : [])));
  writeFileSync(outputFile, output, { mode: 0o644 });
  const words = some.flatMap((one) => (one.kind === "word" ? [one.text] : []));
  const variables = some.flatMap((one) => (one.kind === "variable" ? [[one.name, one.text] as const] : []));
  let directory = scratch;
  try {
    for (const one of some) {
      if (one.kind !== "directory") continue;
      directory = join(scratch, `d-${number}`, one.text);
      mkdirSync(directory, { recursive: true });
    }
  } catch {
    if (some.length > 1) return undefined;
  }
  return {
    run: {
      command: ["perl", "-e", PROBE, evidence, outputFile, ...words],
      environment: Object.fromEntries(variables),
      directory,
    },
    evidence,
    output,
  };
}

async function compare(
  place: Place,
  id: string,
  { run, evidence, output }: Prepared,
  some: readonly Case[],
): Promise<string[]> {
  const bytes = readFileSync(evidence);
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = bytes.readUInt32BE(at);
    parts.push(bytes.subarray(at + 4, at + 4 + length));
    at += 4 + length;
  }
  const [words = [], variables = []] = parts.slice(0, 2).map(atNuls);
  const got = words.slice(-run.command.length + 5);
  const wanted = run.command.slice(5).map((word) => Buffer.from(word));
  // Half a character has no bytes: whatever arrived was something else.
  const altered = [...run.command, ...Object.values(run.environment), run.directory]
    .filter((text) => /\p{Surrogate}/u.test(text))
    .map((text) => `half a character arrived in ${JSON.stringify(text.slice(0, 60))}`);
  const shown = (text: Buffer | string | undefined) => JSON.stringify(text?.toString().slice(0, 60));
  if (wanted.length > 0)
    for (const [index, word] of wanted.entries())
      if (got[index]?.equals(word) !== true) altered.push(`word ${shown(word)} became ${shown(got[index])}`);
  for (const [name, value] of Object.entries(run.environment)) {
    const entry = Buffer.from(`${name}=${value}`);
    const found = variables.filter((one) => one.subarray(0, name.length + 1).toString() === `${name}=`);
    if (found.length !== 1 || found[0]?.equals(entry) !== true)
      altered.push(`variable ${shown(entry)} became ${shown(found[0])}`);
  }
  if (parts[2]?.equals(Buffer.from(run.directory)) !== true)
    altered.push(`directory ${shown(run.directory)} became ${shown(parts[2])}`);
  const read = await place.output(id);
  if (!read.equals(output))
    altered.push(`output of ${output.length} bytes of ${some.length} cases became ${read.length} bytes`);
  return altered;
}

/** Each ends with one; the last piece after that is nothing. */
function atNuls(bytes: Buffer): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = bytes.indexOf(0, at);
    pieces.push(bytes.subarray(at, end < 0 ? bytes.length : end));
    at = (end < 0 ? bytes.length : end) + 1;
  }
  return pieces;
}

// --- What is tried

const PIECES = [
  ...HOSTILE_PIECES,
  ..."\\0 \\u0000 \\x00 $((1/0)) %s%n %00 ../.. / // . .. constructor __proto__ null 0 -1 {}[]".split(" "),
  ...["\u00a0", "\u2029", "\ufffe", "\uffff", '{"a":1}', "<!--", "DROP TABLE"],
];
/** No process can be given these, or nobody should have to see them. */
const ODD = ["\0", "\ud800", "\udfff", "\ud800x", "\u0001", "\u001b[31m", "\u007f", "\u0085", "\u000b", "\b"];
const ODD_NAMES = [
  "",
  "=",
  "A=B",
  "1A",
  "a b",
  "a\nb",
  "-",
  "é",
  "$X",
  "A\0B",
  "\ud800",
  "BERTH_TOKEN=",
  "a.b",
  "()",
];

function drawCase(random: () => number): Case {
  const kind = random();
  const isOddCase = random() < 0.15;
  if (kind < 0.45) return { kind: "word", text: isOddCase ? drawOdd(random) : drawText(random) };
  if (kind < 0.8) {
    if (isOddCase && random() < 0.5)
      return { kind: "variable", name: pick(ODD_NAMES, random), text: drawText(random) };
    const name = `V${Math.floor(random() * 1e12).toString(36)}`;
    return { kind: "variable", name, text: isOddCase ? drawOdd(random) : drawText(random) };
  }
  if (kind < 0.82) return { kind: "directory", text: drawName(random) };
  return { kind: "output", bytes: drawBytes(random) };
}

function isOdd(one: Case): boolean {
  if (one.kind === "output") return false;
  if (one.kind === "variable" && !/^V\w+$/.test(one.name)) return true;
  return one.kind === "directory" || one.text.length > 5_000 || ODD.some((piece) => one.text.includes(piece));
}

function drawText(random: () => number): string {
  if (random() < 0.003) return pick(PIECES.slice(1), random).repeat(Math.floor(random() * 200_000));
  return Array.from({ length: Math.floor(random() * 8) }, () => pick(PIECES, random)).join("");
}

function drawOdd(random: () => number): string {
  return drawText(random).slice(0, 1_000) + pick(ODD, random) + drawText(random).slice(0, 1_000);
}

/** Of a directory: what a file system takes. */
function drawName(random: () => number): string {
  const text = `${drawText(random)}${random() < 0.2 ? pick(ODD, random) : ""}`.slice(0, 40);
  return text.replaceAll(/[/\0]/g, "_").replace(/^\.{0,2}$/, "-rf") || "-rf";
}

/** Any bytes, with and without lines; now and then a line of megabytes. */
function drawBytes(random: () => number): Buffer {
  if (random() < 0.004)
    return Buffer.alloc(Math.floor(random() * 3_000_000), pick(["x", "é", "\0", "\r"], random));
  const bytes = Buffer.alloc(Math.floor(random() ** 3 * 8_000));
  for (let at = 0; at < bytes.length; at++) bytes[at] = Math.floor(random() * 256);
  return random() < 0.3 ? Buffer.from(drawText(random)) : bytes;
}

function pick<T>(values: readonly T[], random: () => number): T {
  return values[Math.floor(random() * values.length)] as T;
}
