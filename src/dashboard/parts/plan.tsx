// A plan (X2) in the words of `berth plan`, and the dialog that shows it before anything harmful is done (B14).

import { useEffect, useState } from "preact/hooks";
import {
  type AnswerOf,
  accountLines,
  BerthError,
  type BodyOf,
  laterLines,
  planLines,
} from "../../sdk/index.ts";
import { announce } from "../announce.ts";
import { isOffline } from "../live.ts";
import { client, toBerthError } from "../session.ts";
import { CopyButton } from "./copy.tsx";
import { Dialog } from "./dialog.tsx";
import { Failure, Loading } from "./states.tsx";

export type Changes = BodyOf<"makePlan">["changes"];
export type Plan = AnswerOf<"makePlan">;

export function PlanLines({ plan }: { plan: Plan }) {
  const lines = planLines(plan.now);
  const accounts = accountLines(plan);
  const later = laterLines(plan);
  return (
    <div class="plan" data-plan={plan.at_seq}>
      <h3>
        Plan <span class="soft">at event {plan.at_seq.toLocaleString("en").replaceAll(",", " ")}</span>
      </h3>
      <PlanPart title="at once" lines={lines.length === 0 ? ["No request is touched."] : lines} />
      <PlanPart title="units" lines={accounts} />
      <PlanPart title="later" lines={later} />
      <PlanPart title="warnings" lines={plan.warnings} />
    </div>
  );
}

function PlanPart({ title, lines }: { title: string; lines: readonly string[] }) {
  if (lines.length === 0) return null;
  return (
    <section>
      <h4>{title}</h4>
      <ul>
        {lines.map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
    </section>
  );
}

/** Makes the changes of a plan; if its pools have changed meanwhile, the plan is made anew and nothing has happened. */
export async function applyPlan(changes: Changes, atSeq: number): Promise<"applied" | "outdated"> {
  try {
    await client.plans.apply({ changes }, atSeq);
    return "applied";
  } catch (error) {
    if (error instanceof BerthError && error.code === "plan_outdated") return "outdated";
    throw error;
  }
}

export interface Action {
  readonly title: string;
  /** What the button says. */
  readonly verb: string;
  readonly changes: Changes;
  readonly command: string;
  /** For the live region. */
  readonly done: string;
}

/** Shows what the action would do; only then can it be done, at exactly that event. */
export function ActionDialog({ action, onClose }: { action: Action; onClose: () => void }) {
  const [plan, setPlan] = useState<Plan>();
  const [error, setError] = useState<BerthError>();
  const [isOutdated, setOutdated] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const { title, verb, changes, command, done } = action;

  const make = () => {
    setError(undefined);
    setPlan(undefined);
    client.plans.make({ changes }).then(setPlan, (failure: unknown) => setError(toBerthError(failure)));
  };
  const apply = async (atSeq: number) => {
    setBusy(true);
    try {
      const outcome = await applyPlan(changes, atSeq);
      if (outcome === "applied") {
        announce(done);
        return onClose();
      }
      setOutdated(true);
      make();
    } catch (failure) {
      setError(toBerthError(failure));
    } finally {
      setBusy(false);
    }
  };
  useEffect(make, []);

  return (
    <Dialog title={title} onClose={onClose}>
      {isOutdated && (
        <p class="notice" role="alert">
          The pool has changed meanwhile, so nothing was done. This is the plan now:
        </p>
      )}
      {error !== undefined ? (
        <Failure error={error} retry={make} />
      ) : plan === undefined ? (
        <Loading rows={2} />
      ) : (
        <PlanLines plan={plan} />
      )}
      <footer>
        <CopyButton command={command} />
        <button
          type="button"
          class="main danger"
          disabled={plan === undefined || isBusy || isOffline.value}
          onClick={() => plan && void apply(plan.at_seq)}
        >
          {verb}
        </button>
      </footer>
    </Dialog>
  );
}
