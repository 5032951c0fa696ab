// What input from outside may be at most. Everything that can grow has its limit here, and a name.

/** Bounds on the shape of a parsed document, checked before any schema looks at it. */
export interface ShapeLimits {
  readonly depthMax: number;
  /** Values of all kinds in the whole document. */
  readonly valuesMax: number;
  /** Entries of one object or list. */
  readonly entriesMax: number;
  readonly textLengthMax: number;
}

export const BODY_BYTES_MAX = 1024 * 1024;
export const BATCH_BODY_BYTES_MAX = 4 * 1024 * 1024;
export const BATCH_ITEMS_MAX = 1_000;

export const BODY_LIMITS: ShapeLimits = {
  depthMax: 32,
  valuesMax: 200_000,
  entriesMax: 1_000,
  textLengthMax: 64 * 1024,
};

/** JSON is parsed at some hundred megabytes a second, YAML at about one, so YAML may be less. */
export const SCENARIO_JSON_BYTES_MAX = 64 * 1024 * 1024;
export const SCENARIO_YAML_BYTES_MAX = 4 * 1024 * 1024;

export const SCENARIO_LIMITS: ShapeLimits = {
  depthMax: 64,
  valuesMax: 20_000_000,
  entriesMax: 1_000_000,
  textLengthMax: 64 * 1024,
};

export const NAME_LENGTH_MAX = 256;
export const NOTE_LENGTH_MAX = 4_096;
export const LABELS_MAX = 64;
export const LABEL_LENGTH_MAX = 256;

/** Pages of lists, long polls, and keys that name a call. */
export const PAGE_ITEMS_MAX = 1_000;
export const PAGE_ITEMS_DEFAULT = 100;
export const WAIT_SECONDS_MAX = 60;
/** Of one answer about a stretch of time: bars, lanes or points, and the width that they are drawn in. */
export const TIMELINE_BARS_MAX = 5_000;
export const TIMELINE_PIXELS_MAX = 10_000;
export const LANES_MAX = 2_000;
export const IDEMPOTENCY_KEY_LENGTH_MAX = 255;
export const GRANT_TOKEN_LENGTH_MAX = 128;

/** Some three hundred years: sums of such times stay exact, and nobody waits longer. */
export const SECONDS_MAX = 10_000_000_000;

/** What one sync may list: attempts, and machines of a cluster. */
export const SYNC_JOBS_MAX = 10_000;
export const SYNC_NODES_MAX = 10_000;

/** Words of a job's command, and all of its instructions together as JSON. */
export const RUN_WORDS_MAX = 1_000;
export const RUN_BYTES_MAX = 512 * 1024;
/** Kept of the output of each attempt (J6), and one piece of it on its way, in base64. */
export const LOG_TAIL_BYTES = 64 * 1024;
export const LOG_PIECE_CHARS_MAX = 64 * 1024;

export interface ShapeProblem {
  readonly path: readonly (string | number)[];
  readonly message: string;
  /** Else it is a name or a text that nothing of ours may have. */
  readonly isTooLarge: boolean;
}

interface Visit {
  readonly value: unknown;
  readonly depth: number;
  readonly key: string | number;
  readonly parent: Visit | undefined;
}

/** The first thing in the document that is larger than allowed, or a text that is not allowed at all. Walks without recursion, so depth cannot hurt. */
export function shapeProblem(document: unknown, limits: ShapeLimits): ShapeProblem | undefined {
  let valuesSeen = 0;
  const open: Visit[] = [{ value: document, depth: 0, key: "", parent: undefined }];
  for (let visit = open.pop(); visit !== undefined; visit = open.pop()) {
    valuesSeen += 1;
    const tooLarge = excess(visit, valuesSeen, limits);
    const message = tooLarge ?? forbiddenText(visit);
    if (message !== undefined) return { path: pathOf(visit), message, isTooLarge: tooLarge !== undefined };
    const { value } = visit;
    if (typeof value !== "object" || value === null) continue;
    const depth = visit.depth + 1;
    if (Array.isArray(value)) {
      for (let i = 0; i < value.length; i++) open.push({ value: value[i], depth, key: i, parent: visit });
    } else {
      const fields = value as Readonly<Record<string, unknown>>;
      for (const key of Object.keys(fields)) open.push({ value: fields[key], depth, key, parent: visit });
    }
  }
  return undefined;
}

function excess({ value, depth, key }: Visit, valuesSeen: number, limits: ShapeLimits): string | undefined {
  if (depth > limits.depthMax) return `is nested more than ${limits.depthMax} levels deep`;
  if (valuesSeen > limits.valuesMax) return `has more than ${limits.valuesMax} values`;
  if (typeof key === "string" && key.length > NAME_LENGTH_MAX) {
    return `has a name of more than ${NAME_LENGTH_MAX} characters`;
  }
  if (typeof value === "string" && value.length > limits.textLengthMax) {
    return `is a text of more than ${limits.textLengthMax} characters`;
  }
  if (typeof value === "object" && value !== null && entriesOf(value) > limits.entriesMax) {
    return `has more than ${limits.entriesMax} entries`;
  }
  return undefined;
}

function entriesOf(value: object): number {
  return Array.isArray(value) ? value.length : Object.keys(value).length;
}

function forbiddenText({ key, value }: Visit): string | undefined {
  // Objects made by assignment would lose this key or worse; nothing of ours is called so.
  if (key === "__proto__") return "is not a name that can be used";
  const isForbidden = (text: unknown) => typeof text === "string" && UNPRINTABLE.test(text);
  return isForbidden(key) || isForbidden(value)
    ? "has control characters or half a surrogate pair"
    : undefined;
}

/** Tabs and line breaks are for notes; where names are expected, the schemas refuse them too. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
const UNPRINTABLE = /[\p{Cs}\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/u;

function pathOf(visit: Visit): (string | number)[] {
  const path: (string | number)[] = [];
  for (let at = visit; at.parent !== undefined; at = at.parent) {
    path.unshift(typeof at.key === "string" ? at.key.slice(0, NAME_LENGTH_MAX) : at.key);
  }
  return path;
}
