// "Copy as berth …" (B12).

import { copied, copy } from "../commands.ts";

export function CopyButton({ command }: { command: string }) {
  const isCopied = copied.value === command;
  return (
    <button type="button" class="copy" onClick={() => void copy(command)} title="Copy this command">
      <span class="soft">{isCopied ? "copied" : "copy"}</span> <code>{command}</code>
    </button>
  );
}
