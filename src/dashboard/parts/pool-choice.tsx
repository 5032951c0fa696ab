// Which pool a view is about; in the address, like every filter.

import type { ComponentChildren } from "preact";
import { queryOf, setQuery } from "../address.ts";
import { chosenPool, overview } from "../overview.ts";
import { Data, Empty } from "./states.tsx";

/** A view of one pool; without any, what it would show. */
export function PoolView({
  title,
  about,
  children,
}: {
  title: string;
  about: string;
  children: (pool: string) => ComponentChildren;
}) {
  const pool = chosenPool(queryOf("pool"))?.name ?? queryOf("pool");
  return (
    <>
      <h1 class="hidden">{title}</h1>
      {pool === undefined ? (
        <Data of={overview.value}>
          {() => (
            <Empty title="No pools yet" command="berth pool create lab --capacity gpu=8">
              {about}
            </Empty>
          )}
        </Data>
      ) : (
        children(pool)
      )}
    </>
  );
}

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
