/**
 * What a source file defines, and which names it uses where, from its syntax tree. A tree is walked without recursion,
 * and parsing ends at a time limit: the text is the policy's.
 */

import { access, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Node, Parser } from 'web-tree-sitter';
import { type Language, languageOf, type SymbolKind } from './languages.ts';

export interface CodeSymbol {
  readonly name: string;
  readonly kind: SymbolKind;
  /** Names of the definitions around it, joined by dots. Empty: there is none. */
  readonly container: string;
  /** From 1. */
  readonly line: number;
  readonly endLine: number;
}

export interface ParsedFile {
  readonly symbols: readonly CodeSymbol[];
  /** The lines, from 1, on which each name is used or defined, in order. */
  readonly names: ReadonlyMap<string, readonly number[]>;
}

/** Milliseconds for one file. Its text has at most a megabyte. */
const LONGEST_MS = 2000;
/** Definitions and lines of names that are kept of one file. */
const MOST_SYMBOLS = 5000;
const MOST_USES = 100_000;
const LONGEST_NAME = 200;
/** Each definition has the names of all around it: only their end is kept. */
const LONGEST_CONTAINER = 1000;

const IDENTIFIER = /identifier$/u;

/** The folder of the grammars: beside this module, or in the package if this module was compiled into `dist`. */
async function grammarFile(grammar: string): Promise<string> {
  const here = ['grammars/', '../../../agents/code-search/grammars/'].map((place) =>
    fileURLToPath(new URL(`${place}tree-sitter-${grammar}.wasm`, import.meta.url)),
  );
  for (const file of here) {
    const found = await access(file).then(
      () => true,
      () => false,
    );
    if (found) return file;
  }
  throw new Error(`there is no grammar in ${here.join(' or ')}`);
}

/** Parsers by grammar; each is loaded once per process. */
const parsers = new Map<string, Promise<Parser>>();

function parserFor({ grammar }: Language): Promise<Parser> {
  const known = parsers.get(grammar);
  if (known) return known;
  const made = (async () => {
    const { Language: Grammar, Parser: Made } = await import('web-tree-sitter');
    await Made.init();
    const parser = new Made();
    parser.setLanguage(await Grammar.load(new Uint8Array(await readFile(await grammarFile(grammar)))));
    return parser;
  })();
  parsers.set(grammar, made);
  made.catch(() => parsers.delete(grammar));
  return made;
}

/** The name in a declarator of C, below pointers, arrays and functions. */
function declaredName(declarator: Node): Node | null {
  let node: Node | null = declarator;
  for (let depth = 0; node !== null && depth < 20; depth += 1) {
    if (IDENTIFIER.test(node.type)) return node;
    node = node.childForFieldName('declarator') ?? node.namedChildren.find((child) => child !== null) ?? null;
  }
  return null;
}

/** The nodes that are named by a definition: mostly one. */
function namesOf(node: Node): Node[] {
  if (node.type === 'impl_item') return [node.childForFieldName('type')].filter((name) => name !== null);
  if (node.type === 'assignment') {
    const left = node.childForFieldName('left');
    return left?.type === 'identifier' ? [left] : [];
  }
  const names = node.childrenForFieldName('name').filter((name) => name !== null);
  if (names.length > 0) return names.filter(({ type }) => IDENTIFIER.test(type));
  return node
    .childrenForFieldName('declarator')
    .flatMap((declarator) => (declarator === null ? [] : (declaredName(declarator) ?? [])));
}

/** A type's name without its body is a use of it. */
const isDefinition = (node: Node): boolean =>
  !/^(?:struct|union|enum)_specifier$/u.test(node.type) || node.childForFieldName('body') !== null;

class Walk {
  readonly #language: Language;
  readonly symbols: CodeSymbol[] = [];
  readonly names = new Map<string, number[]>();
  #uses = 0;

  constructor(language: Language) {
    this.#language = language;
  }

  run(root: Node): void {
    const open: Array<{ readonly node: Node; readonly container: string; readonly inFunction: boolean }> = [
      { node: root, container: '', inFunction: false },
    ];
    for (let at = open.pop(); at !== undefined; at = open.pop()) {
      const { node, container, inFunction } = at;
      if (node.namedChildCount === 0 && IDENTIFIER.test(node.type)) this.#use(node);
      const kind = this.#kindOf(node, inFunction);
      const defined = kind === undefined ? [] : this.#define(node, kind, container);
      const inside =
        defined === undefined || defined.length === 0
          ? container
          : [container, defined[0]].filter(Boolean).join('.').slice(-LONGEST_CONTAINER);
      const within = inFunction || kind === 'function' || kind === 'method';
      for (const child of node.namedChildren.toReversed())
        if (child !== null) open.push({ node: child, container: inside, inFunction: within });
    }
  }

  #kindOf(node: Node, inFunction: boolean): SymbolKind | undefined {
    const { definitions, outer } = this.#language;
    const kind = definitions[node.type] ?? (inFunction ? undefined : outer[node.type]);
    return kind !== undefined && isDefinition(node) ? kind : undefined;
  }

  #define(node: Node, kind: SymbolKind, container: string): string[] {
    const names = namesOf(node).map(({ text }) => text.slice(0, LONGEST_NAME));
    const isMethod =
      kind === 'function' && container !== '' && /class|impl|trait|object|interface/u.test(parentOf(node));
    for (const name of names)
      if (this.symbols.length < MOST_SYMBOLS)
        this.symbols.push({
          name,
          kind: isMethod ? 'method' : kind,
          container,
          line: node.startPosition.row + 1,
          endLine: node.endPosition.row + 1,
        });
    return names;
  }

  #use(node: Node): void {
    if (this.#uses >= MOST_USES) return;
    const name = node.text.slice(0, LONGEST_NAME);
    const line = node.startPosition.row + 1;
    const lines = this.names.get(name);
    if (lines === undefined) this.names.set(name, [line]);
    else if (lines.at(-1) !== line) lines.push(line);
    this.#uses += 1;
  }
}

/** The type of the node around a definition's block. */
function parentOf(node: Node): string {
  const block = node.parent?.type === 'decorated_definition' ? node.parent.parent : node.parent;
  return block?.parent?.type ?? '';
}

/** `undefined` if the file's language is not known, or if it takes too long. */
export async function parseFile(path: string, text: string): Promise<ParsedFile | undefined> {
  const language = languageOf(path);
  if (language === undefined) return undefined;
  const parser = await parserFor(language);
  const end = Date.now() + LONGEST_MS;
  parser.reset();
  // The library's type says that nothing is returned; `true` ends the parsing.
  const tree = parser.parse(text, null, { progressCallback: (() => Date.now() > end) as () => void });
  if (tree === null) return undefined;
  try {
    const walk = new Walk(language);
    walk.run(tree.rootNode);
    return { symbols: walk.symbols, names: walk.names };
  } finally {
    tree.delete();
  }
}
