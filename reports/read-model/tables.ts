/**
 * The tables of the read model: what lists and reports search for, with an index for each filter. All of it follows
 * from the store, so a file with another format is emptied and filled again.
 */

import type { DatabaseSync } from 'node:sqlite';

const FORMAT = 2;

const SCHEMA = `
CREATE TABLE state (made TEXT NOT NULL, cursor TEXT);
INSERT INTO state (made) VALUES (hex(randomblob(8)));
CREATE TABLE runs (name TEXT PRIMARY KEY, kind TEXT NOT NULL, started_at TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE starts (run TEXT, number INTEGER, PRIMARY KEY (run, number)) WITHOUT ROWID;
CREATE TABLE ends (run TEXT, number INTEGER, status TEXT, finished_at TEXT, PRIMARY KEY (run, number)) WITHOUT ROWID;
CREATE TABLE sources (run TEXT, source TEXT, PRIMARY KEY (run, source)) WITHOUT ROWID;
CREATE TABLE batches (run TEXT, batch TEXT, step INTEGER, PRIMARY KEY (run, batch)) WITHOUT ROWID;
CREATE TABLE rollouts (
  rollout TEXT PRIMARY KEY, run TEXT NOT NULL, batch TEXT NOT NULL, step INTEGER, task TEXT, source TEXT,
  attempt INTEGER NOT NULL DEFAULT 1, turns INTEGER NOT NULL DEFAULT 0, restores INTEGER NOT NULL DEFAULT 0,
  status TEXT NOT NULL DEFAULT 'running', reward REAL, passed INTEGER, finish TEXT, failure TEXT,
  first_at TEXT, dispatched_at TEXT, started_at TEXT, graded_at TEXT, ended TEXT, ended_at TEXT, detail TEXT,
  again INTEGER NOT NULL DEFAULT 0, begun REAL) WITHOUT ROWID;
CREATE INDEX rollouts_by_run ON rollouts (run, step, task);
CREATE INDEX rollouts_by_end ON rollouts (run, ended);
CREATE INDEX rollouts_by_batch ON rollouts (run, batch);
CREATE INDEX rollouts_by_step ON rollouts (step);
CREATE INDEX rollouts_by_task ON rollouts (task);
CREATE INDEX rollouts_by_source ON rollouts (source);
CREATE INDEX rollouts_by_status ON rollouts (status);
CREATE INDEX rollouts_by_reward ON rollouts (reward);
CREATE INDEX rollouts_by_failure ON rollouts (failure);
CREATE INDEX rollouts_by_time ON rollouts (first_at);
CREATE TABLE gradings (
  seq INTEGER PRIMARY KEY, run TEXT NOT NULL, batch TEXT NOT NULL, place TEXT NOT NULL, begun REAL NOT NULL,
  ended REAL NOT NULL);
CREATE INDEX gradings_by_batch ON gradings (run, batch, seq);
CREATE TABLE batch_ends (run TEXT, batch TEXT, ended REAL NOT NULL, PRIMARY KEY (run, batch)) WITHOUT ROWID;
CREATE TABLE calls (
  rollout TEXT, attempt INTEGER, turn INTEGER, kind TEXT, place INTEGER, started TEXT,
  starts INTEGER NOT NULL DEFAULT 0, ended TEXT, PRIMARY KEY (rollout, attempt, turn, kind, place)) WITHOUT ROWID;
CREATE TABLE spending (
  run TEXT, batch TEXT, spender TEXT, calls INTEGER NOT NULL, prompt INTEGER NOT NULL, sampled INTEGER NOT NULL,
  usd REAL NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (run, batch, spender)) WITHOUT ROWID;
CREATE TABLE pruned (run TEXT PRIMARY KEY, at TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE damaged (kind TEXT NOT NULL, key TEXT NOT NULL, run TEXT);
`;

/** Empties the model. */
export function makeTables(db: DatabaseSync): void {
  const names = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").all();
  for (const { name } of names) db.exec(`DROP TABLE "${String(name)}"`);
  db.exec(`${SCHEMA} PRAGMA user_version=${FORMAT};`);
}

/** True if the tables are those of this version. */
export function hasTables(db: DatabaseSync): boolean {
  return db.prepare('PRAGMA user_version').get()?.['user_version'] === FORMAT;
}
