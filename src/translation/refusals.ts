// A refusal of the engine as the API answers it. Every code of the engine must be in the table of the
// protocol, or this does not compile.

import type { Refusal } from "../engine/index.ts";
import { type Problem, toProblem } from "../protocol/index.ts";

export function presentRefusal({ code, message, hint }: Refusal): Problem {
  return toProblem(code, message, hint === "" ? {} : { hint });
}
