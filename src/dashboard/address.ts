// The address of the page: which view is open, and every filter, sort and open row of it (B12). Works below any path prefix.

import { computed, signal } from "@preact/signals";

/** Scripts lie one level below the prefix; "" without one. */
export const prefix = new URL("..", import.meta.url).pathname.replace(/\/$/, "");

const read = () => ({
  path: location.pathname.slice(prefix.length) || "/",
  query: new URLSearchParams(location.search),
});

export const address = signal(read());
export const path = computed(() => address.value.path);

addEventListener("popstate", () => {
  address.value = read();
});

export type Query = Readonly<Record<string, string | number | undefined>>;

/** A view with its filters, such as `/queue?pool=local`. Fields without a value are left out. */
export function hrefOf(view: string, query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") search.set(name, String(value));
  }
  return `${prefix}${view}${search.size === 0 ? "" : `?${search}`}`;
}

export function go(href: string): void {
  history.pushState(null, "", href);
  address.value = read();
  scrollTo(0, 0);
}

export function queryOf(name: string): string | undefined {
  return address.value.query.get(name) ?? undefined;
}

/** Changes filters of the view that is open. Going back leaves the view, not the last filter. */
export function setQuery(changes: Query): void {
  const { path: view, query } = address.value;
  history.replaceState(null, "", hrefOf(view, { ...Object.fromEntries(query), ...changes }));
  address.value = read();
}

/** Links within the page do not load it anew. */
export function followLinks(event: MouseEvent): void {
  const link = (event.target as Element).closest<HTMLAnchorElement>("a[href]");
  const isPlain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
  if (link === null || !isPlain || link.target !== "" || link.hasAttribute("download")) return;
  if (link.origin !== location.origin || !link.pathname.startsWith(`${prefix}/`)) return;
  event.preventDefault();
  go(link.href);
}
