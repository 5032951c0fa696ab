// What a client knows, in the server's own hand: every answer says how far it reflects the journal, and the client gives
// that back with its next call. A leader that is called by a client that knows more than the journal has learns that the
// database has lost something (C14). Signed, since anybody can write a number.

import { createHmac, timingSafeEqual } from "node:crypto";
import type { Replica } from "../replica/index.ts";
import type { Positions } from "./positions.ts";

export interface Proofs {
  /** For the header Berth-Position: history, epoch, event, signature. */
  current(): string;
  /** What a client knows of this history; undefined: nothing, or it is not from us. */
  parse(text: unknown): { readonly epoch: number; readonly seq: number } | undefined;
}

const PROOF = /^(\d{5})\.(\d{1,15})\.(\d{1,15})\.[\w-]{22}$/;

export function createProofs(replica: Replica, positions: Positions): Proofs {
  let last = { history: -1, epoch: -1, seq: -1, proof: "" };
  const sealed = (text: string) => {
    const secret = replica.grantKeys.at(-1)?.secret ?? "";
    const mac = createHmac("sha256", secret).update(`position ${text}`).digest("base64url").slice(0, 22);
    return `${text}.${mac}`;
  };
  return {
    current() {
      const [history, epoch, seq] = [positions.history(), replica.epoch(), replica.seq()];
      if (seq !== last.seq || epoch !== last.epoch || history !== last.history) {
        last = { history, epoch, seq, proof: sealed(`${history}.${epoch}.${seq}`) };
      }
      return last.proof;
    },
    parse(given) {
      const [, history, epoch, seq] = typeof given === "string" ? (PROOF.exec(given) ?? []) : [];
      if (history === undefined || Number(history) !== positions.history()) return undefined;
      const [wanted, found] = [
        Buffer.from(sealed(`${history}.${epoch}.${seq}`)),
        Buffer.from(given as string),
      ];
      if (wanted.length !== found.length || !timingSafeEqual(wanted, found)) return undefined;
      return { epoch: Number(epoch), seq: Number(seq) };
    },
  };
}
