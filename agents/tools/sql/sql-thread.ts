/** The thread of the process of queries that runs them, one at a time. */

import { parentPort } from 'node:worker_threads';
import { OpenDatabases } from './open-database.ts';
import { runStatement } from './run-statement.ts';
import type { SqlQuery } from './sql-request.ts';

const databases = new OpenDatabases();

parentPort?.on('message', (query: SqlQuery) => parentPort?.postMessage(runStatement(query, databases)));
// Its modules are loaded: from now on, time is the query's own.
parentPort?.postMessage('ready');
