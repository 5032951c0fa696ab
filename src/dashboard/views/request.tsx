// Request: the whole life of one request, step by step, each decision with its record (view 6).

import { useEffect, useState } from "preact/hooks";
import { type AnswerOf, amountsText, type BerthError, counted } from "../../sdk/index.ts";
import { hrefOf } from "../address.ts";
import { berth, useCommand } from "../commands.ts";
import { useFollowed } from "../follow.ts";
import { useKeys } from "../keys.ts";
import type { LiveEvent } from "../live.ts";
import { CancelButton, CancelDialog, Explanation, titleOf } from "../parts/explanation.tsx";
import { Data } from "../parts/states.tsx";
import { Age, Moment } from "../parts/time.tsx";
import { client, may, toBerthError } from "../session.ts";
import { candidateTexts, type Step, stepText } from "./request-steps.ts";

type Request = AnswerOf<"getRequest">;
type Decision = AnswerOf<"listDecisions">["items"][number];
type Life = { readonly request: Request; readonly decisions: readonly Decision[] };

const STEPS_SHOWN = 100;

export function View({ number = "" }: { number?: string }) {
  const [isCancelling, setCancelling] = useState(false);
  const followed = useFollowed(number, {
    load: async (signal): Promise<Life> => {
      const request = await client.requests.get(number, {}, { signal });
      const { items } = await client.requests.decisions(request.id, { signal });
      return { request, decisions: items };
    },
    concerns: (event) => event.number === Number(number),
    everyMs: 500,
  });
  useCommand(berth(["show", number]));
  useKeys({ ...(may("requests.cancel") && { x: () => setCancelling(true) }) });
  return (
    <Data of={followed}>
      {(life) => (
        <>
          <Head request={life.request} />
          <div class="life">
            {life.request.status === "queued" && (
              <section class="card">
                <h2>Why it waits</h2>
                <Explanation number={life.request.number} isAlone />
              </section>
            )}
            <Steps life={life} />
          </div>
          {isCancelling && <CancelDialog number={life.request.number} onClose={() => setCancelling(false)} />}
        </>
      )}
    </Data>
  );
}

function Head({ request }: { request: Request }) {
  const { number, name, component, status, resources, attempt, preempted_count: preempted, pool } = request;
  return (
    <header class="request-head">
      <div class="actions">
        <h1>
          <span class="soft">#{number}</span> {name}
        </h1>
        <span class={`badge ${badgeOf(request)}`} data-status={status}>
          {request.stop === null ? status : "stopping"}
        </span>
        <CancelButton request={request} />
      </div>
      <dl class="facts small">
        <div>
          <dt>of</dt>
          <dd>
            <a href={hrefOf("/queue", { component })}>{component}</a>
          </dd>
        </div>
        <div>
          <dt>wants</dt>
          <dd>{amountsText(resources)}</dd>
        </div>
        {pool !== null && (
          <div>
            <dt>pool</dt>
            <dd>
              <a href={hrefOf("/timeline", { pool, lanes: "request" })}>{pool}</a>
            </dd>
          </div>
        )}
        <div>
          <dt>attempt</dt>
          <dd>{attempt}</dd>
        </div>
        <div>
          <dt>preempted</dt>
          <dd>{counted(preempted, "time")}</dd>
        </div>
        <div>
          <dt>
            {request.ended_at !== null ? "ended" : request.started_at !== null ? "runs for" : "waits for"}
          </dt>
          <dd>
            {request.ended_at !== null ? (
              <Moment at={request.ended_at} />
            ) : (
              <Age since={request.started_at ?? request.queued_at} />
            )}
          </dd>
        </div>
        {request.placement.length > 0 && (
          <div>
            <dt>on</dt>
            <dd>{request.placement.map(({ node }) => node).join(", ")}</dd>
          </div>
        )}
      </dl>
    </header>
  );
}

function badgeOf({ status, stop }: Request): string {
  if (stop !== null || status === "queued") return "warn";
  if (status === "allocated" || status === "released") return "good";
  return "bad";
}

/** Its events, from the first one that is kept, and on. */
function useEvents(id: string): { events: readonly LiveEvent[]; error: BerthError | undefined } {
  const [events, setEvents] = useState<readonly LiveEvent[]>([]);
  const [error, setError] = useState<BerthError>();
  useEffect(() => {
    const over = new AbortController();
    const listen = async () => {
      const { signal } = over;
      for await (const event of client.events.stream({ request: id }, { signal, after: 0 })) {
        // Opened again after an interruption, it goes on behind the last event: what is shown stays (B11).
        if (event.event === "stream.reset") setEvents([]);
        else if (event.event !== "stream.opened") setEvents((before) => [...before, event]);
      }
    };
    listen().catch((failure: unknown) => !over.signal.aborted && setError(toBerthError(failure)));
    return () => over.abort();
  }, [id]);
  return { events, error };
}

/** Those that it was stopped for, by name, as far as the token may know them. */
function useTitles(steps: readonly Step[]): ReadonlyMap<string, string> {
  const [titles, setTitles] = useState<ReadonlyMap<string, string>>(new Map());
  const ids = [...new Set(steps.flatMap(({ for_request: id }) => id ?? []))].filter((id) => !titles.has(id));
  useEffect(() => {
    for (const id of ids) {
      client.requests.get(id).then(
        (request) => setTitles((known) => new Map([...known, [id, titleOf(request)]])),
        () => undefined, // It stays another request.
      );
    }
  }, [ids.join()]);
  return titles;
}

function Steps({ life: { request, decisions } }: { life: Life }) {
  const { events, error } = useEvents(request.id);
  const steps = events as readonly Step[];
  const story = { request, steps, titles: useTitles(steps) };
  const [shown, setShown] = useState(STEPS_SHOWN);
  const bySeq = new Map(decisions.map((decision) => [decision.seq, decision]));
  const hidden = Math.max(0, events.length - shown);
  return (
    <section class="card">
      <h2>Its life</h2>
      {error !== undefined && <p class="notice">{error.message}</p>}
      {hidden > 0 && (
        <button type="button" onClick={() => setShown(shown + STEPS_SHOWN)}>
          {counted(hidden, "earlier step")}
        </button>
      )}
      <ol class="steps">
        {steps.slice(hidden).map((step, at) => (
          <li key={`${step.seq} ${step.event}`}>
            <Moment at={step.at} />
            <div>
              <p>{stepText(step, hidden + at, story)}</p>
              <Receipt decision={bySeq.get(step.seq)} />
            </div>
            <span class="soft">event {step.seq}</span>
          </li>
        ))}
      </ol>
      {events.length === 0 && error === undefined && (
        <p class="soft">
          Submitted by {request.submitted_by} at <Moment at={request.submitted_at} />.
        </p>
      )}
    </section>
  );
}

/** The record of a decision, as it was taken (V7, D5). */
function Receipt({ decision }: { decision: Decision | undefined }) {
  if (decision === undefined) return null;
  return (
    <details data-receipt={decision.seq}>
      <summary>receipt</summary>
      <ul>
        {candidateTexts(decision).map((text) => (
          <li key={text}>{text}</li>
        ))}
      </ul>
      <pre>{JSON.stringify(decision.decision, null, 2)}</pre>
    </details>
  );
}
