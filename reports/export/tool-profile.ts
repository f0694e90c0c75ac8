/** The tool calls of a rollout, from the records of its turns: every call that could be read counts, whatever it did. */

import type { GenerateRecord } from '../../protocol/records.ts';
import type { ToolProfile } from './skyrl/metrics.ts';

export function toolProfileOf(turns: readonly GenerateRecord[]): ToolProfile {
  const byName: Record<string, number> = {};
  const calls = turns.flatMap(({ parsed }) => (parsed.kind === 'calls' ? parsed.calls : []));
  for (const { name } of calls) byName[name] = (byName[name] ?? 0) + 1;
  return { total: calls.length, byName };
}
