// The room that a waiter sees: what is free now, what will be when all has ended that is stopping, and both less
// what was promised to others (V5).

import type { Placement } from "../records.ts";
import type { Node, Pool } from "../state.ts";
import { type Ask, Room } from "./room.ts";

export class Rooms {
  readonly #now: Room;
  #soon: Room | null;

  constructor(pool: Pool, now = new Room(pool), soon: Room | null = null) {
    this.#now = now;
    this.#soon = soon;
  }

  get now(): Room {
    return this.#now;
  }

  get soon(): Room {
    this.#soon ??= Room.soon(this.#now.pool);
    return this.#soon;
  }

  copy(): Rooms {
    return new Rooms(this.#now.pool, this.#now.copy(), this.soon.copy());
  }

  /**
   * Sets aside what a holder was promised: nodes that are free first, then those that it was told of, then others
   * that are coming free. A promise that is not covered sets aside as much as there is.
   */
  promise(ask: Ask, told: readonly Placement[]): void {
    const { now, soon } = this;
    const free = now.place(ask) ?? now.best(ask);
    const isMissing = (node: Node | undefined): node is Node => node !== undefined && !free.includes(node);
    const coming = [
      ...told
        .map(({ node }) => now.pool.nodes.get(node))
        .filter((node) => isMissing(node))
        .filter((node) => soon.canHold(node, ask)),
      ...soon.best(ask).filter(isMissing),
    ];
    const rest = [...new Set(coming)].slice(0, ask.count - free.length);
    for (const node of [...free, ...rest]) {
      now.add(node, ask.need, -1);
      soon.add(node, ask.need, -1);
    }
  }
}
