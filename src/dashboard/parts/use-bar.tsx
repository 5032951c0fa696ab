// Units of one key by kind of use: each kind has a colour, a pattern and its number in words (B12).

import type { AnswerOf } from "../../sdk/index.ts";
import { hrefOf } from "../address.ts";

type KeyUse = AnswerOf<"getOverview">["pools"][number]["keys"][number];

/** In the order of the bar. A segment opens the view that says more about it. */
const KINDS = [
  { kind: "own", name: "own", view: "/timeline" },
  { kind: "borrowed", name: "borrowed", view: "/timeline" },
  { kind: "held", name: "held", view: "/queue" },
  { kind: "reserved_idle", name: "idle reserve", view: "/shares" },
  { kind: "free", name: "free", view: "/queue" },
] as const;

export function UseBar({ pool, use }: { pool: string; use: KeyUse }) {
  const shown = KINDS.filter(({ kind }) => use[kind] > 0);
  const total = Math.max(
    use.capacity,
    shown.reduce((sum, { kind }) => sum + use[kind], 0),
  );
  return (
    <div class="use">
      <span class="use-key">{use.key}</span>
      <div class="bar" aria-hidden="true">
        {shown.map(({ kind }) => (
          <span key={kind} class={`segment ${kind}`} style={{ flexGrow: use[kind] / total }} />
        ))}
      </div>
      <span class="use-total">
        of <b>{use.capacity}</b>
      </span>
      <ul class="legend">
        {shown.map(({ kind, name, view }) => (
          <li key={kind}>
            <a
              href={hrefOf(view, { pool, ...(kind === "held" && { why: "held" }) })}
              data-use={`${pool} ${use.key} ${kind}`}
            >
              <span class={`swatch ${kind}`} aria-hidden="true" />
              {name} <b>{use[kind]}</b>
            </a>
          </li>
        ))}
      </ul>
    </div>
  );
}
