// Why a request waits, in the server's own words (Y1), and what can be done about it.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { type AnswerOf, amountsText } from "../../sdk/index.ts";
import { hrefOf } from "../address.ts";
import { berth } from "../commands.ts";
import { useFollowed } from "../follow.ts";
import { isOffline } from "../live.ts";
import { client, may } from "../session.ts";
import { CopyButton } from "./copy.tsx";
import { type Action, ActionDialog } from "./plan.tsx";
import { Data } from "./states.tsx";
import { Compare, Suggestions } from "./suggestions.tsx";
import { clockText } from "./time.tsx";

type Request = AnswerOf<"getRequest">;
type PoolExplanation = AnswerOf<"explainRequest">["pools"][number];

/** The first explanation after a start is tried on a replica of the state that has to be made first. */
const PATIENCE_MS = 60_000;

interface Answer {
  readonly request: Request;
  /** In each pool in which it waits or runs. */
  readonly texts: AnswerOf<"explainRequest">["text"];
  /** Of the pool in whose queue it is foremost. */
  readonly pool: PoolExplanation | undefined;
  readonly suggestions: AnswerOf<"explainRequest">["suggestions"];
}

/** When requests start, of those whose explanation was loaded; by their small numbers. */
export const knownStarts = signal<ReadonlyMap<number, string>>(new Map());

const KNOWN_MAX = 200;

function noteStarts(number: number, { starts }: AnswerOf<"explainRequest">): void {
  const known = new Map([...knownStarts.value].slice(-KNOWN_MAX));
  known.delete(number);
  if (starts?.basis === "by_walltimes") known.set(number, `by ${clockText(Date.parse(starts.at), true)}`);
  else if (starts?.basis === "later") known.set(number, `after ${clockText(Date.parse(starts.than), true)}`);
  else if (starts !== null) known.set(number, "unknown");
  knownStarts.value = known;
}

export function Explanation({ number, isAlone = false }: { number: number; isAlone?: boolean }) {
  const followed = useFollowed(`why ${number}`, {
    load: async (signal): Promise<Answer> => {
      const request = await client.requests.get(String(number), {}, { signal });
      const explanation = await client.requests.explain(request.id, {}, { signal, timeoutMs: PATIENCE_MS });
      noteStarts(number, explanation);
      const [pool] = explanation.pools.toSorted((a, b) => a.position - b.position);
      return { request, texts: explanation.text, pool, suggestions: explanation.suggestions };
    },
    // Who stands before it, who holds what it wants: nearly everything may change the answer.
    concerns: ({ event }) =>
      event.startsWith("request.") || event.startsWith("pool.") || event.startsWith("policy."),
    everyMs: 3_000,
  });
  return (
    <Data of={followed}>
      {({ request, texts, pool, suggestions }) => (
        <div class="why" data-why={number}>
          {texts.map(({ sentence, lines }) => (
            <WhyText
              key={sentence}
              sentence={sentence}
              // Below, each of them has its plan.
              lines={suggestions.length === 0 ? lines : lines.filter(({ label }) => label !== "now if")}
            />
          ))}
          {pool !== undefined && <InUse pool={pool} />}
          <Suggestions of={suggestions} request={request} />
          {pool !== undefined && <Compare request={request} first={firstOf(pool)} />}
          <p class="actions">
            {!isAlone && (
              <a class="button" href={hrefOf(`/requests/${number}`)}>
                the whole life
              </a>
            )}
            {!isAlone && <CancelButton request={request} />}
            <CopyButton command={berth(["why", number])} />
          </p>
        </div>
      )}
    </Data>
  );
}

/** A sentence, and lines that each have a word for what they are about (Y1). */
function WhyText({ sentence, lines }: Answer["texts"][number]) {
  return (
    <>
      <p class="why-first">{sentence}</p>
      <dl class="why-lines">
        {lines.map(({ label, text }) => (
          <div key={`${label} ${text}`}>
            <dt>{label}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

/** Whom it is most natural to compare it with: the one whose turn is first. */
function firstOf({ first }: PoolExplanation): number | undefined {
  return first?.request.number;
}

/** Who has what it wants: each leads to its own life. */
function InUse({ pool: { holders, holder_count: count } }: { pool: PoolExplanation }) {
  if (holders.length === 0) return null;
  return (
    <dl class="why-lines">
      <div>
        <dt>held by</dt>
        <dd>
          {holders.map((holder) => (
            <HolderLink key={holder.request_id ?? holder.started_at} holder={holder} />
          ))}
          {count > holders.length && <span class="soft">and {count - holders.length} more</span>}
        </dd>
      </div>
    </dl>
  );
}

function HolderLink({ holder }: { holder: PoolExplanation["holders"][number] }) {
  const { number, name, component, units, stopping } = holder;
  const what = `${amountsText(units)}${stopping ? ", stopping" : ""}`;
  if (number === null) return <span class="holder">another team: {what}</span>;
  return (
    <a class="holder" href={hrefOf(`/requests/${number}`)}>
      <b>
        #{number} {name}
      </b>{" "}
      of {component} <span class="soft">{what}</span>
    </a>
  );
}

export function titleOf({
  number,
  name,
  component,
}: {
  number: number;
  name: string;
  component: string;
}): string {
  return `#${number}${name === "" ? "" : ` ${name}`} of ${component}`;
}

/** Absent for those who may not. */
export function CancelButton({ request }: { request: Request }) {
  const [isOpen, setOpen] = useState(false);
  const isLive =
    request.status === "queued" || request.status === "allocated" || request.status === "preempting";
  if (!may("requests.cancel") || !isLive) return null;
  return (
    <>
      <button type="button" class="danger" disabled={isOffline.value} onClick={() => setOpen(true)}>
        cancel…
      </button>
      {isOpen && <ActionDialog action={cancellationOf(request)} onClose={() => setOpen(false)} />}
    </>
  );
}

/** The key `x`: the same question for a row that is not open. */
export function CancelDialog({ number, onClose }: { number: number; onClose: () => void }) {
  const [request, setRequest] = useState<Request>();
  useEffect(() => {
    client.requests.get(String(number)).then(setRequest, onClose);
  }, [number]);
  return request === undefined ? null : <ActionDialog action={cancellationOf(request)} onClose={onClose} />;
}

function cancellationOf(request: Request): Action {
  return {
    title: `Cancel ${titleOf(request)}?`,
    verb: "Cancel the request",
    changes: [{ method: "POST", path: `/v1/resource-requests/${request.id}/cancel` }],
    command: berth(["cancel", request.number]),
    done: `Cancelled ${titleOf(request)}.`,
  };
}
