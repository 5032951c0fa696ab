// What a person should look at, on every view. Can be hidden for an hour.

import { signal } from "@preact/signals";
import { hrefOf } from "../address.ts";
import { nowMs } from "../live.ts";
import { type Overview, overview } from "../overview.ts";
import { CopyButton } from "../parts/copy.tsx";

type Problem = Overview["problems"][number];

const HIDE_MS = 3_600_000;
const SHOWN_MAX = 3;
const STORED = "berth.hidden-alerts";

const hiddenUntil = signal<Readonly<Record<string, number>>>(readHidden());
const areAllShown = signal(false);

export function Alerts() {
  const problems = (overview.value.data?.problems ?? []).filter(
    (problem) => (hiddenUntil.value[idOf(problem)] ?? 0) < nowMs.value,
  );
  if (problems.length === 0) return null;
  const shown = areAllShown.value ? problems : problems.slice(0, SHOWN_MAX);
  return (
    <section class="alerts" aria-label="Problems">
      <ul>
        {shown.map((problem) => (
          <li key={idOf(problem)} class={areAllShown.value ? "is-asked-for" : ""}>
            <span class="mark" aria-hidden="true">
              !
            </span>
            <span class="words">{problem.message}</span>
            <CopyButton command={problem.command} />
            <a class="button" href={placeOf(problem)}>
              show
            </a>
            <button type="button" onClick={() => hide(problem)}>
              hide 1 h
            </button>
          </li>
        ))}
      </ul>
      {!areAllShown.value && problems.length > 1 && (
        <button
          type="button"
          class={problems.length > shown.length ? "plain" : "plain only-narrow"}
          onClick={() => {
            areAllShown.value = true;
          }}
        >
          {problems.length > shown.length ? `${problems.length - shown.length} more` : "all problems"}
        </button>
      )}
    </section>
  );
}

function placeOf({ request, pool }: Problem): string {
  if (request !== null) return hrefOf(`/requests/${request}`);
  return hrefOf("/queue", { pool: pool ?? undefined });
}

function idOf({ code, pool, node, request }: Problem): string {
  return [code, pool, node, request].join(" ");
}

function hide(problem: Problem): void {
  const live = Object.entries(hiddenUntil.value).filter(([, untilMs]) => untilMs > Date.now());
  hiddenUntil.value = { ...Object.fromEntries(live), [idOf(problem)]: Date.now() + HIDE_MS };
  try {
    localStorage.setItem(STORED, JSON.stringify(hiddenUntil.value));
  } catch {
    // A browser that stores nothing shows it again after the next load.
  }
}

function readHidden(): Readonly<Record<string, number>> {
  try {
    return JSON.parse(localStorage.getItem(STORED) ?? "{}") as Record<string, number>;
  } catch {
    return {};
  }
}
