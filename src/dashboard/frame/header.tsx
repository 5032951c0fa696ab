// The top of the page: views, how old the state is, find, keys, who is signed in.

import { useRef } from "preact/hooks";
import { ageOf } from "../../sdk/index.ts";
import { go, hrefOf, path, queryOf } from "../address.ts";
import { command } from "../commands.ts";
import { areKeysShown, VIEWS } from "../keys.ts";
import { type Connection, connection, nowMs, togglePause, tryNow } from "../live.ts";
import { CopyButton } from "../parts/copy.tsx";
import { momentText } from "../parts/time.tsx";
import { session, signOut } from "../session.ts";

export function Header() {
  return (
    <header class="top">
      <a class="brand" href={hrefOf("/")} aria-label="Berth, overview">
        <svg viewBox="0 0 32 32" aria-hidden="true">
          <rect width="32" height="32" rx="7" />
          <path d="M7 21h18M9 21v-6h5v6M16 21V9h6v12" />
        </svg>
        Berth
      </a>
      <nav aria-label="Views">
        {VIEWS.map((view) => (
          <a
            key={view.path}
            href={hrefOf(view.path)}
            aria-current={isOpen(view.path) ? "page" : undefined}
            title={`${view.name} (g ${view.key})`}
          >
            {view.name}
          </a>
        ))}
      </nav>
      <div class="tools">
        <LiveMark />
        <Find />
        <CopyButton command={command.value} />
        <button
          type="button"
          class="plain"
          aria-label="Keys"
          onClick={() => {
            areKeysShown.value = true;
          }}
        >
          <kbd>?</kbd>
        </button>
        <Who />
      </div>
    </header>
  );
}

function isOpen(view: string): boolean {
  return path.value === view || (view === "/queue" && path.value.startsWith("/requests/"));
}

/** In words, with a mark beside them: filled, ring or cross (B11). */
export function connectionText(state: Connection, now: number): { mark: string; text: string } {
  switch (state.kind) {
    case "live":
      return { mark: "●", text: "live" };
    case "connecting":
      return { mark: "○", text: "connecting" };
    case "interrupted":
      return { mark: "○", text: `${ageOf(new Date(state.sinceMs).toISOString(), now)} old` };
    case "paused":
      return { mark: "○", text: `paused, ${ageOf(new Date(state.sinceMs).toISOString(), now)} old` };
    case "offline":
      return { mark: "✕", text: `offline, as of ${momentText(state.sinceMs, true)}` };
  }
}

function LiveMark() {
  const { value } = connection;
  const { mark, text } = connectionText(value, nowMs.value);
  const isAway = value.kind === "offline" || value.kind === "interrupted";
  const title = isAway ? "Try again now" : value.kind === "paused" ? "Go on (.)" : "Pause (.)";
  return (
    <button type="button" class={`live ${value.kind}`} onClick={isAway ? tryNow : togglePause} title={title}>
      <span class="mark" aria-hidden="true">
        {mark}
      </span>
      {text}
    </button>
  );
}

function Find() {
  const field = useRef<HTMLInputElement>(null);
  const submit = (event: Event) => {
    event.preventDefault();
    const text = field.current?.value.trim() ?? "";
    const number = /^#(\d+)$/.exec(text)?.[1];
    const pool = queryOf("pool");
    go(number === undefined ? hrefOf("/queue", { pool, q: text }) : hrefOf(`/requests/${number}`));
    field.current?.blur();
  };
  return (
    <search>
      <form onSubmit={submit}>
        <input
          id="find"
          ref={field}
          type="search"
          placeholder="find  /"
          aria-label="Find requests by name, or #number"
          autocomplete="off"
        />
      </form>
    </search>
  );
}

function Who() {
  if (session.value.kind !== "signedIn") return null;
  const { name, role, components, pools } = session.value.identity;
  return (
    <>
      <button type="button" class="plain who" popovertarget="who">
        {name} <span aria-hidden="true">▾</span>
      </button>
      <div id="who" popover="auto">
        <p>
          <b>{name}</b>
          <br />
          <span class="soft">
            {role}
            {components !== null && `, components ${components.join(", ")}`}
            {pools !== null && `, pools ${pools.join(", ")}`}
          </span>
        </p>
        <button type="button" onClick={() => void signOut()}>
          Sign out
        </button>
      </div>
    </>
  );
}
