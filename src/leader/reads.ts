// Looks at the committed state.
//
// Invariants
//   1. Nobody outside sees an event before it is durable: while memory is ahead of the disk, reads wait.
//   2. A server that has stopped answers nothing from memory; while it does not know that it still leads, reads wait (C6).

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
  /** Memory is what the disk has, or will never be again: all that wait get an answer. */
  serve(): void;
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
  const waiting: (() => void)[] = [];

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
      const serve = () => {
        const now = condition();
        if (now.kind === "stopped") return reject(errorOf(now.code));
        if (!mayAnswer()) return void waiting.push(serve);
        try {
          resolve(look(view(nowMs())));
        } catch (error) {
          reject(error);
        }
      };
      if (ledger.isAhead && condition().kind !== "stopped") waiting.push(serve);
      else serve();
    });
  }

  return {
    view,
    read,
    serve() {
      for (const serve of waiting.splice(0)) serve();
    },
  };
}
