// Words and numbers as the server, the command line and the dashboard write them. No schemas: it is small enough for a
// page in a browser. Other folders import from this file only.

export { NOTIFY_LABEL, type NoticeWords, noticeKindsOf, noticeText, noticeWords } from "./notices.ts";
export { ageOf, amountsText, counted, durationText, endText, listed, printable } from "./words.ts";
