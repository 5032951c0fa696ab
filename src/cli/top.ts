// berth top: pools, what runs, and what waits and why, on one screen that follows the event stream (H5).

import type { Command } from "commander";
import type { Client } from "../sdk/index.ts";
import type { CliContext } from "./context.ts";
import { type ConnectionOptions, withConnection } from "./options.ts";
import { connect, findPool } from "./session.ts";
import { type Picture, pictureText } from "./top/frame.ts";

interface Options extends ConnectionOptions {
  readonly pool?: string;
}

const HELP = `
Keys: j k or arrows choose a row, w says why it waits, c shows the command for it, . pauses, ? all keys, q leaves. Own is #, borrowed %,
held :, reserved but idle /, free a dot. Without a terminal it prints one picture and ends.

Examples:
  berth top
  berth top --pool lab
`;

const ALL_KEYS =
  "j k, arrows: row   w, Enter: why it waits   c: the command   .: pause and go on   Esc: close   q, Ctrl-C: leave";
/** At most so often, and at least so often: ages grow without any event. */
const REDRAW_MS_MIN = 250;
const REDRAW_MS_MAX = 5_000;
const ROWS_SHOWN = 100;

export function define(command: Command, context: CliContext): void {
  command.option("--pool <pool>", "only this pool");
  withConnection(command).addHelpText("after", HELP);
  command.action((options: Options) => top(options, context));
}

async function top(options: Options, context: CliContext): Promise<void> {
  const { client } = connect(options);
  const pool = options.pool === undefined ? undefined : (await findPool(client, options.pool)).name;
  const picture = await load(client, pool);
  const { screen } = context;
  if (screen === undefined || !process.stdin.isTTY) {
    const plain = { columns: 200, rows: Number.MAX_SAFE_INTEGER, chosen: -1, state: "", note: " " };
    const look = {
      ...plain,
      nowMs: Date.parse(picture.overview.time),
      hasColor: false,
      isAscii: context.isAscii === true,
    };
    return context.write(`${pictureText(picture, look).trimEnd()}\n`);
  }
  await follow(client, { pool, picture, context, columns: screen.columns });
}

async function load(client: Client, pool: string | undefined): Promise<Picture> {
  const query = pool === undefined ? {} : { pool };
  const [overview, queue, running] = await Promise.all([
    client.call("getOverview"),
    client.call("getQueue", { query: { ...query, limit: ROWS_SHOWN } }),
    client.requests.list({ ...query, status: "allocated,preempting", limit: ROWS_SHOWN }),
  ]);
  const pools = overview.pools.filter(({ name }) => pool === undefined || name === pool);
  const problems = overview.problems.filter((problem) => pool === undefined || problem.pool === pool);
  return {
    overview: { ...overview, pools, problems },
    running: running.items,
    waiting: queue.rows,
    waitingTotal: queue.total,
  };
}

interface Following {
  readonly pool: string | undefined;
  readonly picture: Picture;
  readonly context: CliContext;
  readonly columns: () => number;
}

async function follow(client: Client, { pool, picture: first, context, columns }: Following): Promise<void> {
  const leaving = new AbortController();
  const signal =
    context.signal === undefined ? leaving.signal : AbortSignal.any([leaving.signal, context.signal]);
  let picture = first;
  let [chosen, note, isPaused, state] = [0, "", false, "live"];
  let wake = () => {};
  let isStale = false;

  const draw = () => {
    const rows = process.stdout.rows ?? 24;
    const { hasColor, isAscii = false } = context;
    const look = { columns: columns(), rows, nowMs: Date.now(), hasColor, isAscii, chosen, note };
    context.write(
      `\u001b[H\u001b[2J${pictureText(picture, { ...look, state: isPaused ? "paused" : state })}`,
    );
  };
  const rowAt = (index: number) => picture.running[index] ?? picture.waiting[index - picture.running.length];
  const explain = async () => {
    const row = rowAt(chosen);
    if (row === undefined) return;
    const request = await client.requests.get(String(row.number));
    note = (await client.requests.why(request))?.line ?? `berth why ${row.number}`;
  };
  const onKey = (key: string) => {
    const last = picture.running.length + picture.waiting.length - 1;
    if (key === "q" || key === "\u0003") return leaving.abort();
    if (key === "j" || key === "\u001b[B") chosen = Math.min(last, chosen + 1);
    else if (key === "k" || key === "\u001b[A") chosen = Math.max(0, chosen - 1);
    else if (key === ".") isPaused = !isPaused;
    else if (key === "?") note = ALL_KEYS;
    else if (key === "\u001b") note = "";
    else if (key === "c") note = `berth why ${rowAt(chosen)?.number ?? ""}`;
    else if (key === "w" || key === "\r") void explain().then(draw, () => undefined);
    draw();
  };

  const terminal = openTerminal(context, { onKey, onResize: draw });
  void listen(client, pool, signal, () => {
    isStale = true;
    wake();
  });
  try {
    while (!signal.aborted) {
      draw();
      await new Promise<void>((resolve) => {
        wake = resolve;
        if (isStale) resolve();
        setTimeout(resolve, REDRAW_MS_MAX).unref();
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
      await new Promise((resolve) => setTimeout(resolve, signal.aborted ? 0 : REDRAW_MS_MIN));
      if (isPaused || signal.aborted) continue;
      isStale = false;
      try {
        picture = await load(client, pool);
        state = "live";
      } catch {
        state = `offline, as of ${picture.overview.time.slice(11, 19)}`;
      }
    }
  } finally {
    leaving.abort();
    terminal.close();
  }
}

async function listen(
  client: Client,
  pool: string | undefined,
  signal: AbortSignal,
  onEvent: () => void,
): Promise<void> {
  try {
    for await (const _ of client.events.stream(pool === undefined ? {} : { pool }, { signal })) onEvent();
  } catch {
    // It ends with the picture; without a stream the picture is made anew every few seconds.
  }
}

/** The other screen, keys as they are typed; afterwards everything is as it was. */
function openTerminal(
  { write }: CliContext,
  { onKey, onResize }: { readonly onKey: (key: string) => void; readonly onResize: () => void },
): { close(): void } {
  const { stdin, stdout } = process;
  const onData = (data: Buffer) => onKey(data.toString());
  stdin.setRawMode(true);
  stdin.resume();
  stdin.on("data", onData);
  stdout.on("resize", onResize);
  write("\u001b[?1049h\u001b[?25l");
  return {
    close() {
      write("\u001b[?25h\u001b[?1049l");
      stdout.off("resize", onResize);
      stdin.off("data", onData);
      stdin.setRawMode(false);
      stdin.pause();
    },
  };
}
