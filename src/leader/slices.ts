/** How long a slice of a long fixed point should hold the loop up. */
export const SLICE_MS = 10;
