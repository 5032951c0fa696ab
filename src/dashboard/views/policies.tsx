// Policies: a draft on the left, what it would do on the right after each pause in typing (view 5).

import { useEffect, useState } from "preact/hooks";
import { type AnswerOf, type BerthError, hasShares, isHarmful } from "../../sdk/index.ts";
import { queryOf, setQuery } from "../address.ts";
import { announce } from "../announce.ts";
import { berth, useCommand } from "../commands.ts";
import { useFollowed } from "../follow.ts";
import { isOffline } from "../live.ts";
import { applyPlan, type Plan, PlanLines } from "../parts/plan.tsx";
import { PoolChoice, PoolView } from "../parts/pool-choice.tsx";
import { Data, Empty, Failure } from "../parts/states.tsx";
import { Moment } from "../parts/time.tsx";
import { client, may, toBerthError } from "../session.ts";
import {
  type Changes,
  changesOf,
  type DraftRow,
  draftOf,
  EMPTY_ROW,
  type Field,
  type Mistake,
  type Policy,
  readYaml,
  yamlOf,
} from "./policies-draft.ts";

const TYPING_PAUSE_MS = 400;
const HORIZON_SECONDS = 6 * 3_600;

interface Policies {
  readonly discipline: AnswerOf<"getPool">["discipline"];
  readonly items: readonly Policy[];
}

export function View() {
  return (
    <PoolView title="Policies" about="Policies say which component may have how much of a pool.">
      {(pool) => <PoolPolicies key={pool} pool={pool} />}
    </PoolView>
  );
}

function PoolPolicies({ pool }: { pool: string }) {
  const followed = useFollowed(pool, {
    load: async (signal): Promise<Policies> => {
      const { discipline } = await client.pools.get(pool, { signal });
      const items: Policy[] = [];
      for await (const policy of client.policies.all(pool)) items.push(policy);
      return { discipline, items };
    },
    concerns: ({ event, pool: of }) =>
      of === pool && (event.startsWith("policy.") || event.startsWith("pool.")),
    everyMs: 1_000,
  });
  useCommand(berth(["policy", "list", pool]));
  return (
    <Data of={followed}>
      {(policies) => <Editor pool={pool} policies={policies} reload={followed.reload} />}
    </Data>
  );
}

type Mode = "form" | "yaml" | "history";

function Editor({ pool, policies, reload }: { pool: string; policies: Policies; reload: () => void }) {
  const [draft, setDraft] = useState<readonly DraftRow[]>();
  const [text, setText] = useState<string>();
  const mode = (queryOf("as") ?? "form") as Mode;
  const rows = draft ?? draftOf(policies.items);
  const isEditable = may("pools.change");
  const read = text === undefined ? undefined : readYaml(pool, text);
  const { changes, mistakes } = changesOf(pool, policies.items, read?.rows ?? rows);
  const all =
    read === undefined
      ? mistakes
      : read.mistakes.length > 0
        ? read.mistakes
        : lineMistakes(text ?? "", mistakes);
  const discard = () => {
    setDraft(undefined);
    setText(undefined);
  };
  const choose = (next: Mode) => {
    if (read !== undefined) setDraft(read.rows);
    setText(next === "yaml" && isEditable ? yamlOf(pool, read?.rows ?? rows) : undefined);
    setQuery({ as: next === "form" ? undefined : next });
  };
  return (
    <>
      <fieldset class="filters" aria-label="Filters">
        <PoolChoice value={pool} />
        <fieldset class="tabs" aria-label="Edit as">
          {(["form", "yaml", ...(may("audit.read") ? ["history"] : [])] as Mode[]).map((one) => (
            <button
              key={one}
              type="button"
              class="chip"
              aria-pressed={mode === one}
              onClick={() => choose(one)}
            >
              {one}
            </button>
          ))}
        </fieldset>
        {changes.length > 0 && (
          <button type="button" onClick={discard}>
            discard
          </button>
        )}
      </fieldset>
      <div class="two">
        <section class="card" aria-label="Policies">
          {mode === "history" ? (
            <History pool={pool} />
          ) : mode === "yaml" ? (
            <Yaml text={text ?? yamlOf(pool, rows)} isEditable={isEditable} mistakes={all} onText={setText} />
          ) : rows.length === 0 && !isEditable ? (
            <Empty title="No policies yet">Nobody may use pool {pool}.</Empty>
          ) : (
            <Form rows={rows} policies={policies} isEditable={isEditable} mistakes={all} onRows={setDraft} />
          )}
        </section>
        {isEditable && (
          <PlanBeside
            changes={all.length > 0 ? [] : changes}
            isWrong={all.length > 0}
            onApplied={() => {
              discard();
              reload();
            }}
          />
        )}
      </div>
    </>
  );
}

