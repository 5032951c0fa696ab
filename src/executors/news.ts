// News for the server: the sync that waits is given up for one with the news.

export interface News {
  note(): void;
  /** Aborted by the next news. */
  next(): AbortSignal;
  /** Resolves after the time, or with news. */
  within(ms: number, signal: AbortSignal): Promise<void>;
}

export function createNews(): News {
  let current = new AbortController();
  let isNew = false;
  return {
    note() {
      isNew = true;
      current.abort(new DOMException("Something has changed.", "AbortError"));
    },
    next() {
      isNew = false;
      current = new AbortController();
      return current.signal;
    },
    within(ms, signal) {
      if (isNew || signal.aborted) return Promise.resolve();
      return new Promise((resolve) => {
        const signals = [current.signal, signal];
        const settle = () => {
          clearTimeout(timer);
          for (const each of signals) each.removeEventListener("abort", settle); // They outlive the wait.
          resolve();
        };
        const timer = setTimeout(settle, ms);
        for (const each of signals) each.addEventListener("abort", settle);
      });
    },
  };
}
