/** A program with colours and line numbers; what would be invisible in it is shown. */
import {html, useMemo, useState} from '../lib/dom.js';
import {count, visible} from '../lib/format.js';
import {calmed, highlight} from '../lib/highlight.js';

const MOST_COLOURED = 300_000; // characters; a longer program stays plain
const MOST_LINES = 1500; // until one asks for all
const MOST_PIECES = 20_000; // with colours of their own

/**
 * @param {{code: string, language?: string | null, numbered?: boolean, wrapped?: boolean, label?: string,
 *   mistakes?: {line: number, column: number, message: string}[]}} props
 *   `wrapped`: whether a long line goes on below, so that none of it is out of sight
 */
export function Code({code, language, numbered = false, wrapped = false, mistakes = [], label = 'Code'}) {
  const [all, setAll] = useState(false);
  const lines = useMemo(() => {
    const shown = visible(code.replaceAll('\r\n', '\n').replace(/\n$/, ''));
    return highlight(shown, shown.length > MOST_COLOURED ? null : language);
  }, [code, language]);
  const wrong = useMemo(() => Map.groupBy(mistakes ?? [], ({line}) => line), [mistakes]);
  const shown = useMemo(() => calmed(all ? lines : lines.slice(0, MOST_LINES), MOST_PIECES), [lines, all]);
  return html`
    <pre class=${`code ${numbered ? 'is-numbered' : ''} ${wrapped ? 'is-wrapped' : ''}`} tabindex="0" role="region" aria-label=${label}><code>${shown.map(
      (pieces, index) => html`<${Line} key=${index} pieces=${pieces} mistakes=${wrong.get(index + 1)} />`,
    )}</code></pre>
    ${shown.length < lines.length &&
    html`<button type="button" class="more" onClick=${() => setAll(true)}>Show all ${count(lines.length)} lines</button>`}
  `;
}

function Line({pieces, mistakes}) {
  return html`<span class=${`line ${mistakes ? 'is-wrong' : ''}`}>${pieces.map(({kind, text}) =>
    kind ? html`<span class=${`hl-${kind}`}>${text}</span>` : text,
  )}${'\n'}${mistakes?.map(({message}) => html`<span class="line-mistake"><bdi>${visible(message)}</bdi>${'\n'}</span>`)}</span>`;
}
