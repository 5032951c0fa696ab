// Which of many routes a method and a path mean: a tree of segments. What is written out goes before what stands for a name.

interface Place<Route> {
  readonly named: Map<string, Place<Route>>;
  /** Where any segment leads that is not named. */
  other: Place<Route> | undefined;
  readonly routes: Map<string, { readonly route: Route; readonly parameters: readonly string[] }>;
}

export interface Match<Route> {
  readonly route: Route;
  readonly params: Record<string, string>;
}

export interface Router<Route> {
  match(method: string, path: string): Match<Route> | undefined;
  /** The methods that a path takes. */
  methodsOf(path: string): string[];
}

/** Parameters of paths are in braces, as in OpenAPI. */
export function createRouter<Route extends { readonly method: string; readonly path: string }>(
  routes: readonly Route[],
): Router<Route> {
  const root = newPlace<Route>();
  for (const route of routes) {
    const parameters: string[] = [];
    let place = root;
    for (const segment of segmentsOf(route.path)) {
      if (segment.startsWith("{")) parameters.push(segment.slice(1, -1));
      place = segment.startsWith("{") ? otherOf(place) : namedOf(place, segment);
    }
    place.routes.set(route.method, { route, parameters });
  }

  return {
    match(method, path) {
      const values: string[] = [];
      const found = placesOf(root, segmentsOf(path), 0, values, ({ routes }) => routes.get(method));
      if (found === undefined) return undefined;
      const params: Record<string, string> = {};
      for (const [at, name] of found.parameters.entries()) {
        const value = decoded(values[at] as string, decodeURIComponent);
        if (value === undefined) return undefined;
        params[name] = value;
      }
      return { route: found.route, params };
    },
    methodsOf(path) {
      const methods = new Set<string>();
      placesOf(root, segmentsOf(path), 0, [], ({ routes }) => {
        for (const method of routes.keys()) methods.add(method);
      });
      return [...methods];
    },
  };
}

/** The first that is found at a place to which the segments lead. */
function placesOf<Route, Found>(
  place: Place<Route>,
  segments: readonly string[],
  at: number,
  values: string[],
  find: (place: Place<Route>) => Found | undefined,
): Found | undefined {
  const segment = segments[at];
  if (segment === undefined) return find(place);
  const named = place.named.get(segment);
  const found = named && placesOf(named, segments, at + 1, values, find);
  if (found !== undefined || place.other === undefined || segment === "") return found;
  values.push(segment);
  const foundThere = placesOf(place.other, segments, at + 1, values, find);
  if (foundThere === undefined) values.pop();
  return foundThere;
}

function segmentsOf(path: string): string[] {
  return path.split("/");
}

function newPlace<Route>(): Place<Route> {
  return { named: new Map(), other: undefined, routes: new Map() };
}

function otherOf<Route>(place: Place<Route>): Place<Route> {
  place.other ??= newPlace();
  return place.other;
}

function namedOf<Route>({ named }: Place<Route>, segment: string): Place<Route> {
  const place = named.get(segment) ?? newPlace<Route>();
  named.set(segment, place);
  return place;
}

/** The path of an address, decoded but for what would change its segments. */
export function pathOf(url: string): string {
  const end = url.indexOf("?");
  const path = end < 0 ? url : url.slice(0, end);
  return decoded(path, (text) => decodeURI(text.replaceAll("%25", "%2525"))) ?? path;
}

/** Undefined: what stands behind its percent signs is not UTF-8. */
function decoded(text: string, decode: (text: string) => string): string | undefined {
  if (!text.includes("%")) return text;
  try {
    return decode(text);
  } catch {
    return undefined;
  }
}

/** Of fields that are there several times the first one counts. */
export function queryOf(url: string): Record<string, string> {
  const begin = url.indexOf("?");
  const query: Record<string, string> = Object.create(null); // `__proto__` is a field like any other.
  if (begin < 0) return query;
  for (const [name, value] of new URLSearchParams(url.slice(begin + 1))) {
    if (name !== "") query[name] ??= value;
  }
  return query;
}
