// The page of the dashboard. It talks to the server through the SDK only, and is served by every server (B1).

import { effect, untracked } from "@preact/signals";
import { render } from "preact";
import { followLinks } from "./address.ts";
import { App } from "./frame/app.tsx";
import { onKey } from "./keys.ts";
import { keepSession, runStream, startClock } from "./live.ts";
import { begin, session } from "./session.ts";

const root = document.querySelector("#app") as HTMLElement;
root.replaceChildren();
document.addEventListener("click", followLinks);
document.addEventListener("keydown", onKey);
startClock();
keepSession();
effect(() => {
  const { value } = session;
  // Untracked: what the stream reads on its way is no reason for a second one.
  if (value.kind === "signedIn") untracked(() => void runStream(value.identity));
});
render(<App />, root);
await begin();
