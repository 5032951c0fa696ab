// What one would type for what is on the screen (B12): each view says it, the frame offers it, `c` copies it.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { announce } from "./announce.ts";

export const command = signal("berth top");
/** The command that was just copied, for a moment. */
export const copied = signal<string | undefined>(undefined);

const SHOWN_MS = 2_000;
let timer: ReturnType<typeof setTimeout> | undefined;

export function useCommand(text: string): void {
  useEffect(() => {
    command.value = text;
  }, [text]);
}

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    announce(`Copied: ${text}`);
    copied.value = text;
    clearTimeout(timer);
    timer = setTimeout(() => {
      copied.value = undefined;
    }, SHOWN_MS);
  } catch {
    announce("The browser does not let this page copy.");
  }
}

/** A word as a shell takes it. */
export function shellWord(text: string | number): string {
  return /^[\w@%+=:,./-]+$/.test(String(text)) ? String(text) : `'${String(text).replaceAll("'", "'\\''")}'`;
}

/** A command from its parts; options without a value are left out. */
export function berth(
  words: readonly (string | number)[],
  options: Record<string, string | number | undefined> = {},
): string {
  const given = Object.entries(options).flatMap(([name, value]) =>
    value === undefined || value === "" ? [] : [`--${name}`, shellWord(value)],
  );
  return ["berth", ...words.map(shellWord), ...given].join(" ");
}
