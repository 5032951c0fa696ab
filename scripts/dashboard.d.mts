/** Gzipped bytes. */
export interface Sizes {
  readonly first: number;
  readonly all: number;
  readonly files: Readonly<Record<string, number>>;
}

export function buildDashboard(root: string, directory: string): Promise<Sizes>;
/** Throws above the sizes of B2. */
export function checkSizes(sizes: Pick<Sizes, "first" | "all">): void;
