// Why a request waits, in the server's own words (Y1), and what can be done about it.

import { useEffect, useState } from "preact/hooks";
import { type AnswerOf, amountsText, describeWaiting } from "../../sdk/index.ts";
import { hrefOf } from "../address.ts";
import { berth } from "../commands.ts";
import { useFollowed } from "../follow.ts";
import { isOffline } from "../live.ts";
import { client, may } from "../session.ts";
import { CopyButton } from "./copy.tsx";
import { type Action, ActionDialog } from "./plan.tsx";
import { Data } from "./states.tsx";

type Request = AnswerOf<"getRequest">;

interface Answer {
  readonly request: Request;
  readonly lines: readonly string[];
}

export function Explanation({ number, isAlone = false }: { number: number; isAlone?: boolean }) {
  const followed = useFollowed(`why ${number}`, {
    load: async (signal): Promise<Answer> => {
      const request = await client.requests.get(String(number), {}, { signal });
      return { request, lines: await linesOf(request, signal) };
    },
    // Who stands before it, who holds what it wants: nearly everything may change the answer.
    concerns: ({ event }) =>
      event.startsWith("request.") || event.startsWith("pool.") || event.startsWith("policy."),
    everyMs: 3_000,
  });
  return (
    <Data of={followed}>
      {({ request, lines }) => (
        <div class="why" data-why={number}>
          <p class="why-first">{lines[0]}</p>
          {lines.length > 1 && <WhyLines lines={lines.slice(1)} />}
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

/** Lines such as `  in use   2 of 2 gpu …`: a word for what it is about, and the rest. */
function WhyLines({ lines }: { lines: readonly string[] }) {
  return (
    <dl class="why-lines">
      {lines.map((line) => {
        const [, about = "", rest = line] =
          /^\s*(needs|in use|first|preempts|starts|now if|or)\s{2,}(.*)$/.exec(line) ?? [];
        return (
          <div key={line}>
            <dt>{about}</dt>
            <dd>{rest.trim()}</dd>
          </div>
        );
      })}
    </dl>
  );
}

async function linesOf(request: Request, signal: AbortSignal): Promise<string[]> {
  if (request.status !== "queued") return [statusText(request)];
  const explanation = await client.requests.explain(request.id, { signal });
  const { text } = explanation as { text?: unknown };
  if (typeof text === "string") return text.trimEnd().split("\n");
  return [`#${request.number} waits: ${describeWaiting(request, explanation)}`];
}

export function statusText({ number, status, pool, resources, stop }: Request): string {
  if (stop !== null) return `#${number} is being stopped (${stop.cause}).`;
  if (status === "allocated") return `#${number} has ${amountsText(resources)} of pool ${pool}.`;
  return `#${number} is ${status}.`;
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
