/** So many at a time: what was found in between is kept in memory only, and a server that restarts begins again. */
const BETWEEN_BREAKS = 64;

/** To be asked after each of many things: whether it is time to leave the others for the next slice. */
export function breaksWhen(isTimeUp: () => boolean): () => boolean {
  let done = 0;
  return () => ++done % BETWEEN_BREAKS === 0 && isTimeUp();
}

/** For decisions that are never cut. */
export function neverUp(): boolean {
  return false;
}
