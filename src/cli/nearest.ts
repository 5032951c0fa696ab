// "Did you mean": the known word that is closest to what was typed.

const DISTANCE_MAX = 3;
const NAMED_MAX = 20;

/** What to say about a name that does not exist. */
export function suggestion(typed: string, known: readonly string[]): string {
  const meant = nearest(typed, known);
  if (meant !== undefined) return `Did you mean ${meant}?`;
  if (known.length === 0) return "";
  return `There ${known.length === 1 ? "is only" : "are"} ${known.slice(0, NAMED_MAX).join(", ")}.`;
}

/** Undefined if nothing is close enough to be what was meant. */
export function nearest(typed: string, known: Iterable<string>): string | undefined {
  let best: string | undefined;
  let bestDistance = Math.min(DISTANCE_MAX, Math.max(1, typed.length >> 1)) + 1;
  for (const word of known) {
    const distance = word.startsWith(typed) && typed.length > 1 ? 1 : editDistance(typed, word, bestDistance);
    if (distance < bestDistance) {
      best = word;
      bestDistance = distance;
    }
  }
  return best;
}

/** Damerau–Levenshtein: letters left out, added, changed, or two of them swapped. Gives up at `limit`. */
function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) >= limit) return limit;
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let distance = Math.min(
        (row[j] as number) + 1,
        (next[j - 1] as number) + 1,
        (row[j - 1] as number) + cost,
      );
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        distance = Math.min(distance, (before[j - 2] as number) + 1);
      }
      next.push(distance);
    }
    before = row;
    row = next;
  }
  return row[b.length] as number;
}
