/** `longhaul doctor`: checks each part that Longhaul uses on this machine, and changes nothing. */

import { packageRoot } from '#setup/paths.mjs';
import { DISKS, examine } from '../../doctor/examine.ts';
import type { Finding } from '../../doctor/finding.ts';
import { examineRecords, recordLines } from '../../doctor/store.ts';
import { table } from '../../terminal-text.ts';
import type { Outcome, Verb, VerbContext } from '../../verb.ts';

export const doctor: Verb = {
  define(command, run) {
    command
      .option(
        '--store',
        "instead, verify every record of this folder's store and its checkpoints; exit code 1 if one is damaged",
      )
      .action(({ store }: { readonly store?: boolean }) => run(store === true ? ofStore : ofMachine));
  },
};

async function ofMachine({ env, say }: VerbContext): Promise<Outcome> {
  const findings = await examine(packageRoot, env);
  const lacking = findings.filter((one) => one.required && one.state === 'missing');
  // A full disk blocks everything else, so it is reported first.
  for (const { name, remedy = '' } of lacking) if (name === DISKS) say(remedy);
  for (const line of table(findings.map(row))) say(line);
  for (const one of findings)
    if (one.remedy !== undefined && !(one.name === DISKS && one.state === 'missing')) say(`${one.name}: ${one.remedy}`);
  say(
    lacking.length === 0
      ? 'everything required is here'
      : `required and missing: ${lacking.map((one) => one.name).join(', ')}`,
  );
  return { document: { ok: lacking.length === 0, checks: findings }, exitCode: lacking.length === 0 ? 0 : 3 };
}

async function ofStore(context: VerbContext): Promise<Outcome> {
  const verdict = await examineRecords(context);
  if (verdict === undefined) {
    context.say('there is no store in this folder yet: the first run creates one');
    return { document: { ok: true, store: null } };
  }
  for (const line of recordLines(verdict)) context.say(line);
  return { document: { ok: verdict.ok, store: verdict }, exitCode: verdict.ok ? 0 : 1 };
}

function row({ name, state, required, found }: Finding): string[] {
  const mark = state === 'ok' ? 'ok' : required ? 'MISSING' : 'absent';
  return [mark, name, found ?? '-'];
}
