// What an agent makes of an attempt that an earlier process of it has ordered (E4, E5). Pure.

/** What an agent finds of an attempt that an earlier one has ordered. */
export interface Found {
  readonly hasEnd: boolean;
  /** Of the machine, when it was ordered. */
  readonly bootId: string;
  /** `none`: no shim has ever taken it up. */
  readonly shim: "none" | "alive" | "dead";
}

export type Finding =
  /** Its end is written down. */
  | "ended"
  /** The machine was restarted since. */
  | "lost"
  /** No shim has taken it up, and only one ever can: it is started. */
  | "start"
  | "adopt"
  /** Its shim died, and it with its shim: what is left of it is ended. */
  | "bury";

export function judge({ hasEnd, bootId, shim }: Found, currentBootId: string): Finding {
  if (hasEnd) return "ended";
  if (bootId !== currentBootId) return "lost";
  return ({ none: "start", alive: "adopt", dead: "bury" } as const)[shim];
}
