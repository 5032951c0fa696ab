// berth completion bash|zsh|fish: prints what makes a shell complete commands, options and live names.

import type { Command } from "commander";
import { CHOICES } from "./choices.ts";
import type { CliContext } from "./context.ts";
import { oneOf } from "./options.ts";

const HELP = `
Examples:
  source <(berth completion bash)                                     this shell
  berth completion bash > ~/.local/share/bash-completion/completions/berth
  berth completion zsh > ~/.zfunc/_berth                              with fpath+=~/.zfunc in ~/.zshrc
  berth completion fish > ~/.config/fish/completions/berth.fish
`;

export function define(command: Command, context: CliContext): void {
  command
    .argument("<shell>", "bash, zsh or fish")
    .addHelpText("after", HELP)
    .action((shell: string) => context.write(SCRIPTS[oneOf("The shell", shell, CHOICES.shell)]));
}

// Each asks `berth __complete` with the words so far, the last one being what is typed now. It answers with lines of
// a word, a tab, and what it means.
const SCRIPTS = {
  bash: `# bash completion for berth
_berth() {
  local IFS=$'\\n' cur="\${COMP_WORDS[COMP_CWORD]}" line
  COMPREPLY=()
  while IFS= read -r line; do
    line="\${line%%$'\\t'*}"
    [[ "$line" == "$cur"* ]] && COMPREPLY+=("$(printf '%q' "$line")")
  done < <("\${COMP_WORDS[0]}" __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  [[ \${#COMPREPLY[@]} -eq 0 ]] && compopt -o default 2>/dev/null
  return 0
}
complete -F _berth berth ./berth
`,
  zsh: `#compdef berth
# zsh completion for berth
_berth() {
  local -a found
  local line
  while IFS= read -r line; do
    found+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done < <("\${words[1]}" __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( \${#found} )); then _describe 'berth' found; else _files; fi
}
if [ "\${funcstack[1]}" = "_berth" ]; then _berth "$@"; else compdef _berth berth; fi
`,
  fish: `# fish completion for berth
function __berth_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  $words[1] __complete -- $words[2..-1] "$current" 2>/dev/null
end
complete -c berth -f -a '(__berth_complete)'
`,
} as const;
