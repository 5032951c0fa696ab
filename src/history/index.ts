// What pools gave, to whom, and when: kept by a fold of the committed events. Other folders import from this file only.

export {
  type Account,
  createHistory,
  DAY_MS,
  type DayAccount,
  type DueRow,
  foldInto,
  type History,
  type KeySums,
  lastDayOf,
  openDays,
  type Sample,
} from "./fold.ts";
export { accountOfRow, fromJson, type HistoryRow, toJson, toRow } from "./stored.ts";
