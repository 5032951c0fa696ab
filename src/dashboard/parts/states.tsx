// Every state that a view can be in beside its data (B15): loading, empty, an error, not allowed.

import type { ComponentChildren } from "preact";
import type { BerthError } from "../../sdk/index.ts";
import type { Followed } from "../follow.ts";
import { isOffline } from "../live.ts";
import { CopyButton } from "./copy.tsx";

/** Nothing is there: what would be, and the command that fills it. */
export function Empty({
  title,
  children,
  command,
}: {
  title: string;
  children: ComponentChildren;
  command?: string;
}) {
  return (
    <section class="state" data-state="empty">
      <span class="state-mark" aria-hidden="true">
        ∅
      </span>
      <h2>{title}</h2>
      <p>{children}</p>
      {command !== undefined && <CopyButton command={command} />}
    </section>
  );
}

/** What, why, what to do, code, retry. */
export function Failure({ error, retry }: { error: BerthError; retry: () => void }) {
  const isForbidden = error.status === 403;
  return (
    <section class="state" data-state={isForbidden ? "forbidden" : "error"} role="alert">
      <span class="state-mark" aria-hidden="true">
        !
      </span>
      <h2>{isForbidden ? "Your token may not see this" : "This could not be loaded"}</h2>
      <p>{error.message}</p>
      {error.hint && <p class="soft">{error.hint}</p>}
      <p class="actions">
        <button type="button" onClick={retry}>
          Try again
        </button>
        <code class="soft">{error.code}</code>
      </p>
    </section>
  );
}

export function Loading({ rows = 4 }: { rows?: number }) {
  return (
    <div class="loading" aria-busy="true" data-state="loading">
      <span class="hidden">Loading…</span>
      {Array.from({ length: rows }, (_, at) => (
        <div class="skeleton" key={at} />
      ))}
    </div>
  );
}

/** The data of a view, or why there is none. What was there before stays when a later load fails. */
export function Data<Loaded extends object>({
  of: { data, error, reload },
  children,
}: {
  of: Followed<Loaded>;
  children: (data: Loaded) => ComponentChildren;
}) {
  if (error !== undefined && (data === undefined || error.status === 403 || error.status === 404))
    return <Failure error={error} retry={reload} />;
  if (data === undefined) return <Loading />;
  return (
    <>
      {error !== undefined && !isOffline.value && (
        <p class="notice" role="alert">
          This is not the latest state: {error.message}
        </p>
      )}
      {children(data)}
    </>
  );
}
