// Why a request waits, in the server's own words (Y1), and what can be done about it.

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
}

export function Explanation({ number, isAlone = false }: { number: number; isAlone?: boolean }) {
  const followed = useFollowed(`why ${number}`, {
    load: async (signal): Promise<Answer> => {
      const request = await client.requests.get(String(number), {}, { signal });
      const explanation = await client.requests.explain(request.id, {}, { signal, timeoutMs: PATIENCE_MS });
      const [pool] = explanation.pools.toSorted((a, b) => a.position - b.position);
      return { request, texts: explanation.text, pool };
    },
    // Who stands before it, who holds what it wants: nearly everything may change the answer.
    concerns: ({ event }) =>
      event.startsWith("request.") || event.startsWith("pool.") || event.startsWith("policy."),
    everyMs: 3_000,
  });
  return (
    <Data of={followed}>
      {({ request, texts, pool }) => (
        <div class="why" data-why={number}>
          {texts.map((text) => (
            <WhyText key={text.sentence} {...text} />
          ))}
          {pool !== undefined && <InUse pool={pool} />}
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

/** Who has what it wants: each leads to its own life. */
function InUse({
  pool: { pool, position, queue_length: length, holders, holder_count: count },
}: {
  pool: PoolExplanation;
}) {
  return (
    <dl class="why-lines">
      <div>
        <dt>place</dt>
        <dd>
          {position} of {length} in pool <a href={hrefOf("/queue", { pool })}>{pool}</a>
        </dd>
      </div>
      {holders.length > 0 && (
        <div>
          <dt>in use by</dt>
          <dd>
            {holders.map((holder) => (
              <HolderLink key={holder.request_id ?? holder.started_at} holder={holder} />
            ))}
            {count > holders.length && <span class="soft">and {count - holders.length} more</span>}
          </dd>
        </div>
      )}
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
