// YAML, loaded only by those who need it: a bundled CommonJS package shows its names to static imports alone.

export { LineCounter, parse, parseAllDocuments, stringify } from "yaml";
