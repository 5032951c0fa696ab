// B2: the build fails when the page is too big.

import { expect, test } from "vitest";
import { checkSizes } from "../scripts/dashboard.mjs";

const KB = 1024;

test.each([
  [45 * KB, 110 * KB, undefined],
  [45 * KB + 1, 100 * KB, /first view/],
  [40 * KB, 110 * KB + 1, /all views/],
])("first view %i, all views %i (B2)", (first, all, complaint) => {
  const check = () => checkSizes({ first, all });
  if (complaint === undefined) expect(check).not.toThrow();
  else expect(check).toThrow(complaint);
});
