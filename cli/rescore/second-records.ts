/**
 * The store as a second grading sees it: what a rollout did is read from its records, and everything that the grading
 * records has keys of its own (`again:`). The first verdicts, outcomes and events are never read or changed.
 */

import type { RolloutEvent, Store } from '../../store/store.ts';

/** Kinds of records of what a rollout did. A second record (of a step that ran again) comes before the first. */
const DONE: ReadonlySet<string> = new Set([
  'generate',
  'act',
  'answer',
  'start',
  'program',
  'mcp',
  'object',
  'collect',
]);
const OWN = 'again:';

const kindOf = (key: string): string => key.slice(0, key.indexOf(':'));

/** The id under which a rollout is graded again. `name`: of the second grading. */
export const secondId = (rollout: string, name: string): string => `${rollout}@${name}`;

export function secondRecords(store: Store, name: string): Store {
  const mark = `@${name}#`;
  const first = (key: string): string => key.replace(mark, '#');
  const second = (key: string): string => key.replace('#', mark);
  const get = async <T>(key: string): Promise<T | undefined> => {
    const own = await store.get<T>(`${OWN}${key}`);
    if (own !== undefined) return own;
    if (DONE.has(kindOf(key))) return key.includes(mark) ? store.get<T>(first(key)) : undefined;
    return key.includes(mark) ? undefined : store.get<T>(key);
  };
  const list = async <T>(prefix: string): Promise<Array<{ readonly key: string; readonly value: T }>> => {
    const own = (await store.list<T>(`${OWN}${prefix}`)).map(({ key, value }) => ({
      key: key.slice(OWN.length),
      value,
    }));
    if (!prefix.includes(mark)) return [...own, ...(await store.list<T>(prefix))];
    const before = DONE.has(kindOf(prefix)) ? await store.list<T>(first(prefix)) : [];
    const rows = new Map(before.map(({ key, value }) => [second(key), value]));
    for (const { key, value } of own) rows.set(key, value);
    return [...rows].map(([key, value]) => ({ key, value })).toSorted((a, b) => (a.key < b.key ? -1 : 1));
  };
  const over: Partial<Store> = {
    get,
    list,
    putOnce: (key, value) => store.putOnce(`${OWN}${key}`, value),
    putOnceWithObject: (key, bytes, valueOf) => store.putOnceWithObject(`${OWN}${key}`, bytes, valueOf),
    begin: (key) => store.begin(`${OWN}${key}`),
    begun: (key) => store.begun(`${OWN}${key}`),
    // What judges cost is real. Nothing else of a second grading belongs into the table of events.
    append: (events: readonly RolloutEvent[]) => store.append(events.filter(({ event }) => event === 'spent')),
  };
  return new Proxy(store, {
    get(target, property) {
      const value: unknown = Reflect.get(over, property) ?? Reflect.get(target, property, target);
      return typeof value === 'function' && Reflect.get(over, property) === undefined ? value.bind(target) : value;
    },
  });
}