/** Rows are counted without the first line and comments; the text shows lines. */
function lineMistakes(text: string, mistakes: readonly Mistake[]): Mistake[] {
  const lines = text.split("\n").flatMap((line, at) => (line.trim().startsWith("-") ? [at] : []));
  return mistakes.map(({ at, message }) => ({ at: lines[at] ?? 0, message }));
}

function Form({
  rows,
  policies: { discipline, items },
  isEditable,
  mistakes,
  onRows,
}: {
  rows: readonly DraftRow[];
  policies: Policies;
  isEditable: boolean;
  mistakes: readonly Mistake[];
  onRows: (rows: readonly DraftRow[]) => void;
}) {
  const fields: readonly Field[] = hasShares({ discipline })
    ? ["weight", "reserved", "limit"]
    : ["priority", "reserved", "limit"];
  const set = (at: number, change: Partial<DraftRow>) =>
    onRows(rows.map((row, index) => (index === at ? { ...row, ...change } : row)));
  return (
    <div class="table-box">
      <table class="form">
        <thead>
          <tr>
            <th>component</th>
            {fields.map((field) => (
              <th key={field}>{field}</th>
            ))}
            {isEditable && (
              <th>
                <span class="hidden">detach</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => {
            const isNew = !items.some(({ component }) => component === row.component);
            const mistake = mistakes.find((one) => one.at === at)?.message;
            return (
              <tr
                key={isNew ? `new ${at}` : row.component}
                class={row.isDetached ? "is-detached" : ""}
                data-policy={row.component}
              >
                <th scope="row">
                  {isNew && isEditable ? (
                    <input
                      aria-label="component"
                      value={row.component}
                      onInput={(event) => set(at, { component: event.currentTarget.value })}
                    />
                  ) : (
                    row.component
                  )}
                  {mistake !== undefined && (
                    <p class="mistake" role="alert">
                      {mistake}
                    </p>
                  )}
                </th>
                {fields.map((field) => (
                  <td key={field}>
                    {isEditable ? (
                      <input
                        class={field === "priority" || field === "weight" ? "short" : ""}
                        aria-label={`${field} of ${row.component}`}
                        value={row[field]}
                        disabled={row.isDetached}
                        placeholder={field === "limit" ? "none" : field === "reserved" ? "nothing" : ""}
                        onInput={(event) => set(at, { [field]: event.currentTarget.value })}
                      />
                    ) : (
                      row[field] || "–"
                    )}
                  </td>
                ))}
                {isEditable && (
                  <td>
                    <button
                      type="button"
                      class="plain danger"
                      aria-label={`${row.isDetached ? "keep" : "detach"} ${row.component}`}
                      onClick={() =>
                        isNew
                          ? onRows(rows.filter((_, index) => index !== at))
                          : set(at, { isDetached: !row.isDetached })
                      }
                    >
                      {row.isDetached ? "keep" : "detach"}
                    </button>
                  </td>
                )}
              </tr>
            );
          })}
        </tbody>
      </table>
      {isEditable && (
        <button type="button" class="plain" onClick={() => onRows([...rows, EMPTY_ROW])}>
          + attach a component
        </button>
      )}
    </div>
  );
}

