// Warnings in words: the same in the answer to a change, in its plan and in the overview.

import type { Warning } from "../engine/index.ts";

export function warningText(warning: Warning): string {
  switch (warning.code) {
    case "reserve_not_reachable": {
      const { pool, key, reserved, capacity } = warning;
      return `Pool ${pool} has ${capacity} ${key}, but its policies reserve ${reserved}.`;
    }
    case "guarantees_scaled": {
      const groups = warning.groups.filter((group) => group !== "");
      const where = groups.length === 0 ? "" : ` below ${groups.join(", ")}`;
      return `Pool ${warning.pool} guarantees more than it has; guarantees are scaled down${where}.`;
    }
    case "runs_shielded": {
      const { pool, count } = warning;
      return `${count} running in pool ${pool} ${count === 1 ? "was" : "were"} preempted too often lately and cannot be preempted now.`;
    }
    case "sensitive_unreserved": {
      const { component, key, isReservedByOthers } = warning;
      return isReservedByOthers
        ? `The sensitive policy of "${component}" reserves no ${key}, which others do: what asks for it will be rejected.`
        : `The sensitive policy of "${component}" reserves no ${key}, and no other policy does: its work may take all of it.`;
    }
    case "gang_without_effect": {
      const named = warning.pools.map(({ name, discipline }) => `"${name}" (${discipline})`).join(", ");
      return (
        `gang has no effect in pool ${named}: requests of one operation start one by one there. ` +
        "Ask for nodes to get several nodes at once."
      );
    }
  }
}
