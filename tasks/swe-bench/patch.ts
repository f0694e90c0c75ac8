/**
 * Patches of git as bytes, each byte one character (`latin1`), so that what is no UTF-8 stays as it is. Reading one is
 * linear in its size, and nothing in a patch's content is taken for a header.
 */

/** What a patch does to one file. */
export interface Section {
  /** Relative to the repository, the new name if there are two. Empty: it could not be read. */
  readonly path: string;
  /** The name before, if it is another one. */
  readonly from?: string;
  readonly isNew: boolean;
  readonly isDeleted: boolean;
  readonly isBinary: boolean;
  readonly text: string;
}

const ESCAPES: Readonly<Record<string, string>> = { a: '\x07', b: '\b', t: '\t', n: '\n', v: '\v', f: '\f', r: '\r' };

/** Reads a name that git quotes: `"a/\303\274.py"`. */
function unquoted(name: string): string {
  if (!name.startsWith('"')) return name;
  return name
    .slice(1, name.endsWith('"') ? -1 : undefined)
    .replaceAll(/\\([0-7]{3}|.)/gu, (_, code: string) =>
      code.length === 3 ? String.fromCharCode(Number.parseInt(code, 8)) : (ESCAPES[code] ?? code),
    );
}

const withoutSide = (name: string): string => name.replace(/^[ab]\//u, '');

/** The names of `diff --git A B`: equal without their side, unless a line of the header says otherwise. */
function namesIn(first: string): readonly [string, string] | undefined {
  const rest = first.slice('diff --git '.length).replace(/\r$/u, '');
  const quoted = /^("(?:[^"\\]|\\.)*"|\S+) ("(?:[^"\\]|\\.)*"|\S+)$/u.exec(rest);
  if (quoted) return [withoutSide(unquoted(quoted[1] ?? '')), withoutSide(unquoted(quoted[2] ?? ''))];
  const half = (rest.length - 1) / 2;
  const [a, b] = [rest.slice(0, half), rest.slice(half + 1)];
  return withoutSide(a) === withoutSide(b) ? [withoutSide(a), withoutSide(b)] : undefined;
}

function sectionOf(text: string): Section {
  const hunks = text.search(/^@@ /mu);
  const lines = (hunks < 0 ? text : text.slice(0, hunks)).split('\n');
  const said = (prefix: string): string | undefined => {
    const line = lines.find((one) => one.startsWith(prefix))?.slice(prefix.length);
    return line === undefined ? undefined : unquoted(line.replace(/[\t\r].*$/u, ''));
  };
  const [before, after] = namesIn(lines[0] ?? '') ?? [];
  const isNew = lines.some((line) => line.startsWith('new file mode'));
  const [old, now] = ['--- ', '+++ ']
    .map((side) => said(side))
    .map((name) => (name === '/dev/null' ? undefined : name));
  const from = said('rename from ') ?? said('copy from ') ?? (old === undefined ? before : withoutSide(old));
  const path =
    said('rename to ') ?? said('copy to ') ?? (now === undefined ? undefined : withoutSide(now)) ?? after ?? from;
  const isDeleted = lines.some((line) => line.startsWith('deleted file mode'));
  const isBinary = lines.some(
    (line) => line.startsWith('GIT binary patch') || /^Binary files .* differ\r?$/u.test(line),
  );
  return {
    path: path ?? '',
    isNew,
    isDeleted,
    isBinary,
    text,
    ...(!isNew && from !== undefined && from !== path && { from }),
  };
}

/** What comes before the first header is dropped. */
export function sectionsOf(patch: string): Section[] {
  const starts = [...patch.matchAll(/^diff --git /gmu)].map(({ index }) => index);
  return starts.map((start, i) => sectionOf(patch.slice(start, starts[i + 1])));
}

/** The names of the files that a patch touches, old and new, each once. */
export function pathsOf(patch: string): string[] {
  const paths = sectionsOf(patch).flatMap(({ path, from }) => (from === undefined ? [path] : [path, from]));
  return [...new Set(paths)].filter((path) => path !== '');
}

/** True for a path that a grader may name in a shell: inside of the repository, and not git's own. */
const isSafe = (path: string): boolean =>
  path !== '' &&
  !path.startsWith('/') &&
  !path.split('/').some((part) => part === '..' || part.toLowerCase() === '.git');

/** The agent's patch, ready to apply. */
export interface Candidate {
  /** `latin1`. Ends with a line feed, unless it is empty. */
  readonly patch: string;
  /** Files that it makes. */
  readonly made: readonly string[];
  /** Files whose changes were left out, each with the reason. */
  readonly dropped: ReadonlyArray<{ readonly path: string; readonly why: 'binary' | 'outside' | 'tests' }>;
}

/** `withheld`: files that the agent may not change, such as the hidden tests. */
export function candidateOf(collected: Uint8Array, withheld: (path: string) => boolean): Candidate {
  const sections = sectionsOf(Buffer.from(collected).toString('latin1'));
  const kept: Section[] = [];
  const dropped: Array<Candidate['dropped'][number]> = [];
  for (const section of sections) {
    const paths = [section.path, section.from ?? section.path];
    const why = section.isBinary
      ? 'binary'
      : !paths.every(isSafe)
        ? 'outside'
        : paths.some(withheld)
          ? 'tests'
          : undefined;
    if (why === undefined) kept.push(section);
    else dropped.push({ path: section.path, why });
  }
  const text = kept.map((section) => section.text).join('');
  return {
    patch: text === '' || text.endsWith('\n') ? text : `${text}\n`,
    made: kept.filter(({ isNew }) => isNew).map(({ path }) => path),
    dropped,
  };
}

/** Data that tests read: never named to a test runner (`NON_TEST_EXTS` of SWE-bench). */
const DATA = /(?:\.json|\.png|csv|\.txt|\.md|\.jpe?g|\.pkl|\.ya?ml|\.toml)$/u;

export const isTestFile = (path: string): boolean => !DATA.test(path);
