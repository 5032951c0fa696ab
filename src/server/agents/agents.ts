// What the server knows of agents and adapters beside the journal: what each last said, who waits for instructions, and
// signals on their way. All of it is memory: they say everything again in their next sync, to the leader of that time.

import type { RequestId } from "../../engine/index.ts";
import type { CommittedBatch, Leader } from "../../leader/index.ts";
import type { WireNodeSync, WirePoolSync, WireRunningPart } from "../../protocol/index.ts";
import type { Grants } from "../grants.ts";
import { type Adopted, createAdopted } from "./adopted.ts";
import { createReaders, type Readers } from "./readers.ts";
import { poolKey } from "./reporters.ts";

export type Sync = WireNodeSync | WirePoolSync;

/** Those who speak are named by their keys (`reporters.ts`): that of a node is its name. */
export interface Agents {
  /** What it last said. */
  reportOf(reporter: string): Sync | undefined;
  /** When it last said something, by the clock of this process. */
  heardAtMs(reporter: string): number | undefined;
  /** What it last said about one attempt. */
  partOf(reporter: string, requestId: string, token: string): WireRunningPart | undefined;
  keepReport(reporter: string, sync: Sync): void;
  /** These run the request: what happens to it is news for them. */
  notePlaces(requestId: RequestId, reporters: readonly string[]): void;
  /** Resolves when there is news for it, when the time is over, or when the caller is gone. */
  nextNews(reporter: string, ms: number, signal: AbortSignal): Promise<void>;
  /** Resolves with whether it was delivered in time. */
  sendSignal(order: SignalOrder, ms: number): Promise<boolean>;
  signalsFor(requestId: string, token: string): readonly { readonly id: number; readonly signal: string }[];
  readonly readers: Readers;
  readonly adopted: Adopted;
  close(): void;
}

export interface SignalOrder {
  readonly requestId: string;
  readonly token: string;
  readonly reporters: readonly string[];
  readonly signal: string;
}

interface SignalOnItsWay extends SignalOrder {
  readonly id: number;
  readonly open: Set<string>;
  settle(delivered: boolean): void;
}

/** Signals of one leader have other numbers than those of the one before. */
const SIGNALS_PER_EPOCH = 1_000_000;

export function createAgents(leader: Leader, grants: Grants): Agents {
  const reports = new Map<string, { readonly sync: Sync; readonly atMs: number }>();
  const places = new Map<RequestId, readonly string[]>();
  const waiting = new Map<string, Set<() => void>>();
  const signals = new Set<SignalOnItsWay>();
  let signalCount = 0;

  const wake = (reporter: string) => {
    for (const proceed of [...(waiting.get(reporter) ?? [])]) proceed();
  };
  const readers = createReaders(wake);

  const stop = leader.onCommit(({ events }: CommittedBatch) => {
    const touched = new Set<string>();
    for (const { event } of events) {
      if (event.kind === "requestAllocated") {
        const nodes = event.placement.map(({ node }) => node as string);
        const adapter = event.pool === null ? [] : [poolKey(event.pool)];
        places.set(event.requestId, [...nodes, ...adapter]);
      } else if (event.kind === "nodeStateChanged") touched.add(event.name);
      for (const id of idsIn(event)) for (const node of places.get(id) ?? []) touched.add(node);
      if (event.kind === "attemptEnded") places.delete(event.requestId);
    }
    for (const node of touched) wake(node);
  });

  return {
    reportOf: (reporter) => reports.get(reporter)?.sync,
    heardAtMs: (reporter) => reports.get(reporter)?.atMs,
    partOf: (reporter, requestId, token) =>
      reports.get(reporter)?.sync.jobs.find((part) => part.request_id === requestId && part.token === token),
    keepReport(reporter, sync) {
      reports.set(reporter, { sync, atMs: performance.now() });
      for (const signal of signals) {
        const part = sync.jobs.find(({ token }) => token === signal.token);
        if (part?.signals?.includes(signal.id)) signal.open.delete(reporter);
        if (part?.phase === "ended") signal.open.delete(reporter);
        if (signal.open.size === 0) signal.settle(true);
      }
    },
    notePlaces: (requestId, reporters) => void places.set(requestId, reporters),
    nextNews(reporter, ms, signal) {
      if (signal.aborted) return Promise.resolve();
      return new Promise((resolve) => {
        const mine = waiting.get(reporter) ?? new Set();
        const proceed = () => {
          if (!mine.delete(proceed)) return;
          if (mine.size === 0) waiting.delete(reporter);
          clearTimeout(timer);
          signal.removeEventListener("abort", proceed);
          resolve();
        };
        const timer = setTimeout(proceed, ms);
        signal.addEventListener("abort", proceed);
        waiting.set(reporter, mine.add(proceed));
      });
    },
    sendSignal(order, ms) {
      signalCount += 1;
      const id = leader.status().epoch * SIGNALS_PER_EPOCH + signalCount;
      return new Promise((resolve) => {
        const timer = setTimeout(() => signal.settle(false), ms);
        const signal: SignalOnItsWay = {
          ...order,
          id,
          open: new Set(order.reporters),
          settle(delivered) {
            clearTimeout(timer);
            signals.delete(signal);
            resolve(delivered);
          },
        };
        signals.add(signal);
        for (const reporter of order.reporters) wake(reporter);
      });
    },
    signalsFor: (requestId, token) =>
      [...signals]
        .filter((order) => order.requestId === requestId && order.token === token)
        .map(({ id, signal }) => ({ id, signal })),
    readers,
    adopted: createAdopted(grants),
    close() {
      stop();
      for (const signal of [...signals]) signal.settle(false);
      readers.close();
      for (const node of [...waiting.keys()]) wake(node);
    },
  };
}

function idsIn(event: CommittedBatch["events"][number]["event"]): readonly RequestId[] {
  if (event.kind === "preemptionDecided") return event.victims.map(({ requestId }) => requestId);
  return "requestId" in event ? [event.requestId] : [];
}
