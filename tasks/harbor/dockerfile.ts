/**
 * What a Dockerfile says about its last stage: variables, working folder, command, copied files, and whether it runs
 * commands. It is read, never run here: an image is built by the daemon.
 */

import { posix } from 'node:path';
import { filled, type Variables } from './templates.ts';

export interface Dockerfile {
  /** The image that the last stage starts from. */
  readonly from: string;
  /** `ENV` of the last stage. What its image has is not seen. */
  readonly env: Readonly<Record<string, string>>;
  /** Absolute. Absent: the image's own. */
  readonly workdir?: string;
  /** What the container runs: ENTRYPOINT and CMD, as words. Absent: the image's own. */
  readonly command?: readonly string[];
  /** `COPY` and `ADD` of the last stage, from the context. */
  readonly copies: ReadonlyArray<{ readonly from: readonly string[]; readonly to: string }>;
  /** Instructions of the last stage that need a build: RUN, and copies from other stages or addresses. */
  readonly built: readonly string[];
}

interface Instruction {
  readonly name: string;
  readonly rest: string;
}

/** Lines joined at backslashes, without comments and without the bodies of here-documents. */
function instructionsOf(text: string): Instruction[] {
  const found: Instruction[] = [];
  const ends: string[] = [];
  let joined = '';
  for (const line of text.split(/\r?\n/u)) {
    const [end] = ends;
    if (end !== undefined) {
      if (line.trim() === end) ends.shift();
      continue;
    }
    if (/^\s*#/u.test(line) || (joined === '' && line.trim() === '')) continue;
    if (line.trimEnd().endsWith('\\')) {
      joined += `${line.trimEnd().slice(0, -1)} `;
      continue;
    }
    const whole = (joined + line).trim();
    joined = '';
    const [, name = '', rest = ''] = /^(\w+)\s*([^]*)$/u.exec(whole) ?? [];
    if (name === '') continue;
    found.push({ name: name.toUpperCase(), rest: rest.trim() });
    if (['RUN', 'COPY', 'ADD'].includes(name.toUpperCase()))
      for (const [, word = ''] of rest.matchAll(/<<-?\s*["']?(\w+)["']?/gu)) ends.push(word);
  }
  return found;
}

/** Words as a shell splits them: quotes join, a backslash keeps the next character. */
export function wordsOf(text: string): string[] {
  const words: string[] = [];
  let [word, quote, open] = ['', '', false];
  for (let at = 0; at < text.length; at += 1) {
    const char = text.charAt(at);
    if (char === '\\' && quote !== "'" && at + 1 < text.length) {
      at += 1;
      word += text.charAt(at);
      open = true;
    } else if (quote === '' ? char === '"' || char === "'" : char === quote) {
      quote = quote === '' ? char : '';
      open = true;
    } else if (quote === '' && /\s/u.test(char)) {
      if (open) words.push(word);
      [word, open] = ['', false];
    } else {
      word += char;
      open = true;
    }
  }
  return open ? [...words, word] : words;
}

/** The JSON form is a list of words; the other one is a line for a shell. */
function commandOf(rest: string): string[] {
  try {
    const given: unknown = JSON.parse(rest);
    if (Array.isArray(given) && given.every((word) => typeof word === 'string')) return given;
  } catch {
    // It is the other form.
  }
  return ['/bin/sh', '-c', rest];
}

/** `$NAME` as `${NAME}`, with nothing for an unknown one, as the daemon does. */
function expanded(text: string, variables: Variables): string {
  const braced = text.replaceAll(/\$(\w+)/gu, '${$1}').replaceAll(/\$\{(\w+)\}/gu, '${$1:-}');
  return filled(braced, variables, 'Dockerfile');
}

function copyOf(rest: string): { readonly from: string[]; readonly to: string } | undefined {
  const words = rest.startsWith('[') ? commandOf(rest) : wordsOf(rest);
  const flags = words.filter((word) => word.startsWith('--'));
  const paths = words.filter((word) => !word.startsWith('--'));
  const to = paths.at(-1);
  const from = paths.slice(0, -1);
  if (to === undefined || from.length === 0 || flags.some((flag) => flag.startsWith('--from='))) return undefined;
  return from.some((path) => /^<<|^https?:|^git@/u.test(path)) ? undefined : { from, to };
}

/** Reads the last stage. `given`: build arguments. */
export function readDockerfile(text: string, given: Variables = {}): Dockerfile {
  let stage: {
    from: string;
    env: Record<string, string>;
    workdir?: string;
    entry: string[];
    command: string[];
    copies: Array<{ from: string[]; to: string }>;
    built: string[];
  } = { from: '', env: {}, entry: [], command: [], copies: [], built: [] };
  let all: Record<string, string> = { ...given };
  for (const { name, rest } of instructionsOf(text)) {
    const value = (): string => expanded(rest, { ...all, ...stage.env });
    if (name === 'FROM') {
      const from = wordsOf(value()).find((word) => !word.startsWith('--')) ?? '';
      stage = { from, env: {}, entry: [], command: [], copies: [], built: [] };
    } else if (name === 'ARG') {
      for (const word of wordsOf(rest)) {
        const [key = '', ...parts] = word.split('=');
        if (parts.length > 0 && !Object.hasOwn(given, key)) all = { ...all, [key]: parts.join('=') };
      }
    } else if (name === 'ENV') {
      const pairs = /^\w+=/u.test(rest) ? wordsOf(value()) : [value().replace(/^(\S+)\s+/u, '$1=')];
      for (const pair of pairs) {
        const at = pair.indexOf('=');
        if (at > 0) stage.env = { ...stage.env, [pair.slice(0, at)]: pair.slice(at + 1) };
      }
    } else if (name === 'WORKDIR') stage.workdir = posix.resolve(stage.workdir ?? '/', wordsOf(value())[0] ?? '/');
    else if (name === 'ENTRYPOINT') [stage.entry, stage.command] = [commandOf(rest), []];
    else if (name === 'CMD') stage.command = commandOf(rest);
    else if (name === 'RUN') stage.built.push(`RUN ${rest.slice(0, 60)}`);
    else if (name === 'COPY' || name === 'ADD') {
      const copy = copyOf(value());
      if (copy === undefined) stage.built.push(`${name} ${rest.slice(0, 60)}`);
      else stage.copies.push({ ...copy, to: keptSlash(copy.to, posix.resolve(stage.workdir ?? '/', copy.to)) });
    }
  }
  const { from, env, workdir, entry, command, copies, built } = stage;
  const words = [...entry, ...command];
  return {
    from,
    env,
    copies,
    built,
    ...(workdir !== undefined && { workdir }),
    ...(words.length > 0 && { command: words }),
  };
}

/** A slash at the end says that a target is a folder. */
const keptSlash = (given: string, path: string): string => (/(?:\/|^\.|\/\.)$/u.test(given) ? `${path}/` : path);