function Yaml({
  text,
  isEditable,
  mistakes,
  onText,
}: {
  text: string;
  isEditable: boolean;
  mistakes: readonly Mistake[];
  onText: (text: string) => void;
}) {
  return (
    <div class="yaml">
      <textarea
        aria-label="Policies as YAML, one on each line"
        spellcheck={false}
        readOnly={!isEditable}
        rows={Math.max(10, text.split("\n").length + 2)}
        value={text}
        onInput={(event) => onText(event.currentTarget.value)}
      />
      {mistakes.map(({ at, message }) => (
        <p key={`${at} ${message}`} class="mistake" role="alert">
          line {at + 1}: {message}
        </p>
      ))}
    </div>
  );
}

/** Who changed policies of this pool, newest first. */
function History({ pool }: { pool: string }) {
  const followed = useFollowed(pool, {
    load: async (signal) => {
      const { items } = await client.server.audit({ limit: 1_000 }, { signal });
      return items.filter(
        ({ action, target }) => /polic|pool|group|plan/i.test(action) && target.includes(pool),
      );
    },
    concerns: ({ event }) => event.startsWith("policy.") || event.startsWith("pool."),
  });
  return (
    <Data of={followed}>
      {(entries) =>
        entries.length === 0 ? (
          <Empty title="No changes">Nobody has changed this pool or its policies lately.</Empty>
        ) : (
          <ol class="steps">
            {entries.map(({ id, at, actor, action, target, outcome }) => (
              <li key={id}>
                <Moment at={at} />
                <p>
                  {actor}: {action} {target}
                </p>
                <span class="soft">{outcome}</span>
              </li>
            ))}
          </ol>
        )
      }
    </Data>
  );
}

function PlanBeside({
  changes,
  isWrong,
  onApplied,
}: {
  changes: Changes;
  isWrong: boolean;
  onApplied: () => void;
}) {
  const [made, setMade] = useState<{ key: string; plan?: Plan; error?: BerthError }>();
  const [note, setNote] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [round, setRound] = useState(0);
  const key = JSON.stringify(changes);

  useEffect(() => {
    if (changes.length === 0) return;
    const over = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const body = { changes, horizon_seconds: HORIZON_SECONDS };
        const plan = await client.plans.make(body, { signal: over.signal });
        setMade({ key, plan });
      } catch (error) {
        if (!over.signal.aborted) setMade({ key, error: toBerthError(error) });
      }
    }, TYPING_PAUSE_MS);
    return () => {
      clearTimeout(timer);
      over.abort();
    };
  }, [key, round]);

  const current = made?.key === key ? made : undefined;
  const apply = async (atSeq: number) => {
    setBusy(true);
    setNote("");
    try {
      if ((await applyPlan(changes, atSeq)) === "applied") {
        announce("The changes were made.");
        setMade(undefined);
        onApplied();
      } else {
        setNote("The pool has changed meanwhile, so nothing was done. The plan is made anew.");
        setRound(round + 1);
      }
    } catch (error) {
      setMade({ key, error: toBerthError(error) });
    }
    setBusy(false);
  };

  return (
    <section class="card beside" aria-label="Plan" aria-live="polite">
      {note !== "" && <p class="notice">{note}</p>}
      {changes.length === 0 ? (
        <p class="soft">
          {isWrong
            ? "There is a mistake in the draft."
            : "Change something, and see here what it would do before it is done."}
        </p>
      ) : current?.error !== undefined ? (
        <Failure error={current.error} retry={() => setRound(round + 1)} />
      ) : current?.plan === undefined ? (
        <p class="soft">Planning…</p>
      ) : (
        <>
          <PlanLines plan={current.plan} />
          <p class="actions">
            <button
              type="button"
              class={isHarmful(current.plan.now) ? "main danger" : "main"}
              disabled={isBusy || isOffline.value}
              onClick={() => current.plan && void apply(current.plan.at_seq)}
            >
              Apply
            </button>
          </p>
        </>
      )}
    </section>
  );
}
