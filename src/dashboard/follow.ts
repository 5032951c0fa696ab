// Data of a view: loaded once, patched by what the event stream says, and loaded anew for what it does not say (B4).

import { useEffect, useRef, useState } from "preact/hooks";
import type { BerthError } from "../sdk/index.ts";
import { follow, type LiveEvent } from "./live.ts";
import { toBerthError } from "./session.ts";

export interface Followed<Data> {
  readonly data: Data | undefined;
  /** Why it could not be loaded the last time; what was there before stays. */
  readonly error: BerthError | undefined;
  /** False while what another key had is still shown. */
  readonly isCurrent: boolean;
  readonly reload: () => void;
}

export interface Following<Data> {
  load(signal: AbortSignal): Promise<Data>;
  /** What events say for certain is shown at the next painting. */
  patch?(data: Data, events: readonly LiveEvent[]): Data;
  /** Whether the event changes more than a patch can say. */
  concerns(event: LiveEvent): boolean;
  /** At least so long between two loads. */
  everyMs?: number;
}

const EVERY_MS = 2_000;

/** Begins anew with another key. */
export function useFollowed<Data extends object>(key: string, following: Following<Data>): Followed<Data> {
  const [state, setState] = useState<{ key: string; data?: Data; error?: BerthError }>({ key });
  const latest = useRef(following);
  latest.current = following;
  const reload = useRef<() => void>(() => undefined);

  useEffect(() => {
    const over = new AbortController();
    let data: Data | undefined;
    let isLoading = false;
    let isStale = false;
    let loadedAtMs = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;

    const load = async () => {
      timer = undefined;
      if (isLoading) return;
      isLoading = true;
      isStale = false;
      try {
        data = await latest.current.load(over.signal);
        if (!over.signal.aborted) setState({ key, data });
      } catch (error) {
        const failure = toBerthError(error);
        if (!over.signal.aborted) setState({ key, ...(data && { data }), error: failure });
        isStale ||= failure.status === 0 || failure.status === 503; // Nobody was there; soon somebody may be.
      }
      isLoading = false;
      loadedAtMs = Date.now();
      if (isStale) schedule();
    };
    const schedule = () => {
      isStale = true;
      if (isLoading || over.signal.aborted) return;
      const { everyMs = EVERY_MS } = latest.current;
      timer ??= setTimeout(load, Math.max(0, loadedAtMs + everyMs - Date.now()));
    };
    reload.current = () => {
      clearTimeout(timer);
      timer = undefined;
      isStale = true;
      void load();
    };

    const unfollow = follow({
      onEvents(events) {
        const seq = (data as { seq?: number } | undefined)?.seq ?? 0;
        const news = events.filter((event) => event.seq > seq);
        if (news.length === 0) return;
        if (data !== undefined && latest.current.patch !== undefined) {
          const patched = latest.current.patch(data, news);
          if (patched !== data) {
            data = patched;
            setState({ key, data });
          }
        }
        if (news.some((event) => latest.current.concerns(event))) schedule();
      },
      onReset: schedule,
    });
    void load();
    return () => {
      over.abort();
      clearTimeout(timer);
      unfollow();
    };
  }, [key]);

  const isCurrent = state.key === key;
  return {
    data: state.data,
    error: isCurrent ? state.error : undefined,
    isCurrent,
    reload: () => reload.current(),
  };
}
