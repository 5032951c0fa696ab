// Calls to the API server for those who play a part of the cluster. Shares no code with the product.

import { Agent, request } from "node:https";
import { createInterface } from "node:readline";

// biome-ignore lint/suspicious/noExplicitAny: objects of Kubernetes, looked at field by field.
export type Any = any;

export interface Api {
  ask(method: string, path: string, body?: unknown): Promise<{ readonly status: number; readonly body: Any }>;
  /** Repeated until it is answered: the API server may be away. */
  insist(
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ readonly status: number; readonly body: Any }>;
  /** Every change from there on; resolves when the stream ends. */
  watch(path: string, onEvent: (type: string, object: Any) => void, signal: AbortSignal): Promise<void>;
}

const CALL_MS_MAX = 20_000;
const RETRY_MS = 200;

export function createApi(port: number, token: string): Api {
  const agent = new Agent({ keepAlive: true, rejectUnauthorized: false });
  const headers = { authorization: `Bearer ${token}`, accept: "application/json" };
  const open = (method: string, path: string, more: object = {}) =>
    request({ host: "127.0.0.1", port, method, path, agent, headers: { ...headers, ...more } });

  function ask(method: string, path: string, body?: unknown): Promise<{ status: number; body: Any }> {
    return new Promise((resolve, reject) => {
      const kind = method === "PATCH" ? "application/merge-patch+json" : "application/json";
      const text = body === undefined ? "" : JSON.stringify(body);
      // Node says no length of what is sent with DELETE: the server would take it for the beginning of the next call.
      const length = { "content-length": Buffer.byteLength(text) };
      const call = open(method, path, { "content-type": kind, ...length });
      call.setTimeout(CALL_MS_MAX, () => call.destroy(new Error("no answer")));
      call.once("error", reject);
      call.once("response", (answer) => {
        const chunks: Buffer[] = [];
        answer.on("data", (data: Buffer) => chunks.push(data));
        answer.once("error", reject);
        answer.once("end", () => {
          const said = Buffer.concat(chunks).toString();
          resolve({ status: answer.statusCode ?? 0, body: said.startsWith("{") ? JSON.parse(said) : said });
        });
      });
      call.end(text);
    });
  }

  return {
    ask,
    async insist(method, path, body) {
      for (;;) {
        const answer = await ask(method, path, body).catch(() => undefined);
        if (answer !== undefined && answer.status < 500 && answer.status !== 429) return answer;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    },
    watch(path, onEvent, signal) {
      return new Promise((resolve) => {
        const call = open("GET", path);
        const abort = () => call.destroy();
        const settle = () => {
          signal.removeEventListener("abort", abort);
          resolve();
        };
        signal.addEventListener("abort", abort, { once: true });
        call.once("error", settle);
        call.once("response", (answer) => {
          if (answer.statusCode !== 200) {
            answer.resume();
            return settle();
          }
          const lines = createInterface(answer);
          lines.on("line", (line) => {
            const { type, object } = JSON.parse(line);
            onEvent(type, object);
          });
          lines.once("close", settle);
          for (const source of [lines, answer]) source.on("error", settle);
        });
        call.end();
      });
    },
  };
}
