// The keyboard (B13). Views add keys of their own; whoever types into a field is left alone.

import { signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { go, hrefOf } from "./address.ts";
import { command, copy } from "./commands.ts";
import { togglePause } from "./live.ts";

export const VIEWS = [
  { key: "o", path: "/", name: "Overview" },
  { key: "q", path: "/queue", name: "Queue" },
  { key: "t", path: "/timeline", name: "Timeline" },
  { key: "s", path: "/shares", name: "Shares" },
  { key: "p", path: "/policies", name: "Policies" },
] as const;

/** In words, for the table of all keys. */
export const KEYS: readonly (readonly [string, string])[] = [
  ["/", "find a request by name or number"],
  ...VIEWS.map(({ key, name }) => [`g ${key}`, `go to ${name}`] as const),
  ["j  k", "next row, previous row"],
  ["Enter", "open the row"],
  ["Esc", "close what is open"],
  ["w", "why: the explanation of the row"],
  ["c", "copy as command"],
  ["x", "cancel the request of the row (asks first)"],
  ["+  -  0", "in the timeline: nearer, farther, all"],
  [".", "pause, and go on"],
  ["?", "these keys"],
];

type Handlers = Readonly<Record<string, () => void>>;

export const areKeysShown = signal(false);
const layers: Handlers[] = [];
let isGoing = false;

/** Keys of a view, for as long as it is there; changed together with what it shows, so that no key meets the handlers of a list that was not loaded yet. */
export function useKeys(handlers: Handlers): void {
  useLayoutEffect(() => {
    layers.push(handlers);
    return () => {
      layers.splice(layers.indexOf(handlers), 1);
    };
  });
}

export function onKey(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  const isTyping = target.matches("input, textarea, select") || target.isContentEditable;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping) {
    if (event.key === "Escape") target.blur();
    return;
  }
  if (document.querySelector("dialog[open]") !== null) return; // A dialog has the keyboard to itself.
  if (event.key === "Enter" && target.matches("a, button, summary")) return;
  const handler = isGoing ? goTo(event.key) : handlerOf(event.key);
  isGoing = !isGoing && event.key === "g";
  if (handler === undefined) return;
  event.preventDefault();
  handler();
}

function handlerOf(key: string): (() => void) | undefined {
  return layers.toReversed().find((layer) => layer[key] !== undefined)?.[key] ?? frameKeys[key];
}

const frameKeys: Handlers = {
  "/": () => document.querySelector<HTMLInputElement>("#find")?.focus(),
  "?": () => {
    areKeysShown.value = true;
  },
  ".": togglePause,
  c: () => void copy(command.value),
};

function goTo(key: string): (() => void) | undefined {
  const view = VIEWS.find((one) => one.key === key);
  return view && (() => go(hrefOf(view.path)));
}
