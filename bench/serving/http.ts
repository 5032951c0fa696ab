// A lean HTTP client for measurements: one connection, one call at a time, no more work than needed.

import { connect, type Socket } from "node:net";

interface Answer {
  readonly status: number;
  readonly body: string;
}

export interface Connection {
  get(path: string): Promise<Answer>;
  post(path: string, body: string): Promise<Answer>;
  close(): void;
}

export async function openConnection(url: string, token: string): Promise<Connection> {
  const { hostname, port } = new URL(url);
  let socket: Socket;
  let settle: ((answer: Answer) => void) | undefined;
  let fail: ((error: Error) => void) | undefined;
  let received: Buffer = Buffer.alloc(0);
  let isClosing = false;

  const open = () =>
    new Promise<void>((resolve, reject) => {
      socket = connect({ host: hostname, port: Number(port), noDelay: true }, resolve);
      socket.on("error", (error) => {
        reject(error);
        fail?.(error);
      });
      socket.on("data", take);
    });

  const take = (chunk: Buffer) => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
    const headEnd = received.indexOf("\r\n\r\n");
    if (headEnd < 0) return;
    const head = received.toString("latin1", 0, headEnd);
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
    if (received.length < headEnd + 4 + length) return;
    const body = received.toString("utf8", headEnd + 4, headEnd + 4 + length);
    received = Buffer.alloc(0);
    isClosing = /\r\nconnection: close/i.test(head);
    settle?.({ status: Number(head.slice(9, 12)), body });
  };

  const send = async (method: string, path: string, body: string): Promise<Answer> => {
    if (isClosing) {
      socket.destroy();
      isClosing = false;
      await open();
    }
    return new Promise((resolve, reject) => {
      settle = resolve;
      fail = reject;
      socket.write(
        `${method} ${path} HTTP/1.1\r\nhost: ${hostname}:${port}\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
      );
    });
  };

  await open();
  return {
    get: (path) => send("GET", path, ""),
    post: (path, body) => send("POST", path, body),
    close: () => void socket.destroy(),
  };
}

/** Makes or replaces an object, before a measurement. */
export async function put(url: string, token: string, path: string, body: object): Promise<void> {
  const answer = await fetch(url + path, {
    method: "PUT",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`);
}
