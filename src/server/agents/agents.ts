// What the server knows of agents beside the journal: what each last said, who waits for instructions, and signals on
// their way. All of it is memory: agents say everything again in their next sync, to whoever leads then.

import type { RequestId } from "../../engine/index.ts";
import type { CommittedBatch, Leader } from "../../leader/index.ts";
import type { WireNodeSync, WireRunningPart } from "../../protocol/index.ts";
import { createReaders, type Readers } from "./readers.ts";

export interface Agents {
  /** What the node's agent last said. */
  reportOf(node: string): WireNodeSync | undefined;
  /** What it last said about one attempt. */
  partOf(node: string, requestId: string, token: string): WireRunningPart | undefined;
  keepReport(node: string, sync: WireNodeSync): void;
  /** These nodes run the request: what happens to it is news for them. */
  notePlaces(requestId: RequestId, nodes: readonly string[]): void;
  /** Resolves when there is news for the node, when the time is over, or when the caller is gone. */
  nextNews(node: string, ms: number, signal: AbortSignal): Promise<void>;
  /** Resolves with whether it was delivered in time. */
  sendSignal(order: SignalOrder, ms: number): Promise<boolean>;
  signalsFor(requestId: string, token: string): readonly { readonly id: number; readonly signal: string }[];
  readonly readers: Readers;
  close(): void;
}

export interface SignalOrder {
  readonly requestId: string;
  readonly token: string;
  readonly nodes: readonly string[];
  readonly signal: string;
}

interface SignalOnItsWay extends SignalOrder {
  readonly id: number;
  readonly open: Set<string>;
  settle(delivered: boolean): void;
}

/** Signals of one leader have other numbers than those of the one before. */
const SIGNALS_PER_EPOCH = 1_000_000;

export function createAgents(leader: Leader): Agents {
  const reports = new Map<string, WireNodeSync>();
  const places = new Map<RequestId, readonly string[]>();
  const waiting = new Map<string, Set<() => void>>();
  const signals = new Set<SignalOnItsWay>();
  let signalCount = 0;

  const wake = (node: string) => {
    for (const proceed of [...(waiting.get(node) ?? [])]) proceed();
  };
  const readers = createReaders(wake);

  const stop = leader.onCommit(({ events }: CommittedBatch) => {
    const touched = new Set<string>();
    for (const { event } of events) {
      if (event.kind === "requestAllocated") {
        places.set(
          event.requestId,
          event.placement.map(({ node }) => node),
        );
      } else if (event.kind === "nodeStateChanged") touched.add(event.name);
      for (const id of idsIn(event)) for (const node of places.get(id) ?? []) touched.add(node);
      if (event.kind === "attemptEnded") places.delete(event.requestId);
    }
    for (const node of touched) wake(node);
  });

  return {
    reportOf: (node) => reports.get(node),
    partOf: (node, requestId, token) =>
      reports.get(node)?.jobs.find((part) => part.request_id === requestId && part.token === token),
    keepReport(node, sync) {
      reports.set(node, sync);
      for (const signal of signals) {
        const part = sync.jobs.find(({ token }) => token === signal.token);
        if (part?.signals?.includes(signal.id)) signal.open.delete(node);
        if (part?.phase === "ended") signal.open.delete(node);
        if (signal.open.size === 0) signal.settle(true);
      }
    },
    notePlaces: (requestId, nodes) => void places.set(requestId, nodes),
    nextNews(node, ms, signal) {
      if (signal.aborted) return Promise.resolve();
      return new Promise((resolve) => {
        const mine = waiting.get(node) ?? new Set();
        const proceed = () => {
          if (!mine.delete(proceed)) return;
          if (mine.size === 0) waiting.delete(node);
          clearTimeout(timer);
          signal.removeEventListener("abort", proceed);
          resolve();
        };
        const timer = setTimeout(proceed, ms);
        signal.addEventListener("abort", proceed);
        waiting.set(node, mine.add(proceed));
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
          open: new Set(order.nodes),
          settle(delivered) {
            clearTimeout(timer);
            signals.delete(signal);
            resolve(delivered);
          },
        };
        signals.add(signal);
        for (const node of order.nodes) wake(node);
      });
    },
    signalsFor: (requestId, token) =>
      [...signals]
        .filter((order) => order.requestId === requestId && order.token === token)
        .map(({ id, signal }) => ({ id, signal })),
    readers,
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
