import { expect, test } from "vitest";
import {
  discipline,
  extraPermission,
  givenRole,
  group,
  logStream,
  noticeKind,
  policyKind,
  requestStatus,
  requestSubmission,
} from "../protocol/index.ts";
import { CHOICES } from "./choices.ts";

const schemas = {
  discipline,
  role: givenRole,
  stream: logStream,
  checkpoint: requestSubmission.shape.checkpoint.unwrap(),
  requeue: requestSubmission.shape.requeue.unwrap(),
  mode: group.shape.mode.unwrap(),
  kind: policyKind,
  permission: extraPermission,
  status: requestStatus,
  on: noticeKind,
} as const;

for (const [name, schema] of Object.entries(schemas)) {
  test(`the choices of ${name} are those of its schema`, () => {
    expect(CHOICES[name as keyof typeof schemas]).toEqual(schema.options);
  });
}
