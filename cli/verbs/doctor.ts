/** `longhaul doctor`: looks at each thing that Longhaul uses on this machine, and changes nothing. */

import { packageRoot } from '#setup/paths.mjs';
import { examine } from '../doctor/examine.ts';
import type { Finding } from '../doctor/finding.ts';
import { table } from '../table.ts';
import type { Verb } from '../verb.ts';

export const doctor: Verb = {
  define(command, run) {
    command.action(() =>
      run(async ({ env, say }) => {
        const findings = await examine(packageRoot, env);
        const lacking = findings.filter((one) => one.required && one.state === 'missing');
        for (const line of table(findings.map(row))) say(line);
        for (const one of findings) if (one.remedy !== undefined) say(`${one.name}: ${one.remedy}`);
        say(lacking.length === 0 ? 'everything required is here' : `required and missing: ${lacking.map((one) => one.name).join(', ')}`);
        return { document: { ok: lacking.length === 0, checks: findings }, exitCode: lacking.length === 0 ? 0 : 3 };
      }),
    );
  },
};

function row({ name, state, required, found }: Finding): string[] {
  const mark = state === 'ok' ? 'ok' : required ? 'MISSING' : 'absent';
  return [mark, name, found ?? '-'];
}
