// Assertions. They stay on in production: a broken invariant ends the process, and a restart replays the journal.

export function assertNever(value: never): never {
  throw new Error(`unexpected ${JSON.stringify(value)}`);
}

export function assert(condition: boolean, message: () => string): asserts condition {
  if (!condition) throw new Error(message());
}
