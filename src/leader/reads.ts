// Looks at the state. Each looks at once, and is answered when the disk has all that it may have seen.
//
// Invariants
//   1. Nobody outside sees an event before it is durable. What was seen of a memory that was thrown away is looked at again.
//   2. A server that has stopped answers nothing from memory; while it does not know that it still leads, answers wait (C6).

import { errorOf } from "./inbox.ts";
import type { Leader, View } from "./interface.ts";
import type { Leases } from "./leases.ts";
import type { Ledger } from "./ledger.ts";
import type { Memory } from "./memory.ts";
import type { NodeClocks } from "./nodes.ts";
import { leaseOf } from "./renewals.ts";
import type { Condition, Surroundings } from "./surroundings.ts";

export interface Reads {
  /** The state as it is now, with all that a batch in flight has changed. */
  view(atMs: number): View;
  readonly read: Leader["read"];
  /** The disk has more than before, or memory is another one, or will never be looked at again. */
  serve(): void;
}

/** What a look has found, before it may be answered. */
interface Look {
  readonly memory: Memory;
  /** Where memory stood. */
  readonly seq: number;
  readonly again: () => void;
  readonly settle: () => void;
  readonly reject: (error: Error) => void;
}

/** The state in memory. Only a leader knows the leases; for a follower there are none. */
export function viewOf(memory: Memory, atMs: number): View {
  const { state, numbers, ids, attempts, poolSeqs, baseSeq, history } = memory;
  return {
    state,
    nowMs: atMs,
    seq: state.seq,
    numberOf: (id) => numbers.get(id),
    idOf: (number) => ids.get(number),
    poolSeqOf: (pool) => poolSeqs.get(pool) ?? baseSeq,
    attemptsOf: (id) => attempts.get(id) ?? [],
    attempted: () => attempts.keys(),
    history,
    leaseExpiresAtMs: () => undefined,
    leaseOf: () => undefined,
    nodeHeardAtMs: () => undefined,
  };
}

export function createReads(
  { nowMs }: Pick<Surroundings, "nowMs">,
  parts: {
    readonly ledger: Ledger;
    readonly leases: Leases;
    readonly nodes: NodeClocks;
    readonly condition: () => Condition;
    readonly mayAnswer: () => boolean;
  },
): Reads {
  const { ledger, leases, nodes, condition, mayAnswer } = parts;
  /** In the order of their looks. */
  let waiting: Look[] = [];

  function view(atMs: number): View {
    const { state } = ledger.memory;
    return {
      ...viewOf(ledger.memory, atMs),
      // A batch goes on while its view is in use.
      get seq() {
        return state.seq;
      },
      leaseExpiresAtMs(id) {
        const wanted = leaseOf(state, id);
        if (wanted === null) return undefined;
        const lease = leases.stateOf(id);
        return lease?.token === wanted.token ? lease.expiresAtMs : atMs + wanted.terms.leaseMs;
      },
      leaseOf: leases.stateOf,
      nodeHeardAtMs: nodes.heardAtMs,
    };
  }

  function read<T>(look: (view: View) => T): Promise<T> {
    return new Promise((resolve, reject) => {
      const again = () => {
        const now = condition();
        if (now.kind === "stopped") return reject(errorOf(now.code));
        const { memory } = ledger;
        const seen = { memory, seq: memory.state.seq, again, reject };
        try {
          const found = look(view(nowMs()));
          answer({ ...seen, settle: () => resolve(found) });
        } catch (error) {
          answer({ ...seen, settle: () => reject(error) });
        }
      };
      again();
    });
  }

  function answer(look: Look): void {
    const now = condition();
    if (now.kind === "stopped") look.reject(errorOf(now.code));
    else if (look.memory !== ledger.memory) look.again();
    else if (look.seq > ledger.head.seq || !mayAnswer()) waiting.push(look);
    else look.settle();
  }

  return {
    view,
    read,
    serve() {
      const looks = waiting;
      waiting = [];
      for (const look of looks) answer(look);
    },
  };
}
