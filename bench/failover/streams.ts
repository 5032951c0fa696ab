// Readers of the event stream that go on at another server with the id of the last message, whenever theirs breaks or
// falls silent. What each of them saw must be the journal: no gap, no repetition, nothing that was not committed.

import { get } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import type { Cluster, Replica } from "./cluster.ts";

export interface Message {
  readonly seq: number;
  readonly event: string;
}

/** A server could not go on from where the reader was: from now on the reader sees what comes after this event. */
export interface Reset {
  readonly seq: number;
  /** How many messages the reader had seen by then. */
  readonly after: number;
}

export interface Reader {
  readonly name: string;
  readonly messages: readonly Message[];
  readonly resets: readonly Reset[];
  readonly connections: number;
  readonly lastSeq: number;
  stop(): Promise<void>;
}

/** There is always something going on, unless the server or the way to it is gone. */
const SILENCE_MS = 3_000;

export function startReader(name: string, { replicas, token }: Cluster, random: () => number): Reader {
  const messages: Message[] = [];
  let lastId = "0";
  const resets: Reset[] = [];
  let connections = 0;
  let isStopped = false;
  let hangUp = () => {};

  function take(block: string): void {
    const fields = new Map(
      block.split("\n").map((line) => {
        const colon = line.indexOf(": ");
        return [line.slice(0, colon), line.slice(colon + 2)] as const;
      }),
    );
    const [event, id, data] = [fields.get("event"), fields.get("id"), fields.get("data")];
    if (event === undefined || id === undefined || data === undefined) return; // A comment.
    lastId = id;
    const { seq } = JSON.parse(data) as { seq: number };
    if (event === "stream.reset") resets.push({ seq, after: messages.length });
    if (!event.startsWith("stream.")) messages.push({ seq, event });
  }

  /** Resolves when the connection is over. */
  function readAt({ url }: Replica): Promise<void> {
    return new Promise((resolve) => {
      const headers = { authorization: `Bearer ${token}`, "last-event-id": lastId };
      const asked = get(`${url}/v1/events`, { headers, agent: false, timeout: SILENCE_MS });
      hangUp = () => asked.destroy();
      asked.on("timeout", () => asked.destroy());
      asked.on("error", () => resolve());
      asked.on("close", () => resolve());
      asked.on("response", (response) => {
        if (response.statusCode === 200) connections++;
        let text = "";
        response.setEncoding("utf8").on("data", (part: string) => {
          if (response.statusCode !== 200) return;
          text += part;
          const blocks = text.split("\n\n");
          text = blocks.pop() ?? "";
          for (const block of blocks) take(block);
        });
        response.on("error", () => undefined);
      });
    });
  }

  async function live(): Promise<void> {
    for (let at = Math.floor(random() * replicas.length); !isStopped; at++) {
      await readAt(replicas[at % replicas.length]!);
      await delay(20 + random() * 80);
    }
  }

  const running = live();
  return {
    name,
    messages,
    resets,
    get connections() {
      return connections;
    },
    get lastSeq() {
      return messages.at(-1)?.seq ?? 0;
    },
    async stop() {
      isStopped = true;
      hangUp();
      await running;
    },
  };
}
