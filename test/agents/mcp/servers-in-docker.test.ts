/** The suite about MCP servers, in containers. */

import { overDocker } from '../../sandboxes/harness.ts';

overDocker('socket');
await import('./servers.test.ts');
