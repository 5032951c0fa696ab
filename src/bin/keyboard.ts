// What people type, and what is piped in.

import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";

export async function ask(question: string, { isSecret = false } = {}): Promise<string> {
  // Of a secret nothing is shown, not even its length.
  const output = isSecret ? new Writable({ write: (_chunk, _encoding, done) => done() }) : process.stderr;
  const lines = createInterface({ input: process.stdin, output, terminal: true });
  // Asked after the terminal has stopped its echo: who types at once is not shown either.
  if (isSecret) process.stderr.write(question);
  try {
    const interrupted = new Promise<never>((_, reject) => {
      lines.once("SIGINT", () => reject(new Error("interrupted")));
      lines.once("close", () => reject(new Error("closed")));
    });
    return (await Promise.race([lines.question(isSecret ? "" : question), interrupted])).trim();
  } catch {
    return ""; // Ctrl-C and Ctrl-D say no.
  } finally {
    lines.close();
    if (isSecret) process.stderr.write("\n");
  }
}

export async function readAll(): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}
