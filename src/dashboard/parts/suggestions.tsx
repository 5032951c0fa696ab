// What would start a waiting request, each with the plan of that change (B14), and why it stands behind another one (Y7).

import { useState } from "preact/hooks";
import { type AnswerOf, type BerthError, durationText } from "../../sdk/index.ts";
import { berth } from "../commands.ts";
import { isOffline } from "../live.ts";
import { client, may, toBerthError } from "../session.ts";
import { type Action, ActionDialog } from "./plan.tsx";
import { Failure } from "./states.tsx";

type Explanation = AnswerOf<"explainRequest">;
type Suggestion = Explanation["suggestions"][number];
type Request = AnswerOf<"getRequest">;

const SHOWN_MAX = 3;

export function Suggestions({ of, request }: { of: readonly Suggestion[]; request: Request }) {
  const [action, setAction] = useState<Action>();
  if (of.length === 0) return null;
  return (
    <>
      <h3 class="why-title">Starts now if</h3>
      <ul class="suggestions">
        {of.slice(0, SHOWN_MAX).map((suggestion) => (
          <li key={suggestion.text} data-suggestion={suggestion.change}>
            <span>{suggestion.text}</span>
            <PlanIt suggestion={suggestion} request={request} onPlan={setAction} />
          </li>
        ))}
      </ul>
      {action !== undefined && <ActionDialog action={action} onClose={() => setAction(undefined)} />}
    </>
  );
}

/** Absent where time alone can do it, or the token may not. */
function PlanIt({
  suggestion,
  request,
  onPlan,
}: {
  suggestion: Suggestion;
  request: Request;
  onPlan: (action: Action) => void;
}) {
  const right = suggestion.by === "operator" ? "pools.change" : "requests.cancel";
  if (!PLANNABLE.has(suggestion.change) || !may(right)) return null;
  if (suggestion.change === "more_capacity" && suggestion.nodes !== null) return null;
  return (
    <button
      type="button"
      disabled={isOffline.value}
      onClick={() => void actionOf(suggestion, request).then(onPlan, () => undefined)}
    >
      plan it
    </button>
  );
}

const PLANNABLE: ReadonlySet<Suggestion["change"]> = new Set([
  ...(["fewer_units", "fewer_nodes", "walltime", "preemptible", "higher_class"] as const),
  ...(["higher_limit", "more_reserved", "higher_priority", "more_capacity", "ahead_withdrawn"] as const),
]);

async function actionOf(suggestion: Suggestion, request: Request): Promise<Action> {
  const { change, command } = await changeOf(suggestion, request);
  return {
    title: `Make it so that ${suggestion.text}?`,
    verb: "Make this change",
    changes: [change],
    command,
    done: `Changed so that ${suggestion.text}.`,
  };
}

type Step = { readonly change: Action["changes"][number]; readonly command: string };

/** The call that makes it so, and what one would type. */
async function changeOf(suggestion: Suggestion, request: Request): Promise<Step> {
  const { pool } = suggestion;
  const ofRequest = (body: object, options: Record<string, string | number>): Step => ({
    change: { method: "PATCH", path: `/v1/resource-requests/${request.id}`, body },
    command: berth(["update", request.number], options),
  });
  const ofPolicy = (body: object, options: Record<string, string | number>): Step => ({
    change: {
      method: "PATCH",
      path: `/v1/pools/${pathWord(pool)}/policies/${pathWord(request.component)}`,
      body,
    },
    command: berth(["policy", "update", pool, request.component], options),
  });
  switch (suggestion.change) {
    case "fewer_units":
      return ofRequest({ resources: suggestion.resources }, { resource: amountsWord(suggestion.resources) });
    case "fewer_nodes":
      return ofRequest({ nodes: suggestion.nodes }, { nodes: suggestion.nodes });
    case "walltime": {
      const { walltime_seconds: seconds } = suggestion;
      return ofRequest({ walltime_seconds: seconds }, { walltime: durationText(seconds) });
    }
    case "higher_class":
      return ofRequest(
        { preemption_class: suggestion.preemption_class },
        { class: suggestion.preemption_class },
      );
    case "higher_limit": {
      const policy = await client.policies.get(pool, request.component);
      const limit = { ...policy.limit, ...suggestion.limit };
      return ofPolicy({ limit }, { limit: amountsWord(limit) });
    }
    case "more_reserved": {
      const policy = await client.policies.get(pool, request.component);
      const reserved = { ...policy.reserved, ...suggestion.reserved };
      return ofPolicy({ reserved }, { reserved: amountsWord(reserved) });
    }
    case "higher_priority":
      return ofPolicy({ priority: suggestion.priority }, { priority: suggestion.priority });
    case "more_capacity":
      return {
        change: {
          method: "PATCH",
          path: `/v1/pools/${pathWord(pool)}`,
          body: { capacity: suggestion.capacity },
        },
        command: berth(["pool", "update", pool], { capacity: amountsWord(suggestion.capacity) }),
      };
    case "ahead_withdrawn": {
      const { id, number = 0 } = suggestion.request;
      return {
        change: { method: "POST", path: `/v1/resource-requests/${id}/cancel` },
        command: berth(["cancel", number]),
      };
    }
    default:
      return ofRequest({ preemptible: true }, { preempt: "" });
  }
}

function pathWord(text: string): string {
  return encodeURIComponent(text);
}

function amountsWord(amounts: Readonly<Record<string, number>>): string {
  return Object.entries(amounts)
    .filter(([key]) => key !== "step_run")
    .map(([key, amount]) => `${key}=${amount}`)
    .join(",");
}

/** Which of two comes first, and by which part of the order. */
export function Compare({ request, first }: { request: Request; first: number | undefined }) {
  const [text, setText] = useState<Explanation["text"][number]>();
  const [error, setError] = useState<BerthError>();
  const compare = (event: SubmitEvent) => {
    event.preventDefault();
    const other = String(new FormData(event.currentTarget as HTMLFormElement).get("other") ?? "").trim();
    if (other === "") return;
    setError(undefined);
    client.requests.explain(request.id, { before: other.replace(/^#/, ""), suggestions: "false" }).then(
      ({ text: [answer] }) => setText(answer),
      (failure: unknown) => setError(toBerthError(failure)),
    );
  };
  return (
    <>
      <form class="compare" onSubmit={compare}>
        <label>
          <span>compare with</span>
          <input
            name="other"
            size={8}
            placeholder="#7"
            defaultValue={first === undefined ? "" : `#${first}`}
          />
        </label>
        <button type="submit" disabled={isOffline.value}>
          compare
        </button>
      </form>
      {error !== undefined && <Failure error={error} retry={() => setError(undefined)} />}
      {text !== undefined && error === undefined && (
        <div class="compared" data-compared={request.number}>
          <p class="why-first">{text.sentence}</p>
          <ul>
            {text.lines.map((line) => (
              <li key={`${line.label} ${line.text}`}>
                <b>{line.label}</b> {line.text}
              </li>
            ))}
          </ul>
        </div>
      )}
    </>
  );
}
