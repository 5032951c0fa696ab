// Share trees as scenario files write them (`kind: shares`), and their translation for the engine.

import type {
  SnapshotElement as EngineElement,
  ShareInput,
  SnapshotGroup,
} from "../../src/engine/disciplines/fair_share/snapshot.ts";

export type Amounts = Readonly<Record<string, number>>;

export interface ShareSnapshot {
  readonly total: Amounts;
  readonly main_key: string;
  readonly tree: SnapshotElement;
}

export interface SnapshotElement {
  readonly name: string;
  readonly type: "group" | "operation";
  readonly mode?: "fair_share" | "fifo";
  readonly weight?: number;
  readonly reserved?: Amounts;
  readonly limit?: Amounts;
  readonly gang?: boolean;
  /** Place by submission; without it the order in the file counts. */
  readonly order?: number;
  readonly demand?: Amounts;
  readonly usage?: Amounts;
  readonly children?: readonly SnapshotElement[];
}

export function toShareInput({ total, main_key, tree }: ShareSnapshot): ShareInput {
  const keys = Object.keys(total);
  const units = (amounts: Amounts = {}) => keys.map((key) => amounts[key] ?? 0);
  const given = (amounts: Amounts) => keys.map((key) => amounts[key]);
  let order = 0;

  const toElement = (element: SnapshotElement): EngineElement => {
    const { name, weight, reserved, limit } = element;
    const fields = {
      name,
      ...(weight !== undefined && { weight }),
      ...(reserved && { reserved: given(reserved) }),
      ...(limit && { limit: given(limit) }),
    };
    if (element.type === "group") {
      const members = (element.children ?? []).map(toElement);
      return { ...fields, kind: "group", mode: element.mode ?? "fair_share", members };
    }
    return {
      ...fields,
      kind: "operation",
      isGang: element.gang ?? false,
      demand: units(element.demand),
      usage: units(element.usage),
      order: order++,
    };
  };
  return { total: units(total), mainKey: keys.indexOf(main_key), root: toElement(tree) as SnapshotGroup };
}
