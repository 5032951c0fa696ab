// The frame around every view (B11–B13), and which view is open.

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { path } from "../address.ts";
import { announcement } from "../announce.ts";
import { areKeysShown, KEYS } from "../keys.ts";
import { isOffline } from "../live.ts";
import { useOverview } from "../overview.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Empty, Failure, Loading } from "../parts/states.tsx";
import { begin, session, toBerthError } from "../session.ts";
import { Alerts } from "./alerts.tsx";
import { Header } from "./header.tsx";
import { SignIn } from "./sign-in.tsx";

type View = ComponentType<{ number?: string }>;

/** Each is a chunk of its own (B2). */
const views: Readonly<Record<string, () => Promise<{ View: View }>>> = {
  "/": () => import("../views/overview.tsx"),
  "/queue": () => import("../views/queue.tsx"),
  "/timeline": () => import("../views/timeline.tsx"),
  "/shares": () => import("../views/shares.tsx"),
  "/policies": () => import("../views/policies.tsx"),
  "/requests": () => import("../views/request.tsx"),
};

export function App() {
  const { value } = session;
  switch (value.kind) {
    case "checking":
      return <Loading />;
    case "signedOut":
      return <SignIn why={value.why} />;
    case "unreachable":
      return (
        <main class="alone">
          <Failure error={value.why} retry={() => void begin()} />
        </main>
      );
    case "signedIn":
      return <Frame />;
  }
}

function Frame() {
  useOverview();
  return (
    <div class={isOffline.value ? "frame is-offline" : "frame"}>
      <a class="skip" href="#main">
        Skip to the view
      </a>
      <Header />
      <Alerts />
      <main id="main" tabIndex={-1}>
        <CurrentView />
      </main>
      {areKeysShown.value && <Keys />}
      <p class="hidden" role="status" aria-live="polite">
        {announcement.value}
      </p>
    </div>
  );
}

function CurrentView() {
  const [, name = "", number] = /^(\/\w*)(?:\/(\d+))?$/.exec(path.value) ?? [];
  const load = (number === undefined) === (name !== "/requests") ? views[name] : undefined;
  const [loaded, setLoaded] = useState<{ name: string; View: View }>();
  const [failure, setFailure] = useState<unknown>();
  useEffect(() => {
    let isOver = false;
    setFailure(undefined);
    load?.().then(
      ({ View }) => !isOver && setLoaded({ name, View }),
      (error: unknown) => !isOver && setFailure(error),
    );
    return () => {
      isOver = true;
    };
  }, [name, load === undefined]);
  if (load === undefined) {
    return (
      <Empty title="There is no such view" command="berth dashboard">
        {path.value} is not a view of the dashboard.
      </Empty>
    );
  }
  if (failure !== undefined) return <Failure error={toBerthError(failure)} retry={() => location.reload()} />;
  if (loaded?.name !== name) return <Loading />;
  return number === undefined ? <loaded.View /> : <loaded.View key={number} number={number} />;
}

function Keys() {
  return (
    <Dialog
      title="Keys"
      onClose={() => {
        areKeysShown.value = false;
      }}
    >
      <dl class="keys">
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              {key.split(/ +/).map((one) => (
                <kbd key={one}>{one}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
