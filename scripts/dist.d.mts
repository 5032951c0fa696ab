export function hashOfSources(root: string): string;
export function isUpToDate(dist: string, sources: string): boolean;
export function putInPlace(built: string, dist: string, sources: string): void;
