// The id of a message of the event stream: the position of its event in the journal, and in which history that is.
//
// A backup that is restored begins another history, in which the same positions mean other events; a reader that
// resumes with an id of the lost one must start afresh. The id is one whole number, so that it survives every client
// that takes ids for numbers: five digits for the history, eleven for the position.

import { hash } from "node:crypto";

export interface Positions {
  idOf(seq: number): number;
  /** What a client has sent as the last id that it saw; undefined: it is none. */
  parse(id: string): Position | undefined;
  /** Of this store: five digits. */
  history(): number;
}

export type Position = { readonly seq: number } | "of another history";

const SEQ_SPAN = 10 ** 11;
/** From 10000 to 89999, so that no id begins with a zero or is larger than a safe integer. */
const HISTORIES = 80_000;

/** Asks for the incarnation every time: from the moment at which a server knows of another one, no id names the old one. */
export function createPositions(incarnation: () => string): Positions {
  let last = { incarnation: "", history: 0 };
  const history = () => {
    const current = incarnation();
    if (current !== last.incarnation) last = { incarnation: current, history: historyOf(current) };
    return last.history;
  };
  return {
    history,
    idOf: (seq) => history() * SEQ_SPAN + seq,
    parse(id) {
      const number = /^\d{1,16}$/.test(id) ? Number(id) : Number.NaN;
      if (!Number.isSafeInteger(number)) return undefined;
      // A bare position names no history: that of a client that counts by itself, such as from 0.
      if (number < SEQ_SPAN || Math.floor(number / SEQ_SPAN) === history()) return { seq: number % SEQ_SPAN };
      return "of another history";
    },
  };
}

function historyOf(incarnation: string): number {
  return 10_000 + (Number.parseInt(hash("sha256", incarnation, "hex").slice(0, 12), 16) % HISTORIES);
}
