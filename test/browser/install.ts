// The page as it is in the sources now, where a server that runs from its sources looks for it.

import { cpSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildDashboard, type Sizes } from "../../scripts/dashboard.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Does nothing if it is there already. The manifest comes last, so that no server meets one without its files. */
export async function installDashboard(): Promise<Sizes> {
  const built = mkdtempSync(join(tmpdir(), "berth-page-"));
  try {
    const sizes = await buildDashboard(root, built);
    const place = join(root, "dist/dashboard");
    const manifest = join(place, "manifest.json");
    const wanted = readFileSync(join(built, "manifest.json"), "utf8");
    if (!existsSync(manifest) || readFileSync(manifest, "utf8") !== wanted) {
      rmSync(join(built, "manifest.json"));
      cpSync(built, place, { recursive: true });
      writeFileSync(`${manifest}.${process.pid}`, wanted);
      renameSync(`${manifest}.${process.pid}`, manifest);
    }
    return sizes;
  } finally {
    rmSync(built, { recursive: true, force: true });
  }
}
