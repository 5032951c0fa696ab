// What was accepted but looks like a slip is said, and does not get in the way of what is read by programs.

import type { CliContext } from "../context.ts";
import { printable } from "./text.ts";

export function tellWarnings(
  { warnings = [] }: { readonly warnings?: readonly string[] | undefined },
  context: CliContext,
): void {
  for (const warning of warnings) context.tell(`${printable(`berth: ${warning}`)}\n`);
}
