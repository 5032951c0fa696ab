// A cluster of recorded objects: lists, watches and calls are answered as an API server does, and one job of one pod goes
// through the states that a real one went through. Only the versions of objects are this program's own.

import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { kubeconfigFor, type Recorded } from "../recorded/kubernetes-support.ts";

/** What a call sent. */
export interface Asked {
  readonly call: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests read what they expect.
  readonly body: any;
}

export interface PlayedCluster {
  readonly kubeconfig: string;
  readonly asked: readonly Asked[];
  /** The pod goes on to its next recorded state, such as `Running`. */
  reach(phase: string): void;
  /** Ends all connections, as an API server does that ends. */
  cut(): void;
  close(): void;
}

interface Thing {
  readonly metadata: { readonly uid: string; readonly [field: string]: unknown };
  readonly [field: string]: unknown;
}

/** Of a pod that was deleted, and has time left. */
const LEAVING = { deletionTimestamp: "2026-11-17T20:57:19Z", deletionGracePeriodSeconds: 7 };

type Kind = "jobs" | "pods" | "nodes";

interface Change {
  readonly version: number;
  readonly kind: Kind;
  readonly line: string;
}

export async function playCluster(version: string): Promise<PlayedCluster> {
  const file = new URL(`../recorded/kubernetes-${version}.json`, import.meta.url);
  const recorded = JSON.parse(readFileSync(file, "utf8")) as Record<string, Recorded[]>;
  const answerOf = (label: string) => recorded[label]?.[0] as Recorded;
  const objectOf = <T = Thing>(label: string) => JSON.parse(answerOf(label).answer) as T;
  const itemsOf = (label: string) => objectOf<{ readonly items: Thing[] }>(label).items;
  /** Of the pod, from its making to its end. */
  const states = answerOf("watch")
    .answer.split("\n")
    .filter((line) => line !== "")
    .map((line) => (JSON.parse(line) as { readonly object: Thing }).object);

  const things: Record<Kind, Map<string, Thing>> = { jobs: new Map(), pods: new Map(), nodes: new Map() };
  const history: Change[] = [];
  const watchers = new Set<(change: Change) => void>();
  const asked: Asked[] = [];

  function change(kind: Kind, type: "ADDED" | "MODIFIED" | "DELETED", thing: Thing): void {
    const next = history.length + 1;
    const object = { ...thing, metadata: { ...thing.metadata, resourceVersion: String(next) } };
    if (type === "DELETED") things[kind].delete(thing.metadata.uid);
    else things[kind].set(thing.metadata.uid, object);
    history.push({ version: next, kind, line: `${JSON.stringify({ type, object })}\n` });
    for (const tell of watchers) tell(history.at(-1) as Change);
  }

  function watch(kind: Kind, from: number, response: ServerResponse): void {
    const tell = (one: Change) => {
      if (one.kind === kind && one.version > from) response.write(one.line);
    };
    response.writeHead(200, { "content-type": "application/json" }).flushHeaders();
    for (const one of history) tell(one);
    watchers.add(tell);
    response.once("close", () => watchers.delete(tell));
  }

  function list(kind: Kind, response: ServerResponse): void {
    const metadata = { resourceVersion: String(history.length) };
    give(response, { metadata, items: [...things[kind].values()] });
  }

  /** All that there is, and its end when the pod has ended. */
  function log(response: ServerResponse): void {
    response.writeHead(200, { "content-type": "text/plain" }).write(answerOf("log").answer);
    const isOver = () => [...things.pods.values()].every(({ status }) => phaseOf(status) === "Failed");
    const endIfOver = () => void (isOver() && response.end());
    watchers.add(endIfOver);
    response.once("close", () => watchers.delete(endIfOver));
    endIfOver();
  }

  /** What a call changes, and the label of the answer to it. */
  const effects: Record<string, (sent: Thing) => string> = {
    "POST jobs"({ metadata: { annotations } }) {
      if (things.jobs.size > 0) return "make again";
      const job = itemsOf("jobs")[0] as Thing;
      change("jobs", "ADDED", { ...job, metadata: { ...job.metadata, annotations } });
      change("pods", "ADDED", states[0] as Thing);
      return "make";
    },
    "DELETE jobs"() {
      if (things.jobs.size === 0) return "delete what is gone";
      change("jobs", "MODIFIED", objectOf("delete"));
      for (const pod of things.pods.values())
        change("pods", "MODIFIED", { ...pod, metadata: { ...pod.metadata, ...LEAVING } });
      return "delete";
    },
    "DELETE pods": () => "release",
    "PATCH pods"() {
      change("pods", "DELETED", objectOf("release"));
      change("jobs", "DELETED", objectOf("delete"));
      return "release";
    },
  };

  function answer(request: IncomingMessage, sent: Thing, response: ServerResponse): void {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://played");
    const [, kind, name, part] = /\/(jobs|pods|nodes|events)(?:\/([^/]+))?(?:\/(log))?$/.exec(pathname) ?? [];
    if (part === "log") return log(response);
    if (request.method === "GET" && kind === "jobs" && name !== undefined)
      return give(response, [...things.jobs.values()][0]);
    if (request.method === "GET" && kind !== undefined && kind !== "events" && name === undefined) {
      const from = Number(searchParams.get("resourceVersion"));
      return searchParams.has("watch") ? watch(kind as Kind, from, response) : list(kind as Kind, response);
    }
    const label =
      request.method === "GET" ? (kind ?? "version") : effects[`${request.method} ${kind}`]?.(sent);
    const said = answerOf(label ?? "");
    response.writeHead(said?.status ?? 501, { "content-type": "application/json" });
    response.end(said?.answer ?? "{}");
  }

  for (const node of itemsOf("nodes")) change("nodes", "ADDED", node);
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (data: Buffer) => {
      text += data.toString();
    });
    request.once("end", () => {
      const body = text === "" ? undefined : JSON.parse(text);
      asked.push({ call: `${request.method} ${request.url}`, body });
      answer(request, body, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const config = kubeconfigFor((server.address() as AddressInfo).port);
  return {
    kubeconfig: config.path,
    asked,
    reach(phase) {
      const { metadata, ...rest } = states.findLast(({ status }) => phaseOf(status) === phase) as Thing;
      const isLeaving = things.pods.get(metadata.uid)?.metadata.deletionTimestamp !== undefined;
      change("pods", "MODIFIED", { ...rest, metadata: { ...metadata, ...(isLeaving && LEAVING) } });
    },
    cut: () => server.closeAllConnections(),
    close() {
      server.closeAllConnections();
      server.close();
      config.remove();
    },
  };
}

function give(response: ServerResponse, object: unknown): void {
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(object));
}

function phaseOf(status: unknown): string | undefined {
  return (status as { readonly phase?: string } | undefined)?.phase;
}
