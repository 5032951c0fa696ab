// The one place that knows the disciplines by name.

import type { DisciplineName } from "../settings.ts";
import type { Pool } from "../state.ts";
import { classDiscipline } from "./class/class.ts";
import type { Discipline } from "./discipline.ts";
import { fairShareDiscipline } from "./fair_share/fair-share.ts";
import { priorityDiscipline } from "./priority/priority.ts";

const DISCIPLINES: Readonly<Record<DisciplineName, Discipline>> = {
  priority: priorityDiscipline,
  class: classDiscipline,
  fair_share: fairShareDiscipline,
};

export function disciplineOf({ record }: Pick<Pool, "record">): Discipline {
  return DISCIPLINES[record.discipline];
}
