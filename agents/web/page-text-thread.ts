/** The thread that makes a page's HTML into text: the article, if there is one, else all text of the page. */

import { parentPort, workerData } from 'node:worker_threads';
import { Readability } from '@mozilla/readability';
import { parseHTML } from 'linkedom';
import type { PageText, PageToRead } from './page-text.ts';

/** Elements that begin a new line. */
const BLOCKS = 'p,div,br,li,tr,h1,h2,h3,h4,h5,h6,section,article,header,footer,table,ul,ol,pre,blockquote,dt,dd';

interface TextNode {
  textContent: string | null;
}

/** The text of a document, with line ends between its blocks. */
function linesOf(document: ReturnType<typeof parseHTML>['document']): string {
  for (const element of document.querySelectorAll('script,style,noscript,template,svg')) element.remove();
  for (const element of document.querySelectorAll(BLOCKS)) element.before('\n');
  const { textContent } = (document.body ?? document.documentElement ?? { textContent: '' }) as TextNode;
  return (textContent ?? '')
    .split('\n')
    .map((line) => line.replaceAll(/\s+/g, ' ').trim())
    .filter((line) => line !== '')
    .join('\n');
}

function read({ html: given }: PageToRead): PageText {
  // The parser adds no elements that a page leaves out.
  const html = /<html[\s>]/i.test(given) ? given : `<html><body>${given}</body></html>`;
  const { document } = parseHTML(html);
  const title = document.querySelector('title')?.textContent?.trim() ?? '';
  let article: ReturnType<Readability['parse']> = null;
  try {
    article = new Readability(parseHTML(html).document as never, { maxElemsToParse: 20_000 }).parse();
  } catch {
    // The whole page is read then.
  }
  const content = article?.content ?? '';
  const body = content === '' ? '' : linesOf(parseHTML(`<html><body>${content}</body></html>`).document);
  const whole = linesOf(document);
  // A short article of a long page is a mistake of the rule that looks for articles.
  return { title: article?.title || title, text: body.length * 4 > whole.length ? body : whole };
}

parentPort?.postMessage(read(workerData as PageToRead));
