// The page of the dashboard. It talks to the server through the SDK only, and is served by every server (B1).

import { effect } from "@preact/signals";
import { render } from "preact";
import { followLinks } from "./address.ts";
import { App } from "./frame/app.tsx";
import { onKey } from "./keys.ts";
import { runStream, startClock } from "./live.ts";
import { begin, session } from "./session.ts";

const root = document.querySelector("#app") as HTMLElement;
root.replaceChildren();
document.addEventListener("click", followLinks);
document.addEventListener("keydown", onKey);
startClock();
effect(() => {
  if (session.value.kind === "signedIn") void runStream(session.value.identity);
});
render(<App />, root);
await begin();
