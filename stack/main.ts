/** The entry of the supervisor process: `node stack/main.ts HOME`. */

import { runSupervisor } from './run-supervisor.ts';
import { stackPlan } from './stack-plan.ts';

const home = process.argv[2];
if (home === undefined) throw new TypeError('usage: node stack/main.ts HOME');
await runSupervisor(home, stackPlan);
// A connection to the server may keep the event loop alive, and everything that matters is written.
process.exit(0);
