// A table of any length: only the rows on the screen exist (B6). One of them may be open, and is then taller.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

const ROW_HEIGHT = 40;
const BEYOND = 8;

export interface Rows {
  readonly count: number;
  readonly label: string;
  readonly columns: readonly { readonly name: string; readonly isNumber?: boolean }[];
  /** The row that the keyboard is on. */
  readonly current: number;
  readonly openAt: number | undefined;
  readonly row: (at: number) => ComponentChildren;
  readonly opened: () => ComponentChildren;
  readonly onPick: (at: number) => void;
  /** Which rows are on the screen, so that they can be loaded. */
  readonly onShown: (from: number, to: number) => void;
}

export function VirtualRows(rows: Rows) {
  const { count, label, columns, current, openAt, onShown } = rows;
  const box = useRef<HTMLDivElement>(null);
  const panel = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(800);
  const [openHeight, setOpenHeight] = useState(0);
  const extra = openAt === undefined ? 0 : openHeight;
  const place = (at: number) => at * ROW_HEIGHT + (openAt !== undefined && at > openAt ? extra : 0);

  useEffect(() => {
    const element = box.current as HTMLDivElement;
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    const element = panel.current;
    if (element === null) return setOpenHeight(0);
    const observer = new ResizeObserver(() => setOpenHeight(element.offsetHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, [openAt]);
  useEffect(() => {
    const element = box.current as HTMLDivElement;
    const at = place(current);
    const head = ROW_HEIGHT;
    if (at < element.scrollTop) element.scrollTop = at;
    else if (at + ROW_HEIGHT > element.scrollTop + element.clientHeight - head)
      element.scrollTop = at + ROW_HEIGHT - element.clientHeight + head;
    if (element.contains(document.activeElement)) {
      element.querySelector<HTMLElement>(`[data-at="${current}"]`)?.focus({ preventScroll: true });
    }
  }, [current]);

  const from = Math.max(0, Math.floor((top - extra) / ROW_HEIGHT) - BEYOND);
  const to = Math.min(count, Math.ceil((top + height) / ROW_HEIGHT) + BEYOND);
  useEffect(() => onShown(from, to), [from, to, count]);

  return (
    <div
      ref={box}
      class="rows"
      role="treegrid"
      tabIndex={-1}
      aria-label={label}
      aria-rowcount={count + 1}
      aria-colcount={columns.length}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
    >
      <Head columns={columns} />
      <div class="rows-body" role="presentation" style={{ height: `${count * ROW_HEIGHT + extra}px` }}>
        {Array.from({ length: Math.max(0, to - from) }, (_, index) => (
          <Row key={from + index} at={from + index} y={place(from + index)} rows={rows} />
        ))}
        {openAt !== undefined && openAt < count && (
          // biome-ignore lint/a11y/useSemanticElements: as above.
          <div
            class="row-open"
            role="row"
            tabIndex={-1}
            aria-rowindex={openAt + 2}
            style={{ transform: `translateY(${place(openAt) + ROW_HEIGHT}px)` }}
          >
            {/* biome-ignore lint/a11y/useSemanticElements: as above. */}
            <div ref={panel} role="gridcell" tabIndex={-1} aria-colspan={columns.length}>
              {rows.opened()}
            </div>
          </div>
        )}
      </div>
    </div>
  );
}

function Head({ columns }: Pick<Rows, "columns">) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: a table element cannot leave out rows.
    // biome-ignore lint/a11y/useFocusableInteractive: the head of the table is not for the keyboard.
    <div class="row head" role="row" aria-rowindex={1}>
      {columns.map(({ name, isNumber }) => (
        // biome-ignore lint/a11y/useSemanticElements: as above.
        // biome-ignore lint/a11y/useFocusableInteractive: as above.
        <span key={name} role="columnheader" class={isNumber ? "number" : ""}>
          {name}
        </span>
      ))}
    </div>
  );
}

function Row({ at, y, rows }: { at: number; y: number; rows: Rows }) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: a table element cannot leave out rows.
    // biome-ignore lint/a11y/useKeyWithClickEvents: Enter is handled by the frame's keys.
    <div
      class={at === rows.openAt ? "row is-open" : "row"}
      role="row"
      data-at={at}
      tabIndex={at === rows.current ? 0 : -1}
      aria-rowindex={at + 2}
      aria-expanded={at === rows.openAt}
      onClick={() => rows.onPick(at)}
      style={{ transform: `translateY(${y}px)` }}
    >
      {rows.row(at)}
    </div>
  );
}

export function Cell({ isNumber = false, children }: { isNumber?: boolean; children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: a table element cannot leave out rows.
    // biome-ignore lint/a11y/useFocusableInteractive: the row has the focus.
    <span role="gridcell" class={isNumber ? "number" : ""}>
      {children}
    </span>
  );
}
