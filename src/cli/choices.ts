// The words that options and arguments take, for those who read them and for completion. The same as in the schemas of
// the protocol, which a command does without so that it starts fast; a test holds them together.

import { FORMATS } from "./output/print.ts";

/** By the name of the option or argument. */
export const CHOICES = {
  output: FORMATS,
  shell: ["bash", "zsh", "fish"],
  view: ["queued", "active", "all"],
  discipline: ["priority", "fair_share", "class"],
  role: ["viewer", "user", "operator", "auditor", "admin", "executor"],
  checkpoint: ["none", "auto", "manual"],
  requeue: ["never", "on_preemption", "on_failure"],
  onLost: ["suspend", "run-on", "kill"],
  stream: ["stdout", "stderr"],
  mode: ["fair_share", "fifo"],
  kind: ["batch", "training", "service", "sensitive", "interactive"],
  targetKind: ["slack", "webhook", "command"],
  on: ["started", "preempted", "rejected", "ended"],
  permission: ["class10", "sensitive"],
  componentType: ["orchestrator", "step_operator"],
  status: [
    "queued",
    "allocated",
    "preempting",
    "released",
    "preempted",
    "failed",
    "cancelled",
    "rejected",
    "expired",
  ],
} as const;
