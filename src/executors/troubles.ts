// What goes wrong and is tried again: said once, and said again when it is over.

export interface Troubles {
  /** Undefined: it is over, if it was there. */
  set(where: "server" | "here", failure: Error | undefined): void;
}

const WORDS = {
  server: { begins: "No answer from the server", ends: "The server answers again." },
  here: { begins: "Something could not be done here, and is tried again", ends: "It could be done now." },
} as const;

export function createTroubles(tell: (text: string) => void): Troubles {
  const known = new Map<keyof typeof WORDS, string>();
  return {
    set(where, failure) {
      const { begins, ends } = WORDS[where];
      if (failure === undefined) {
        if (known.delete(where)) tell(ends);
      } else if (known.get(where) !== failure.message) {
        known.set(where, failure.message);
        tell(`${begins}: ${failure.message}`);
      }
    },
  };
}

/** What a piece of work throws; undefined: nothing. */
export function failureOf(work: () => void): Error | undefined {
  try {
    work();
    return undefined;
  } catch (error) {
    return toError(error);
  }
}

export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}
