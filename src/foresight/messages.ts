// What the two sides of the foresight thread send each other.

import type { CommittedEvent } from "../leader/index.ts";
import type { Answer, Question } from "./questions.ts";

export type ToThread =
  /** One after the other: each is copied between the threads, and nobody waits for that of a whole state. */
  | { readonly kind: "piece"; readonly piece: Uint8Array }
  /** All pieces of the snapshot at `seq` have come; none at 0: the journal begins there. */
  | { readonly kind: "snapshot"; readonly seq: number }
  | { readonly kind: "events"; readonly events: readonly CommittedEvent[] }
  | { readonly kind: "ask"; readonly id: number; readonly question: Question; readonly nowMs: number };

export type FromThread =
  /** The replica stands at this event; `bytes` is the memory that it takes. */
  | { readonly kind: "at"; readonly seq: number; readonly bytes: number }
  | { readonly kind: "answer"; readonly id: number; readonly answer: Answer }
  /** The question could not be answered; the thread goes on. */
  | { readonly kind: "failed"; readonly id: number; readonly message: string };
