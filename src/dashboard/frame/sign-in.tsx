// Signing in: by the link that `berth up` or `berth dashboard` prints, or by a token that is pasted here (B8).

import { useState } from "preact/hooks";
import type { BerthError } from "../../sdk/index.ts";
import { CopyButton } from "../parts/copy.tsx";
import { signIn } from "../session.ts";

export function SignIn({ why }: { why: BerthError | undefined }) {
  const [token, setToken] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    if (token.trim() !== "") void signIn({ token: token.trim() });
  };
  return (
    <main class="alone sign-in">
      <h1>
        <svg viewBox="0 0 32 32" aria-hidden="true">
          <rect width="32" height="32" rx="7" />
          <path d="M7 21h18M9 21v-6h5v6M16 21V9h6v12" />
        </svg>
        Berth
      </h1>
      {why !== undefined && (
        <div class="notice" role="alert">
          <p>{why.message}</p>
          {why.hint && <p class="soft">{why.hint}</p>}
          <code class="soft">{why.code}</code>
        </div>
      )}
      <p>Type this in a terminal; the link that it prints signs you in, once.</p>
      <CopyButton command="berth dashboard" />
      <form onSubmit={submit}>
        <label for="token">Or paste a token</label>
        <input
          id="token"
          type="password"
          autocomplete="off"
          spellcheck={false}
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <button type="submit" class="main">
          Sign in
        </button>
        <p class="soft">
          It is exchanged for a session of this browser: 12 hours, one hour without use. The page does not
          keep the token.
        </p>
      </form>
    </main>
  );
}
