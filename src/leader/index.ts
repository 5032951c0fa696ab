// The single writer: batch → engine → group commit → answer and publish. Other folders import from this file only.

export * from "./leader.ts";
