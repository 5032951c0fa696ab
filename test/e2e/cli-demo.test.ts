// `berth demo` tells its stories to the end, on a server of its own. What happens waits for the story, so without pauses
// it is the same story, only faster.

import { readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { createUser } from "./cli-support.ts";
import { temporaryDirectory } from "./runner-support.ts";

const directory = temporaryDirectory();
const demo = (around = {}) => createUser({ TMPDIR: directory }).berth(["demo", "--pace", "0"], around);

/** Without the times, and with one space where columns are lined up. */
const lines = (stdout: string) =>
  stdout.split("\n").map((line) =>
    line
      .replace(/^ +\d+\.\d s /, "")
      .replaceAll(/ +/g, " ")
      .trim(),
  );

test("both stories come out as they are told, and nothing is left behind", async () => {
  const { exitCode, stdout, stderr } = await demo();
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
  const told = lines(stdout).filter((line) => /^[\w-]+ \((nlp|vision|research|incident)\)/.test(line));
  expect(told).toEqual([
    "pretrain (nlp) asks",
    "pretrain (nlp) starts",
    "captions (nlp) asks",
    "captions (nlp) starts",
    "tune (nlp) asks",
    "retrain (vision) asks",
    "captions (nlp) is asked to save and make room: the owner wants back what it has borrowed (reclaim)",
    "retrain (vision) is promised what comes free",
    "captions (nlp) has saved its state",
    "captions (nlp) is asked to stop",
    "captions (nlp) has stopped, and waits to go on",
    "retrain (vision) starts",
    "retrain (vision) is done",
    "captions (nlp) goes on from where it had saved",
    "captions (nlp) is done",
    "tune (nlp) starts",
    "tune (nlp) is done",
    "pretrain (nlp) is done",
    "big-model (research) asks",
    "big-model (research) starts",
    "small-model (research) asks",
    "small-model (research) starts",
    "hotfix (incident) asks",
    "small-model (research) is asked to save and make room: work of a higher class needs it (class)",
    "big-model (research) is asked to save and make room: work of a higher class needs it (class)",
    "hotfix (incident) is promised what comes free",
    "small-model (research) has saved its state",
    "small-model (research) is asked to stop",
    "small-model (research) has stopped, and waits to go on",
    "big-model (research) has saved its state",
    "big-model (research) is asked to stop",
    "big-model (research) has stopped, and waits to go on",
    "hotfix (incident) starts",
    "evaluation (research) asks",
    "hotfix (incident) is done",
    "evaluation (research) starts",
    "small-model (research) goes on from where it had saved",
    "evaluation (research) is done",
    "big-model (research) goes on from where it had saved",
    "small-model (research) is done",
    "big-model (research) is done",
  ]);
  for (const said of [
    "$ berth why tune\n#3 tune waits for 2 gpu in pool lab.\nin use 4 of 4 gpu by",
    "$ berth why retrain\n#4 retrain is next in pool lab: its units are promised, and others are stopping for it.\nin use #2 captions of nlp is stopping",
    "small-model costs 1.0 minutes, big-model costs 10.0 minutes; hotfix is worth",
    "first #8 evaluation of research: class 5 before 2 (10.6)",
    "What to type next:\nberth up --capacity gpu=2",
  ]) {
    expect(lines(stdout).join("\n")).toContain(said);
  }
  expect(readdirSync(directory)).toEqual([]);
});

test("a narrow terminal without UTF-8 gets lines that fit, in its own characters", async () => {
  const { exitCode, stdout } = await demo({ screen: { columns: () => 40 }, isAscii: true });
  expect(exitCode).toBe(0);
  expect(stdout).toMatch(/^[\x20-\x7e\n]+$/);
  expect(stdout.split("\n").filter((line) => line.length > 40)).toEqual([]);
});
