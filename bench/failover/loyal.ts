// A client that stays with one server, whatever happens to it: it sends call after call on one connection without
// waiting for answers. A server that is frozen therefore finds calls when it thaws that were sent while another led.

import { connect, type Socket } from "node:net";
import { type Answer, toAnswer, type Witness } from "./calls.ts";
import type { Replica } from "./cluster.ts";

export interface Question {
  readonly what: string;
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: unknown;
  /** Looks at the answer; what was known when it was asked is in its closure. */
  readonly judge: (answer: Answer) => void;
}

export interface LoyalClient {
  readonly answers: number;
  stop(): void;
}

interface Asked {
  readonly sentMs: number;
  readonly hear: (answer: Answer) => void;
}

export function startLoyalClient(
  { name, url }: Replica,
  options: {
    readonly token: string;
    readonly witness: Witness;
    readonly everyMs: number;
    /** The next question; undefined: there is nothing to ask yet. */
    readonly next: () => Question | undefined;
  },
): LoyalClient {
  const { token, witness, everyMs, next } = options;
  const { port, host } = new URL(url);
  let socket: Socket | undefined;
  let asked: Asked[] = [];
  let received: Buffer = Buffer.alloc(0);
  let answers = 0;

  function open(): Socket {
    const opened = connect({ host: "127.0.0.1", port: Number(port), noDelay: true });
    asked = [];
    received = Buffer.alloc(0);
    opened.on("data", (bytes) => {
      if (opened !== socket) return;
      received = Buffer.concat([received, bytes]);
      while (takeAnswer()) answers++;
    });
    const forget = () => {
      if (opened === socket) socket = undefined;
      opened.destroy();
    };
    opened.on("error", forget);
    opened.on("close", forget);
    opened.on("end", forget);
    return opened;
  }

  /** True if a whole answer had arrived. */
  function takeAnswer(): boolean {
    const headEnd = received.indexOf("\r\n\r\n");
    if (headEnd < 0) return false;
    const lines = received.toString("latin1", 0, headEnd).split("\r\n");
    const headers = Object.fromEntries(
      lines.slice(1).map((line) => {
        const colon = line.indexOf(":");
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
      }),
    ) as Record<string, string>;
    const end = headEnd + 4 + Number(headers["content-length"] ?? 0);
    if (received.length < end) return false;
    const body = received.subarray(headEnd + 4, end);
    received = received.subarray(end);
    const oldest = asked.shift();
    if (oldest === undefined) throw new Error(`${name} answered what nobody had asked`);
    oldest.hear(toAnswer(Number(lines[0]?.slice(9, 12)), headers, body, oldest.sentMs));
    if (headers.connection === "close") socket?.destroy();
    return true;
  }

  function ask({ what, method, path, body, judge }: Question): void {
    socket ??= open();
    const text = body === undefined ? "" : JSON.stringify(body);
    const arrived = witness.watch(`${what} at ${name}`);
    asked.push({
      sentMs: performance.now(),
      hear(answer) {
        arrived(answer);
        judge(answer);
      },
    });
    socket.write(
      `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${token}\r\n` +
        `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
    );
  }

  const timer = setInterval(() => {
    const question = next();
    if (question !== undefined) ask(question);
  }, everyMs);
  return {
    get answers() {
      return answers;
    },
    stop() {
      clearInterval(timer);
      socket?.destroy();
    },
  };
}
