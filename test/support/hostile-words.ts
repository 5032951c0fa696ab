// Pieces of text that shells, parsers and terminals take for something else.

const BLANKS = ["", " ", "  ", "\t", "\n", "\r\n"];
const SHELL =
  "' \" ` \\ \\\\ \\n $HOME `id` !! # ~ * ? [a-z] - -- -e --help --version -c = A=B {} ; & | < > && ||".split(
    " ",
  );
const LETTERS = "é,e\u0301,日本語,🧪,👩‍🔬,\u202e,\ufeff,\ufffd,\u2028,ß".split(",");

export const HOSTILE_PIECES: readonly string[] = [
  ...BLANKS,
  ...SHELL,
  "$(touch x)",
  "$" + "{IFS}",
  ...LETTERS,
];
