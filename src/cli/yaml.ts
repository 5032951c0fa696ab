// YAML, loaded only by those who need it: a bundled CommonJS package shows its names to static imports alone.

export { parse, parseAllDocuments, stringify } from "yaml";
