// What `berth run` says on stderr: one line that changes in place on a terminal, one line per change in a log.

import type { WireRequest } from "../../protocol/index.ts";

export interface Talk {
  /** Replaces the line before it on a terminal, and is left out of a log if it says the same again. */
  status(text: string): void;
  /** A line that stays. */
  say(text: string): void;
  /** Takes the changing line away, so that others can write. */
  clear(): void;
}

export interface Screen {
  readonly write: (text: string) => void;
  readonly isTerminal: boolean;
  readonly columns: () => number;
}

const CLEAR_LINE = "\r\u001b[2K";

export function createTalk({ write, isTerminal, columns }: Screen): Talk {
  let shown = "";
  const clear = () => {
    if (isTerminal && shown !== "") write(CLEAR_LINE);
    shown = "";
  };
  return {
    status(text) {
      const line = isTerminal ? shorten(text, columns() - 1) : text;
      if (line === shown) return;
      if (isTerminal) {
        clear();
        write(line);
      } else write(`${line}\n`);
      shown = line;
    },
    say(text) {
      clear();
      write(`${text}\n`);
    },
    clear,
  };
}

export const silentTalk: Talk = { status: () => undefined, say: () => undefined, clear: () => undefined };

/** Such as `#1 train`. */
export function titleOf({ number, name }: WireRequest): string {
  return name === "" ? `#${number}` : `#${number} ${printable(name)}`;
}

/** Such as `gpu 2, mcpu 4000`; the step that every request is goes without saying. */
export function resourcesOf({ resources }: WireRequest): string {
  const asked = Object.entries(resources).filter(([key]) => key !== "step_run");
  return asked.map(([key, amount]) => `${key} ${amount}`).join(", ") || "no resources";
}

/** `41 s`, `5 min`, `3 h 20 min`. */
export function secondsText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Names come from other people, and must not move anyone's cursor. */
export function printable(text: string): string {
  return text.replaceAll(/\p{C}/gu, "·");
}

function shorten(text: string, columns: number): string {
  const characters = [...text];
  return characters.length <= columns || columns < 2 ? text : `${characters.slice(0, columns - 1).join("")}…`;
}
