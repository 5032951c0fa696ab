// Which pool a view is about; in the address, like every filter.

import { setQuery } from "../address.ts";
import { overview } from "../overview.ts";

export function PoolChoice({ value, all }: { value: string | undefined; all?: string }) {
  const names = overview.value.data?.pools.map(({ name }) => name) ?? [];
  const known = value === undefined || names.includes(value) ? names : [...names, value];
  return (
    <label class="choice">
      <span>pool</span>
      <select
        value={value ?? ""}
        onChange={(event) => setQuery({ pool: event.currentTarget.value, open: undefined })}
      >
        {all !== undefined && <option value="">{all}</option>}
        {known.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}
